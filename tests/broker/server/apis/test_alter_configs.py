"""AlterConfigs and ListConfigResources."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.auth.acl import Operation, ResourceType
from coterie.broker.server.apis.alter_configs import ConfigOperation
from coterie.wire import messages as m
from coterie.wire.configs import ConfigResourceType, ConfigSource
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.in_process_server import InProcessServer

TOPIC, BROKER, GROUP = (
    ConfigResourceType.TOPIC,
    ConfigResourceType.BROKER,
    ConfigResourceType.GROUP,
)
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def resource(kind: int, name: str, **values: str | None) -> m.AlterConfigsResource:
    """Return a resource; "_" in names of configurations stands for "."."""
    configs = [
        m.AlterableConfig(name=key.replace("_", "."), value=value)
        for key, value in values.items()
    ]
    return m.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )


def replace(
    server: InProcessServer,
    *resources: m.AlterConfigsResource,
    version: int = 2,
    **fields: Any,
) -> list[tuple[int, str | None]]:
    request = m.AlterConfigsRequest(resources=list(resources), **fields)
    answers = server.call(request, version).responses
    assert [(each.resource_type, each.resource_name) for each in answers] == [
        (each.resource_type, each.resource_name) for each in resources
    ]
    return [(each.error_code, each.error_message) for each in answers]


def own(server: InProcessServer, kind: int, name: str, source: int) -> dict[str, str]:
    """Return the configurations that a resource has set, by DescribeConfigs."""
    asked = m.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    [result] = server.call(m.DescribeConfigsRequest(resources=[asked]), 4).results
    return {
        config.name: config.value
        for config in result.configs
        if config.config_source == source
    }


def listed(server: InProcessServer, *kinds: int, version: int = 1) -> Any:
    request = m.ListConfigResourcesRequest(resource_types=list(kinds))
    answer = server.call(request, version)
    found = [
        (each.resource_type, each.resource_name) for each in answer.config_resources
    ]
    return answer.error_code, found


@pytest.mark.parametrize("version", [0, 1, 2])
def test_alter_configs_replaces_a_topics_configs(version: int) -> None:
    with InProcessServer() as server:
        first = resource(TOPIC, "t", retention_ms="5", cleanup_policy="compact")
        assert replace(server, first, version=version) == [(0, None)]
        second = resource(TOPIC, "t", retention_ms="6")
        assert replace(server, second, version=version) == [(0, None)]
        assert own(server, TOPIC, "t", ConfigSource.DYNAMIC_TOPIC) == {
            "retention.ms": "6"
        }
        assert replace(server, resource(TOPIC, "t")) == [(0, None)]
        assert own(server, TOPIC, "t", ConfigSource.DYNAMIC_TOPIC) == {}


@pytest.mark.fact("E21-04", "E21-04a", "E21-04b")
def test_a_groups_configs_are_set_by_either_api_and_have_type_32_and_source_8() -> None:
    with InProcessServer() as server:
        change = m.IncrementalAlterableConfig(
            name=HEARTBEAT, config_operation=0, value="7000"
        )
        group = m.IncrementalAlterConfigsResource(
            resource_type=32, resource_name="g", configs=[change]
        )
        request = m.IncrementalAlterConfigsRequest(resources=[group])
        [answer] = server.call(request, 1).responses
        assert answer.error_code == 0
        assert own(server, 32, "g", 8) == {HEARTBEAT: "7000"}
        both = resource(
            32,
            "g",
            consumer_session_timeout_ms="50000",
            consumer_heartbeat_interval_ms="8000",
        )
        assert replace(server, both) == [(0, None)]
        assert own(server, 32, "g", 8) == {SESSION: "50000", HEARTBEAT: "8000"}
        one = resource(32, "g", consumer_session_timeout_ms="51000")
        assert replace(server, one) == [(0, None)]
        assert own(server, 32, "g", 8) == {SESSION: "51000"}
        kinds = ConfigResourceType
        numbers = (kinds.TOPIC, kinds.BROKER, kinds.BROKER_LOGGER, kinds.CLIENT_METRICS)
        assert numbers == (2, 4, 8, 16)


def test_alter_configs_replaces_a_brokers_configs() -> None:
    with InProcessServer() as server:
        limit = resource(BROKER, "", message_max_bytes="5", log_retention_ms="7")
        assert replace(server, limit) == [(0, None)]
        assert replace(server, resource(BROKER, "1", log_retention_ms="8")) == [
            (0, None)
        ]
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER
        assert own(server, BROKER, "1", source) == {
            "log.retention.ms": "8",
            "min.insync.replicas": "1",
        }


REPLICATION_THROTTLE = "leader.replication.throttled.rate"


def incremental(name: str, operation: int, value: str | None) -> Any:
    """Return a request that changes one configuration of broker 1."""
    change = m.IncrementalAlterableConfig(
        name=name, config_operation=operation, value=value
    )
    resource = m.IncrementalAlterConfigsResource(
        resource_type=BROKER, resource_name="1", configs=[change]
    )
    return m.IncrementalAlterConfigsRequest(resources=[resource])


@pytest.mark.parametrize(
    ("name", "operation", "value", "code"),
    [
        (REPLICATION_THROTTLE, ConfigOperation.DELETE, None, ErrorCode.NONE),
        (REPLICATION_THROTTLE, ConfigOperation.SET, "1", ErrorCode.INVALID_REQUEST),
        ("node.id", ConfigOperation.DELETE, None, ErrorCode.INVALID_REQUEST),
    ],
)
def test_replication_throttles_can_only_be_deleted(
    name: str, operation: int, value: str | None, code: ErrorCode
) -> None:
    with InProcessServer() as server:
        response = server.call(incremental(name, operation, value), 1)
    assert response.responses[0].error_code == code


def test_validate_only_changes_nothing() -> None:
    with InProcessServer() as server:
        tried = resource(TOPIC, "t", retention_ms="5")
        assert replace(server, tried, validate_only=True) == [(0, None)]
        assert own(server, TOPIC, "t", ConfigSource.DYNAMIC_TOPIC) == {}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (resource(TOPIC, "t", no_such="5"), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "t", retention_ms=None), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "v", retention_ms="5"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (resource(BROKER, "2", message_max_bytes="5"), ErrorCode.INVALID_REQUEST),
        (resource(8, "1", root="DEBUG"), ErrorCode.INVALID_REQUEST),
        (resource(GROUP, ""), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_change_does_not_affect_other_resources(
    asked: m.AlterConfigsResource, code: ErrorCode
) -> None:
    with InProcessServer() as server:
        fine = resource(TOPIC, "u", retention_ms="5")
        [refused, done] = replace(server, asked, fine)
        assert refused[0] == code
        assert refused[1]
        assert done == (0, None)


def test_a_repeated_resource_or_name_is_refused() -> None:
    with InProcessServer() as server:
        topic = resource(TOPIC, "t", retention_ms="5")
        codes = [code for code, _ in replace(server, topic, topic)]
        assert codes == [ErrorCode.INVALID_REQUEST] * 2
        topic.configs *= 2
        assert replace(server, topic)[0][0] == ErrorCode.INVALID_REQUEST


def test_alter_configs_needs_alter_configs_on_the_resource() -> None:
    denied = (Operation.ALTER_CONFIGS, ResourceType.TOPIC, "t")
    with InProcessServer(denied) as server:
        [(code, _)] = replace(server, resource(TOPIC, "t", retention_ms="5"))
        assert code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert own(server, TOPIC, "t", ConfigSource.DYNAMIC_TOPIC) == {}


def test_groups_with_configs_are_listed() -> None:
    with InProcessServer() as server:
        assert listed(server, GROUP) == (0, [])
        replace(server, resource(GROUP, "g", consumer_session_timeout_ms="50000"))
        assert listed(server, GROUP, GROUP) == (0, [(GROUP, "g")])
        replace(server, resource(GROUP, "g"))
        assert listed(server, GROUP) == (0, [])


def test_no_types_list_all_resources_and_version_0_lists_client_metrics() -> None:
    with InProcessServer(node_count=2) as server:
        replace(server, resource(GROUP, "g", consumer_session_timeout_ms="50000"))
        code, found = listed(server)
        assert code == 0
        assert {(TOPIC, "t"), (BROKER, "2"), (GROUP, "g")} < set(found)
        assert listed(server, version=0) == (0, [])


def test_listing_an_unknown_type_or_without_describe_configs_is_refused() -> None:
    with InProcessServer() as server:
        assert listed(server, GROUP, 3) == (ErrorCode.UNSUPPORTED_VERSION, [])
    denied = (Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, "kafka-cluster")
    with InProcessServer(denied) as server:
        assert listed(server) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
