"""AlterConfigs replaces all that a resource has set; and what has set something."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.auth.authorizer import Operation, ResourceType
from coterie.wire.config_kinds import ConfigSource, ResourceKind
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from coterie.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from coterie.wire.messages.incremental_alter_configs import (
    AlterableConfig as SingleChange,
)
from coterie.wire.messages.incremental_alter_configs import (
    AlterConfigsResource as ChangedResource,
)
from coterie.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from coterie.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.server.apis.in_process import Office

TOPIC, BROKER, GROUP = ResourceKind.TOPIC, ResourceKind.BROKER, ResourceKind.GROUP
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def resource(kind: int, name: str, **values: str | None) -> AlterConfigsResource:
    """Names of configurations are written with "_" for "."."""
    configs = [
        AlterableConfig(name=key.replace("_", "."), value=value)
        for key, value in values.items()
    ]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def replace(
    office: Office, *resources: AlterConfigsResource, version: int = 2, **said: Any
) -> list[tuple[int, str | None]]:
    request = AlterConfigsRequest(resources=list(resources), **said)
    answers = office.call(request, version).responses
    assert [(each.resource_type, each.resource_name) for each in answers] == [
        (each.resource_type, each.resource_name) for each in resources
    ]
    return [(each.error_code, each.error_message) for each in answers]


def own(office: Office, kind: int, name: str, source: int) -> dict[str, str]:
    """What a resource has set, as DescribeConfigs tells."""
    asked = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    [result] = office.call(DescribeConfigsRequest(resources=[asked]), 4).results
    return {
        config.name: config.value
        for config in result.configs
        if config.config_source == source
    }


def listed(office: Office, *kinds: int, version: int = 1) -> Any:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    answer = office.call(request, version)
    found = [
        (each.resource_type, each.resource_name) for each in answer.config_resources
    ]
    return answer.error_code, found


@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_a_topic_had_set_is_replaced(version: int) -> None:
    with Office() as office:
        first = resource(TOPIC, "t", retention_ms="5", cleanup_policy="compact")
        assert replace(office, first, version=version) == [(0, None)]
        second = resource(TOPIC, "t", retention_ms="6")
        assert replace(office, second, version=version) == [(0, None)]
        assert own(office, TOPIC, "t", ConfigSource.DYNAMIC_TOPIC) == {
            "retention.ms": "6"
        }
        assert replace(office, resource(TOPIC, "t")) == [(0, None)]
        assert own(office, TOPIC, "t", ConfigSource.DYNAMIC_TOPIC) == {}


@pytest.mark.fact("E21-04")
def test_a_groups_configs_are_set_by_either_api_and_have_type_32_and_source_8() -> None:
    with Office() as office:
        change = SingleChange(name=HEARTBEAT, config_operation=0, value="7000")
        group = ChangedResource(resource_type=32, resource_name="g", configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[group])
        [answer] = office.call(request, 1).responses
        assert answer.error_code == 0
        assert own(office, 32, "g", 8) == {HEARTBEAT: "7000"}
        both = resource(
            32,
            "g",
            consumer_session_timeout_ms="50000",
            consumer_heartbeat_interval_ms="8000",
        )
        assert replace(office, both) == [(0, None)]
        assert own(office, 32, "g", 8) == {SESSION: "50000", HEARTBEAT: "8000"}
        one = resource(32, "g", consumer_session_timeout_ms="51000")
        assert replace(office, one) == [(0, None)]
        assert own(office, 32, "g", 8) == {SESSION: "51000"}
        kinds = ResourceKind
        numbers = (kinds.TOPIC, kinds.BROKER, kinds.BROKER_LOGGER, kinds.CLIENT_METRICS)
        assert numbers == (2, 4, 8, 16)


def test_a_brokers_configs_are_replaced() -> None:
    with Office() as office:
        limit = resource(BROKER, "", message_max_bytes="5", log_retention_ms="7")
        assert replace(office, limit) == [(0, None)]
        assert replace(office, resource(BROKER, "1", log_retention_ms="8")) == [
            (0, None)
        ]
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER
        assert own(office, BROKER, "1", source) == {"log.retention.ms": "8"}


def test_what_is_only_tried_changes_nothing() -> None:
    with Office() as office:
        tried = resource(TOPIC, "t", retention_ms="5")
        assert replace(office, tried, validate_only=True) == [(0, None)]
        assert own(office, TOPIC, "t", ConfigSource.DYNAMIC_TOPIC) == {}


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
def test_one_impossible_change_hinders_no_other(
    asked: AlterConfigsResource, code: ErrorCode
) -> None:
    with Office() as office:
        fine = resource(TOPIC, "u", retention_ms="5")
        [refused, done] = replace(office, asked, fine)
        assert refused[0] == code
        assert refused[1]
        assert done == (0, None)


def test_a_resource_or_a_name_is_given_once() -> None:
    with Office() as office:
        topic = resource(TOPIC, "t", retention_ms="5")
        codes = [code for code, _ in replace(office, topic, topic)]
        assert codes == [ErrorCode.INVALID_REQUEST] * 2
        topic.configs *= 2
        assert replace(office, topic)[0][0] == ErrorCode.INVALID_REQUEST


def test_who_may_not_change_changes_nothing() -> None:
    denied = (Operation.ALTER_CONFIGS, ResourceType.TOPIC, "t")
    with Office(denied) as office:
        [(code, _)] = replace(office, resource(TOPIC, "t", retention_ms="5"))
        assert code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert own(office, TOPIC, "t", ConfigSource.DYNAMIC_TOPIC) == {}


def test_groups_are_listed_that_have_set_something() -> None:
    with Office() as office:
        assert listed(office, GROUP) == (0, [])
        replace(office, resource(GROUP, "g", consumer_session_timeout_ms="50000"))
        assert listed(office, GROUP, GROUP) == (0, [(GROUP, "g")])
        replace(office, resource(GROUP, "g"))
        assert listed(office, GROUP) == (0, [])


def test_no_types_mean_all_and_version_0_knows_of_metrics_only() -> None:
    with Office(node_count=2) as office:
        replace(office, resource(GROUP, "g", consumer_session_timeout_ms="50000"))
        code, found = listed(office)
        assert code == 0
        assert {(TOPIC, "t"), (BROKER, "2"), (GROUP, "g")} < set(found)
        assert listed(office, version=0) == (0, [])


def test_a_type_that_is_unknown_is_refused_and_so_is_who_may_not() -> None:
    with Office() as office:
        assert listed(office, GROUP, 3) == (ErrorCode.UNSUPPORTED_VERSION, [])
    denied = (Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, "kafka-cluster")
    with Office(denied) as office:
        assert listed(office) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
