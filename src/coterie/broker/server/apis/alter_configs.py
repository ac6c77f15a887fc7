"""The APIs that change configurations.

=======================  ===  ==================================
API                      key  versions
=======================  ===  ==================================
AlterConfigs             33   0-2 (KIP-133)
IncrementalAlterConfigs  44   0-1 (KIP-339)
=======================  ===  ==================================

Topics, groups (KIP-848) and the broker settings that can change at run time have
configurations. The nodes of a process share their settings: a change to one broker
changes all.

AlterConfigs replaces all configurations of a resource. It is converted to the
incremental changes with the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, TypeAlias

from coterie.auth.acl import Operation
from coterie.broker.catalog.configs import (
    CLUSTER_ONLY,
    REPLICATION_THROTTLES,
    TOPIC_CONFIGS,
    check_broker_config,
    check_topic_config,
)
from coterie.broker.catalog.entries import (
    CHANGES_PER_REQUEST_MAX,
    Entry,
    EntryKind,
    too_many_changes,
)
from coterie.broker.catalog.topics import check_topic_name
from coterie.broker.server.apis.describe_configs import (
    check_broker_name,
    unsupported_resource,
)
from coterie.broker.server.apis.routing import respond_when_durable
from coterie.broker.server.call import Call, in_slices
from coterie.errors import ApiError
from coterie.types import GroupId, TopicName
from coterie.wire import messages as m
from coterie.wire.configs import ConfigResourceType, ConfigType
from coterie.wire.error_codes import ErrorCode

# IncrementalAlterConfigs.


class ConfigOperation(IntEnum):
    """The operations of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@in_slices
def incremental_alter_configs(call: Call) -> Iterator[None]:
    """Change configurations; respond once all are durable. Requires ALTER_CONFIGS on
    each resource."""
    request: m.IncrementalAlterConfigsRequest = call.request
    response = m.IncrementalAlterConfigsResponse()
    yield from _change_all(call, request.resources, response)


def _change_all(
    call: Call,
    resources: Sequence[m.IncrementalAlterConfigsResource],
    response: m.IncrementalAlterConfigsResponse | m.AlterConfigsResponse,
) -> Iterator[None]:
    """Stage the changes, unless `validate_only` is set; respond with a result for
    each."""
    failures = call.node.broker.data.failures
    named = Counter(
        (resource.resource_type, resource.resource_name) for resource in resources
    )
    change_count = sum(len(resource.configs) for resource in resources)
    for resource in resources:
        yield
        result = m.AlterConfigsResourceResponse(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_message=None,
        )
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                )
            _check_changes(resource.configs)
            alter = _ALTER.get(resource.resource_type)
            if alter is None:
                raise unsupported_resource(resource.resource_type)
            entries = alter(call, resource.resource_name, resource.configs)
            if change_count > CHANGES_PER_REQUEST_MAX:
                raise too_many_changes()
            if not call.request.validate_only:
                call.node.broker.data.stage(entries)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        response.responses.append(result)
    respond_when_durable(call, response, response.responses, failures)


def _check_changes(configs: Sequence[m.IncrementalAlterableConfig]) -> None:
    """Raise ApiError INVALID_REQUEST for what Kafka's broker refuses before its
    controller sees the request (`ConfigAdminManager.preprocess`)."""
    names = Counter(config.name for config in configs)
    if any(count > 1 for count in names.values()):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    unset = [
        config.name
        for config in configs
        if config.value is None and config.config_operation != ConfigOperation.DELETE
    ]
    if unset:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Null value not supported for : {', '.join(unset)}",
        )


def _alter_topic(
    call: Call, name: TopicName, configs: Sequence[m.IncrementalAlterableConfig]
) -> Sequence[Entry]:
    catalog = call.node.broker.catalog
    if not call.authorize_topic(Operation.ALTER_CONFIGS, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = catalog.topics.get(name)
    changes: dict[str, str | None] = {}
    for config in configs:
        known = TOPIC_CONFIGS.get(config.name)
        is_list = known is not None and known.type is ConfigType.LIST
        current = ""
        if known is not None and topic is not None:
            current = catalog.effective_config(topic, config.name)
        value = _new_value(config, current, is_list=is_list)
        if value is not None or known is not None:
            changes[config.name] = value
    if name == "":
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."
        )
    check_topic_name(name)
    for key, value in changes.items():
        if value is not None:
            check_topic_config(key, value)
    if topic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
        )
    return [catalog.set_topic_configs(name, changes)]


def _alter_broker(
    call: Call, name: str, configs: Sequence[m.IncrementalAlterableConfig]
) -> Sequence[Entry]:
    catalog = call.node.broker.catalog
    if not call.authorize_cluster(Operation.ALTER_CONFIGS):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if name != "":
        check_broker_name(call, name)
    entries = []
    for config in configs:
        value = _new_value(config, "", is_list=False)
        if value is None and config.name in REPLICATION_THROTTLES:
            continue  # never set, so already deleted
        if config.name in CLUSTER_ONLY and (name != "" or value is None):
            level, change = ("Broker", "altered") if name else ("Cluster", "removed")
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"{level}-level {config.name} cannot be {change} while ELR is enabled.",
            )
        check_broker_config(config.name, value)
        entries.append(catalog.set_broker_config(config.name, value))
    return entries


def _alter_group(
    call: Call, group_id: GroupId, configs: Sequence[m.IncrementalAlterableConfig]
) -> Sequence[Entry]:
    # Any node can change a group's configuration: it is not part of the state of the
    # group's coordinator.
    if not call.authorize_group(Operation.ALTER_CONFIGS, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    catalog = call.node.broker.catalog
    changes = {config.name: _new_value(config, "", is_list=False) for config in configs}
    entry = catalog.group_configs.alter(group_id, changes)
    if group_id not in catalog.group_configs.groups:
        catalog.check_room(EntryKind.GROUP_CONFIG)
    return [entry]


_Alter: TypeAlias = Callable[
    [Call, str, Sequence[m.IncrementalAlterableConfig]], Sequence[Entry]
]
_ALTER: Final[Mapping[int, _Alter]] = {
    ConfigResourceType.TOPIC: _alter_topic,
    ConfigResourceType.BROKER: _alter_broker,
    ConfigResourceType.GROUP: _alter_group,
}


def _new_value(
    config: m.IncrementalAlterableConfig, current: str, *, is_list: bool
) -> str | None:
    """Return the value after the change; None for the default."""
    if config.config_operation == ConfigOperation.DELETE:
        return None
    assert config.value is not None, config.name
    if config.config_operation == ConfigOperation.SET:
        return config.value
    if config.config_operation not in {
        ConfigOperation.APPEND,
        ConfigOperation.SUBTRACT,
    }:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unknown operation type {config.config_operation}",
        )
    if not is_list:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {ConfigOperation(config.config_operation).name} to key "
            f"{config.name} because its type is not LIST.",
        )
    named = [element for element in config.value.split(",") if element]
    values = [element for element in current.split(",") if element]
    if config.config_operation == ConfigOperation.APPEND:
        known = set(values)
        values += [element for element in named if element not in known]
    else:
        removed = set(named)
        values = [element for element in values if element not in removed]
    return ",".join(values)


# AlterConfigs.


@in_slices
def alter_configs(call: Call) -> Iterator[None]:
    """Replace the configurations of each resource; respond once all are durable.
    Requires ALTER_CONFIGS on each resource."""
    request: m.AlterConfigsRequest = call.request
    changes = []
    for resource in request.resources:
        changes.append(_incremental_changes(call, resource))
        yield
    yield from _change_all(call, changes, m.AlterConfigsResponse())


def _incremental_changes(
    call: Call, resource: m.AlterConfigsResource
) -> m.IncrementalAlterConfigsResource:
    """Convert the request to incremental changes: set its configs, delete all
    others."""
    given = {config.name for config in resource.configs}
    changes = [
        m.IncrementalAlterableConfig(
            name=config.name, config_operation=ConfigOperation.SET, value=config.value
        )
        for config in resource.configs
    ]
    changes += (
        m.IncrementalAlterableConfig(
            name=name, config_operation=ConfigOperation.DELETE, value=None
        )
        for name in _own_names(call, resource)
        if name not in given
    )
    return m.IncrementalAlterConfigsResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=changes,
    )


def _own_names(call: Call, resource: m.AlterConfigsResource) -> Iterable[str]:
    """Return the names of a resource's own configurations."""
    catalog = call.node.broker.catalog
    if resource.resource_type == ConfigResourceType.TOPIC:
        topic = catalog.topics.get(resource.resource_name)
        return topic.configs if topic else ()
    if resource.resource_type == ConfigResourceType.BROKER:
        return catalog.broker_configs
    if resource.resource_type == ConfigResourceType.GROUP:
        return catalog.group_configs.own(resource.resource_name)
    return ()
