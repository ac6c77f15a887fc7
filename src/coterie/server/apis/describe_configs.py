"""DescribeConfigs, key 32: versions 1-4 (1: synonyms, KIP-226; 3: types, KIP-569).

Resources: topics, brokers and groups. The settings of all nodes of a process are the
same; a group needs not exist (E21-10).
"""

from __future__ import annotations

from collections.abc import Iterator

from coterie.auth.authorizer import Operation
from coterie.catalog.broker_configs import (
    BROKER_CONFIGS,
    DYNAMIC,
    broker_config_type,
    broker_config_value,
)
from coterie.catalog.group_configs import GROUP_CONFIGS, check_group_name
from coterie.catalog.topic_configs import (
    TOPIC_CONFIGS,
    TopicConfig,
)
from coterie.catalog.topics import Topic, check_topic_name
from coterie.errors import ApiError
from coterie.server.apis.groups import may_group
from coterie.server.apis.support import may_cluster, may_topic, unknown_partition
from coterie.server.call import Call
from coterie.settings import SECRETS, Settings
from coterie.types import GroupId
from coterie.wire.config_kinds import ConfigSource, ConfigType, ResourceKind
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_DEFAULTS = Settings()


def handle(call: Call) -> None:
    """Describe each resource."""
    request: DescribeConfigsRequest = call.request
    results = [_describe(call, resource) for resource in request.resources]
    call.answer(DescribeConfigsResponse(results=results))


def _describe(call: Call, resource: DescribeConfigsResource) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_message=None,
    )
    try:
        found = _find(call, resource)
        wanted = resource.configuration_keys
        result.configs = [
            config for config in found if wanted is None or config.name in wanted
        ]
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
    if not call.request.include_synonyms:
        for config in result.configs:
            config.synonyms = []
    if not call.request.include_documentation:
        for config in result.configs:
            config.documentation = None
    return result


def _find(
    call: Call, resource: DescribeConfigsResource
) -> Iterator[DescribeConfigsResourceResult]:
    name = resource.resource_name
    match resource.resource_type:
        case ResourceKind.TOPIC:
            if not may_topic(call, Operation.DESCRIBE_CONFIGS, name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            check_topic_name(name)
            topic = call.node.broker.catalog.topics.get(name)
            if topic is None:
                raise unknown_partition()
            return _topic_configs(call, topic)
        case ResourceKind.BROKER:
            if not may_cluster(call, Operation.DESCRIBE_CONFIGS):
                raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            if name != "":
                check_broker_name(call, name)
                return _broker_configs(call)
            return (
                config
                for config in _broker_configs(call)
                if config.config_source == ConfigSource.DYNAMIC_DEFAULT_BROKER
            )
        case ResourceKind.GROUP:
            if not may_group(call, Operation.DESCRIBE_CONFIGS, name):
                raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            check_group_name(name)
            return _group_configs(call, name)
        case _:
            raise unsupported_resource(resource.resource_type)


def unsupported_resource(resource_type: int) -> ApiError:
    """The refusal of a resource that has no configurations here."""
    known = ResourceKind.__members__.values()
    name = next((kind.name for kind in known if kind == resource_type), resource_type)
    return ApiError(
        ErrorCode.INVALID_REQUEST,
        f"Configurations of resource type {name} are not supported: "
        "only those of TOPIC, BROKER and GROUP are.",
    )


def check_broker_name(call: Call, name: str) -> None:
    """Raise ApiError INVALID_REQUEST unless `name` is the called node's id."""
    if name != str(call.node.node_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {call.node.node_id} or empty string, but "
            f"received {name}",
        )


def _topic_configs(call: Call, topic: Topic) -> Iterator[DescribeConfigsResourceResult]:
    catalog = call.node.broker.catalog
    for config in TOPIC_CONFIGS.values():
        synonyms = list(_topic_synonyms(call, topic, config))
        yield DescribeConfigsResourceResult(
            name=config.name,
            value=catalog.effective_config(topic, config.name),
            config_source=synonyms[0].source,
            synonyms=synonyms,
            config_type=config.type,
            documentation=config.documentation,
        )


def _topic_synonyms(
    call: Call, topic: Topic, config: TopicConfig
) -> Iterator[DescribeConfigsSynonym]:
    """Where the value could come from, the source that wins first."""
    own = topic.configs.get(config.name)
    if own is not None:
        yield DescribeConfigsSynonym(
            name=config.name, value=own, source=ConfigSource.DYNAMIC_TOPIC
        )
    if config.synonym is None:
        yield DescribeConfigsSynonym(
            name=config.name, value=config.default, source=ConfigSource.DEFAULT
        )
        return
    yield from _setting_synonyms(call, config.synonym)


def _setting_synonyms(call: Call, name: str) -> Iterator[DescribeConfigsSynonym]:
    """Where the server has a setting from, and the default below it."""
    source = _setting_source(call, name)
    if source is not ConfigSource.DEFAULT:
        value = broker_config_value(call.node.broker.catalog.settings, name)
        yield DescribeConfigsSynonym(name=name, value=value, source=source)
    value = broker_config_value(_DEFAULTS, name)
    yield DescribeConfigsSynonym(name=name, value=value, source=ConfigSource.DEFAULT)


def _group_configs(
    call: Call, group_id: GroupId
) -> Iterator[DescribeConfigsResourceResult]:
    own = call.node.broker.catalog.group_configs.own(group_id)
    for config in GROUP_CONFIGS.values():
        synonyms = list(_setting_synonyms(call, config.setting))
        if config.name in own:
            first = DescribeConfigsSynonym(
                name=config.name,
                value=str(own[config.name]),
                source=ConfigSource.GROUP,
            )
            synonyms.insert(0, first)
        yield DescribeConfigsResourceResult(
            name=config.name,
            value=synonyms[0].value,
            config_source=synonyms[0].source,
            synonyms=synonyms,
            config_type=ConfigType.INT,
            documentation=config.documentation,
        )


def _node_configs(call: Call) -> Iterator[DescribeConfigsResourceResult]:
    """What is the node's own and no setting: who it is and where clients find it."""
    node = call.node
    listener = f"{node.protocol}://{node.host}:{node.port}"
    for name, value, kind in (
        ("advertised.listeners", listener, ConfigType.LIST),
        ("node.id", str(node.node_id), ConfigType.INT),
    ):
        source = ConfigSource.STATIC_BROKER
        yield DescribeConfigsResourceResult(
            name=name,
            value=value,
            read_only=True,
            config_source=source,
            synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source)],
            config_type=kind,
            documentation=None,
        )


def _setting_source(call: Call, name: str) -> ConfigSource:
    catalog = call.node.broker.catalog
    if name in catalog.broker_configs:
        return ConfigSource.DYNAMIC_DEFAULT_BROKER
    attribute = BROKER_CONFIGS[name]
    if getattr(catalog.settings, attribute) != getattr(_DEFAULTS, attribute):
        return ConfigSource.STATIC_BROKER
    return ConfigSource.DEFAULT


def _broker_configs(call: Call) -> Iterator[DescribeConfigsResourceResult]:
    yield from _node_configs(call)
    settings = call.node.broker.catalog.settings
    for name in sorted(BROKER_CONFIGS):
        value = broker_config_value(settings, name)
        source = _setting_source(call, name)
        yield DescribeConfigsResourceResult(
            name=name,
            value=value,
            read_only=name not in DYNAMIC,
            config_source=source,
            is_sensitive=name in SECRETS,
            synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source)],
            config_type=broker_config_type(settings, name),
            documentation=None,
        )
