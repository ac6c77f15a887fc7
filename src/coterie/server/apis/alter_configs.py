"""AlterConfigs, key 33: versions 0-2 (KIP-133). Superseded by IncrementalAlterConfigs.

What is given is all that a resource has from now on; everything else it had set goes
back to its default. So a request is read as the single changes that lead there.
"""

from __future__ import annotations

from collections.abc import Iterable

from coterie.server.apis.incremental_alter_configs import Change, change_all
from coterie.server.call import Call
from coterie.wire.config_kinds import ResourceKind
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages import incremental_alter_configs as incremental
from coterie.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(call: Call) -> None:
    """Replace what each resource has set, or say why not; answer when that is
    durable."""
    request: AlterConfigsRequest = call.request
    results = change_all(call, [_changes(call, each) for each in request.resources])

    def durable(error: ErrorCode) -> None:
        answers = [
            AlterConfigsResourceResponse(
                error_code=result.error_code or error,
                error_message=result.error_message,
                resource_type=result.resource_type,
                resource_name=result.resource_name,
            )
            for result in results
        ]
        call.answer(AlterConfigsResponse(responses=answers))

    call.node.broker.data.when_durable(durable)


def _changes(
    call: Call, resource: AlterConfigsResource
) -> incremental.AlterConfigsResource:
    """The same as single changes: what is given is set, what is not is deleted."""
    given = {config.name for config in resource.configs}
    changes = [
        incremental.AlterableConfig(
            name=config.name, config_operation=Change.SET, value=config.value
        )
        for config in resource.configs
    ]
    changes += (
        incremental.AlterableConfig(
            name=name, config_operation=Change.DELETE, value=None
        )
        for name in _own(call, resource)
        if name not in given
    )
    return incremental.AlterConfigsResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=changes,
    )


def _own(call: Call, resource: AlterConfigsResource) -> Iterable[str]:
    """The names of what a resource has set; none when there is no such resource."""
    catalog = call.node.broker.catalog
    if resource.resource_type == ResourceKind.TOPIC:
        topic = catalog.topics.get(resource.resource_name)
        return topic.configs if topic else ()
    if resource.resource_type == ResourceKind.BROKER:
        return catalog.broker_configs
    if resource.resource_type == ResourceKind.GROUP:
        return catalog.group_configs.own(resource.resource_name)
    return ()
