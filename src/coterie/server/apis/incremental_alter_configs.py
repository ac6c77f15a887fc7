"""IncrementalAlterConfigs, key 44: versions 0-1 (KIP-339).

Topics, groups (KIP-848), and the few broker settings that can change while running. All
nodes of a process share their settings, so a change to one broker is a change to all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import IntEnum

from coterie.auth.authorizer import Operation
from coterie.catalog.broker_configs import check_broker_config
from coterie.catalog.entries import Entry
from coterie.catalog.group_configs import check_group_name
from coterie.catalog.topic_configs import TOPIC_CONFIGS
from coterie.catalog.topics import check_topic_name
from coterie.errors import ApiError
from coterie.server.apis.describe_configs import (
    check_broker_name,
    unsupported_resource,
)
from coterie.server.apis.groups import may_group
from coterie.server.apis.support import may_cluster, may_topic, unknown_partition
from coterie.server.call import Call
from coterie.types import GroupId, TopicName
from coterie.wire.config_kinds import ConfigType, ResourceKind
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class Change(IntEnum):
    """What to do with a configuration."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def handle(call: Call) -> None:
    """Change each resource, or say why not; answer when that is durable."""
    request: IncrementalAlterConfigsRequest = call.request
    results = change_all(call, request.resources)

    def durable(error: ErrorCode) -> None:
        for result in results:
            result.error_code = result.error_code or error
        call.answer(IncrementalAlterConfigsResponse(responses=results))

    call.node.broker.data.when_durable(durable)


def change_all(
    call: Call, resources: Sequence[AlterConfigsResource]
) -> list[AlterConfigsResourceResponse]:
    """Stage what changes, unless the request only wants it checked; the answers."""
    results = []
    named = Counter(
        (resource.resource_type, resource.resource_name) for resource in resources
    )
    for resource in resources:
        answer = AlterConfigsResourceResponse(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_message=None,
        )
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                )
            entries = _alter(call, resource)
            if not call.request.validate_only:
                call.node.broker.data.stage(entries)
        except ApiError as error:
            answer.error_code, answer.error_message = error.code, error.message
        results.append(answer)
    return results


def _alter(call: Call, resource: AlterConfigsResource) -> Sequence[Entry]:
    names = Counter(config.name for config in resource.configs)
    if any(count > 1 for count in names.values()):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if resource.resource_type == ResourceKind.TOPIC:
        return _alter_topic(call, resource.resource_name, resource.configs)
    if resource.resource_type == ResourceKind.BROKER:
        return _alter_broker(call, resource.resource_name, resource.configs)
    if resource.resource_type == ResourceKind.GROUP:
        return _alter_group(call, resource.resource_name, resource.configs)
    raise unsupported_resource(resource.resource_type)


def _alter_topic(
    call: Call, name: TopicName, configs: Sequence[AlterableConfig]
) -> Sequence[Entry]:
    catalog = call.node.broker.catalog
    if not may_topic(call, Operation.ALTER_CONFIGS, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if name == "":
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."
        )
    check_topic_name(name)
    topic = catalog.topics.get(name)
    if topic is None:
        raise unknown_partition()
    changes: dict[str, str | None] = {}
    for config in configs:
        if config.name not in TOPIC_CONFIGS:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {config.name}"
            )
        held = catalog.effective_config(topic, config.name)
        is_list = TOPIC_CONFIGS[config.name].type is ConfigType.LIST
        changes[config.name] = _new_value(config, held, is_list=is_list)
    return [catalog.set_topic_configs(name, changes)]


def _alter_broker(
    call: Call, name: str, configs: Sequence[AlterableConfig]
) -> Sequence[Entry]:
    catalog = call.node.broker.catalog
    if not may_cluster(call, Operation.ALTER_CONFIGS):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if name != "":
        check_broker_name(call, name)
    entries = []
    for config in configs:
        value = _new_value(config, "", is_list=False)
        check_broker_config(config.name, value)
        entries.append(catalog.set_broker_config(config.name, value))
    return entries


def _alter_group(
    call: Call, group_id: GroupId, configs: Sequence[AlterableConfig]
) -> Sequence[Entry]:
    """Any node does: what it changes is no state of the group (E21-03)."""
    if not may_group(call, Operation.ALTER_CONFIGS, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    check_group_name(group_id)
    for config in configs:
        if config.value is None and config.config_operation != Change.DELETE:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Null value not supported for group configs: {config.name}",
            )
    changes = {config.name: _new_value(config, "", is_list=False) for config in configs}
    return [call.node.broker.catalog.group_configs.alter(group_id, changes)]


def _new_value(config: AlterableConfig, held: str, *, is_list: bool) -> str | None:
    """The value after the change; None to go back to the default."""
    if config.config_operation == Change.DELETE:
        return None
    if config.value is None:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for: {config.name}"
        )
    if config.config_operation == Change.SET:
        return config.value
    if config.config_operation not in {Change.APPEND, Change.SUBTRACT}:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unknown operation type {config.config_operation}",
        )
    if not is_list:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {Change(config.config_operation).name} to key {config.name} "
            "because its type is not LIST.",
        )
    named = [element for element in config.value.split(",") if element]
    values = [element for element in held.split(",") if element]
    if config.config_operation == Change.APPEND:
        values += [element for element in named if element not in values]
    else:
        values = [element for element in values if element not in named]
    return ",".join(values)
