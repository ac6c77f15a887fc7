"""The APIs that describe configurations.

===================  ===  ==================================================
API                  key  versions
===================  ===  ==================================================
DescribeConfigs      32   1-4 (1: synonyms, KIP-226; 3: types, KIP-569)
ListConfigResources  74   0-1 (KIP-714, KIP-1142)
===================  ===  ==================================================

Topics, brokers and groups have configurations. The nodes of a process share their
settings. A group need not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from coterie.auth.acl import Operation
from coterie.broker.catalog.configs import (
    BROKER_CONFIGS,
    CLUSTER_ONLY,
    DYNAMIC,
    TOPIC_CONFIGS,
    TopicConfig,
    broker_config_type,
    broker_config_value,
    broker_synonym,
    has_broker_default,
)
from coterie.broker.catalog.group_configs import GROUP_CONFIGS
from coterie.broker.catalog.topics import Topic, check_topic_name
from coterie.broker.server.broker import Broker
from coterie.broker.server.call import Call, in_slices
from coterie.errors import ApiError
from coterie.settings import SECRETS, Settings
from coterie.types import GroupId
from coterie.wire import messages as m
from coterie.wire.configs import ConfigResourceType, ConfigSource, ConfigType
from coterie.wire.error_codes import ErrorCode

# DescribeConfigs.

_DEFAULTS = Settings()


@in_slices
def describe_configs(call: Call) -> Iterator[None]:
    """Describe the configurations of each resource. Requires DESCRIBE_CONFIGS on it.

    No configuration keys mean all, as null does. A resource that is repeated with the
    same keys is described once.
    """
    request: m.DescribeConfigsRequest = call.request
    response = m.DescribeConfigsResponse()
    resources = {_identity(resource): resource for resource in request.resources}
    for resource in resources.values():
        yield
        result = m.DescribeConfigsResult(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_message="",
        )
        names = set(resource.configuration_keys or ())
        try:
            for config in _resource_configs(call, resource):
                if not names or config.name in names:
                    if not request.include_synonyms:
                        config.synonyms = []
                    if not request.include_documentation:
                        config.documentation = None
                    result.configs.append(config)
        except ApiError as error:
            result.error_code = error.code
            result.error_message = error.message or ""
        response.results.append(result)
    call.respond(response)


def _identity(resource: m.DescribeConfigsResource) -> tuple[object, ...]:
    keys = tuple(resource.configuration_keys or ())
    return resource.resource_type, resource.resource_name, keys


def _resource_configs(
    call: Call, resource: m.DescribeConfigsResource
) -> Iterator[m.DescribeConfigsResourceResult]:
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            if not call.authorize_topic(Operation.DESCRIBE_CONFIGS, name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            check_topic_name(name)
            topic = call.node.broker.catalog.topics.get(name)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return _topic_configs(call, topic)
        case ConfigResourceType.BROKER:
            if not call.authorize_cluster(Operation.DESCRIBE_CONFIGS):
                raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            if name != "":
                check_broker_name(call, name)
                return _broker_configs(call)
            return _cluster_configs(call)
        case ConfigResourceType.GROUP:
            if not call.authorize_group(Operation.DESCRIBE_CONFIGS, name):
                raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if name == "":
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, "Group name must not be empty"
                )
            return _group_configs(call, name)
        case _:
            raise unsupported_resource(resource.resource_type)


def unsupported_resource(resource_type: int) -> ApiError:
    """Return the error for a resource type without configurations."""
    names = {int(each): each.name for each in ConfigResourceType}
    name = names.get(resource_type, resource_type)
    return ApiError(
        ErrorCode.INVALID_REQUEST,
        f"Configurations of resource type {name} are not supported: "
        "only those of TOPIC, BROKER and GROUP are.",
    )


def check_broker_name(call: Call, name: str) -> None:
    """Raise ApiError INVALID_REQUEST unless `name` is this node's id."""
    if re.fullmatch(r"[+-]?[0-9]+", name) is None:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Broker id must be an integer, but it is: {name}",
        )
    if name != str(call.node.node_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {call.node.node_id} or empty string, but "
            f"received {name}",
        )


def _topic_configs(
    call: Call, topic: Topic
) -> Iterator[m.DescribeConfigsResourceResult]:
    catalog = call.node.broker.catalog
    for config in TOPIC_CONFIGS.values():
        synonyms = []
        if (own := topic.configs.get(config.name)) is not None:
            synonyms.append(_synonym(config.name, own, ConfigSource.DYNAMIC_TOPIC))
        below: Iterable[m.DescribeConfigsSynonym] = ()
        if config.synonym is not None:
            below = _setting_synonyms(call, config.synonym)
        elif has_broker_default(config.name):
            name = broker_synonym(config.name)
            below = [_synonym(name, config.default, ConfigSource.DEFAULT)]
        synonyms += (
            each
            for each in below
            if has_broker_default(config.name) or each.source != ConfigSource.DEFAULT
        )
        result = _config(config.name, synonyms, config.type)
        result.value = catalog.effective_config(topic, config.name)
        result.documentation = config.documentation
        yield result


def _group_configs(
    call: Call, group_id: GroupId
) -> Iterator[m.DescribeConfigsResourceResult]:
    own = call.node.broker.catalog.group_configs.own(group_id)
    for config in GROUP_CONFIGS.values():
        if config.is_internal and config.name not in own:
            continue
        if config.default is None:
            synonyms = list(_setting_synonyms(call, config.setting))
        else:
            default = str(config.default)
            synonyms = [_synonym(config.setting, default, ConfigSource.DEFAULT)]
        if config.name in own:
            value = str(own[config.name])
            synonyms.insert(0, _synonym(config.name, value, ConfigSource.GROUP))
        result = _config(config.name, synonyms, config.type)
        result.documentation = config.documentation
        yield result


def _broker_configs(call: Call) -> Iterator[m.DescribeConfigsResourceResult]:
    """Yield the node's address and id, which are not settings, and all settings."""
    node = call.node
    listener = f"{node.protocol}://{node.host}:{node.port}"
    for name, value, config_type in (
        ("advertised.listeners", listener, ConfigType.LIST),
        ("node.id", str(node.node_id), ConfigType.INT),
    ):
        synonym = _synonym(name, value, ConfigSource.STATIC_BROKER)
        result = _config(name, [synonym], config_type)
        result.read_only = True
        yield result
    settings = call.node.broker.catalog.settings
    for name in sorted(BROKER_CONFIGS):
        synonyms = list(_setting_synonyms(call, name))
        result = _config(name, synonyms, broker_config_type(settings, name))
        result.read_only = name not in DYNAMIC
        result.is_sensitive = name in SECRETS
        yield result


def _cluster_configs(call: Call) -> Iterator[m.DescribeConfigsResourceResult]:
    """Yield the dynamic configurations of all brokers."""
    of_cluster = ConfigSource.DYNAMIC_DEFAULT_BROKER
    for config in _broker_configs(call):
        if config.config_source == of_cluster:
            config.synonyms = [
                synonym for synonym in config.synonyms if synonym.source == of_cluster
            ]
            yield config


def _config(
    name: str, synonyms: list[m.DescribeConfigsSynonym], config_type: ConfigType
) -> m.DescribeConfigsResourceResult:
    """Return a configuration with the value and source of its first synonym."""
    first = synonyms[0] if synonyms else _synonym(name, None, ConfigSource.DEFAULT)
    return m.DescribeConfigsResourceResult(
        name=name,
        value=first.value,
        config_source=first.source,
        synonyms=synonyms,
        config_type=config_type,
        documentation=None,
    )


def _synonym(
    name: str, value: str | None, source: ConfigSource
) -> m.DescribeConfigsSynonym:
    return m.DescribeConfigsSynonym(name=name, value=value, source=source)


def _setting_synonyms(call: Call, name: str) -> Iterator[m.DescribeConfigsSynonym]:
    """Yield the source of a broker setting, and its default."""
    source = _setting_source(call, name)
    if source is not ConfigSource.DEFAULT:
        value = broker_config_value(call.node.broker.catalog.settings, name)
        yield _synonym(name, value, source)
    default = broker_config_value(_DEFAULTS, name)
    yield _synonym(name, default, ConfigSource.DEFAULT)


def default_source(call: Call, config: TopicConfig) -> ConfigSource:
    """Return the source of a configuration that a topic does not set."""
    if config.synonym is None:
        return ConfigSource.DEFAULT
    return _setting_source(call, config.synonym)


def _setting_source(call: Call, name: str) -> ConfigSource:
    catalog = call.node.broker.catalog
    if name in catalog.broker_configs or name in CLUSTER_ONLY:
        return ConfigSource.DYNAMIC_DEFAULT_BROKER
    attribute = BROKER_CONFIGS[name]
    if getattr(catalog.settings, attribute) != getattr(_DEFAULTS, attribute):
        return ConfigSource.STATIC_BROKER
    return ConfigSource.DEFAULT


# ListConfigResources.

_RESOURCE_NAMES: Final[Mapping[int, Callable[[Broker], Iterable[str]]]] = {
    ConfigResourceType.TOPIC: lambda broker: broker.catalog.topics,
    ConfigResourceType.BROKER: lambda broker: [
        str(node.node_id) for node in broker.nodes
    ],
    ConfigResourceType.BROKER_LOGGER: lambda _: (),
    ConfigResourceType.CLIENT_METRICS: lambda _: (),
    ConfigResourceType.GROUP: lambda broker: broker.catalog.group_configs.groups,
}


def list_config_resources(call: Call) -> None:
    """List the resources of the requested types, or of all types. Requires
    DESCRIBE_CONFIGS on the cluster.

    A group is listed when it has its own configurations, whether it exists or not.
    Brokers have no loggers here, and there are no client metrics, so version 0, which
    lists client metrics only, returns nothing.
    """
    response = m.ListConfigResourcesResponse()
    if not call.authorize_cluster(Operation.DESCRIBE_CONFIGS):
        response.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        call.respond(response)
        return
    request: m.ListConfigResourcesRequest = call.request
    kinds = (
        [ConfigResourceType.CLIENT_METRICS]
        if call.api_version == 0
        else _RESOURCE_NAMES
    )
    requested = list(dict.fromkeys(request.resource_types or kinds))
    if all(kind in _RESOURCE_NAMES for kind in requested):
        response.config_resources = [
            m.ConfigResource(resource_name=name, resource_type=kind)
            for kind in requested
            for name in _RESOURCE_NAMES[kind](call.node.broker)
        ]
    else:
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
    call.respond(response)
