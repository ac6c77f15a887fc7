"""Configurations described and changed through the APIs."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.server.apis import (
    describe_configs,
    incremental_alter_configs,
    metadata,
)
from coterie.wire.config_kinds import ConfigSource, ResourceKind
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from coterie.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from coterie.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.data.world import World

NEWEST = 13


class Only:
    """An authorizer that lets only some operations on some names pass."""

    def __init__(self, *allowed: tuple[str, str]) -> None:
        self._allowed = allowed

    def authorize(self, _: object, operation: Any, __: object, name: str) -> bool:
        return (operation.name, name) in self._allowed


@pytest.fixture
def world() -> World:
    return World()


def describe(
    world: World, *names: str | None, version: int = NEWEST, **options: Any
) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return world.call(metadata, MetadataRequest(topics=topics, **options), version)


def configs_of(
    world: World,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    **options: Any,
) -> Any:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[resource], **options)
    [result] = world.call(describe_configs, request, 4).results
    return result


def alter(
    world: World, kind: int, name: str, *changes: tuple[str, int, str | None]
) -> Any:
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    [result] = world.call(incremental_alter_configs, request, 1).responses
    return result


SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, GROUP = ResourceKind.TOPIC, ResourceKind.BROKER, ResourceKind.GROUP
LOGGER = ResourceKind.BROKER_LOGGER


def value_of(world: World, name: str = "retention.ms") -> tuple[str, int]:
    [config] = configs_of(world, TOPIC, "a", [name]).configs
    return config.value, config.config_source


def test_a_topics_configs_are_set_and_taken_back(world: World) -> None:
    world.create("a")
    assert value_of(world) == ("604800000", ConfigSource.DEFAULT)
    assert alter(world, TOPIC, "a", ("retention.ms", SET, "5")).error_code == 0
    assert value_of(world) == ("5", ConfigSource.DYNAMIC_TOPIC)
    assert alter(world, TOPIC, "a", ("retention.ms", DELETE, None)).error_code == 0
    assert value_of(world) == ("604800000", ConfigSource.DEFAULT)


def test_a_list_is_appended_to_and_subtracted_from(world: World) -> None:
    world.create("a")
    alter(world, TOPIC, "a", ("cleanup.policy", APPEND, "compact"))
    assert value_of(world, "cleanup.policy")[0] == "delete,compact"
    alter(world, TOPIC, "a", ("cleanup.policy", SUBTRACT, "delete"))
    assert value_of(world, "cleanup.policy")[0] == "compact"


def test_a_topic_may_have_no_cleanup_policy_at_all(world: World) -> None:
    world.create("a")
    alter(world, TOPIC, "a", ("cleanup.policy", SUBTRACT, "delete"))
    assert value_of(world, "cleanup.policy")[0] == ""


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        (TOPIC, "a", ("no.such", SET, "5"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "a", ("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "a", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (TOPIC, "a", ("retention.ms", APPEND, "5"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "a", ("retention.ms", 4, "5"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "b", ("retention.ms", SET, "5"), 3),
        (TOPIC, "", ("retention.ms", SET, "5"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("num.partitions", SET, "5"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("message.max.bytes", SET, "-1"), ErrorCode.INVALID_CONFIG),
        (BROKER, "2", ("message.max.bytes", SET, "5"), ErrorCode.INVALID_REQUEST),
        (LOGGER, "1", ("x", SET, "5"), ErrorCode.INVALID_REQUEST),
        (99, "g", ("x", SET, "5"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_impossible_change_is_refused(
    world: World,
    kind: int,
    name: str,
    change: tuple[str, int, str | None],
    code: int,
) -> None:
    world.create("a")
    result = alter(world, kind, name, change)
    assert result.error_code == code
    assert result.error_message


def test_a_config_named_twice_is_refused(world: World) -> None:
    world.create("a")
    change = ("retention.ms", SET, "5")
    assert alter(world, TOPIC, "a", change, change).error_code == 42


def test_a_broker_setting_changes_while_running_and_over_a_restart(
    world: World,
) -> None:
    world.create("a")
    alter(world, BROKER, "1", ("message.max.bytes", SET, "77"))
    world.restart()
    assert value_of(world, "max.message.bytes")[0] == "77"
    [config] = configs_of(world, BROKER, "", None).configs
    assert (config.name, config.value) == ("message.max.bytes", "77")
    assert not config.read_only


def test_a_brokers_settings_are_described_under_kafkas_names(world: World) -> None:
    result = configs_of(world, BROKER, "1")
    configs = {config.name: config for config in result.configs}
    assert configs["num.partitions"].value == "1"
    assert configs["num.partitions"].read_only
    assert configs["auto.create.topics.enable"].value == "true"
    assert configs["node.id"].value == "1"
    assert configs["advertised.listeners"].value.startswith("PLAINTEXT://")
    assert configs["advertised.listeners"].read_only


def test_synonyms_and_documentation_come_on_request(world: World) -> None:
    world.create("a")
    plain = configs_of(world, TOPIC, "a", ["retention.ms"]).configs[0]
    assert (plain.synonyms, plain.documentation) == ([], None)
    full = configs_of(
        world,
        TOPIC,
        "a",
        ["retention.ms"],
        include_synonyms=True,
        include_documentation=True,
    ).configs[0]
    assert [found.name for found in full.synonyms] == ["log.retention.ms"]
    assert full.documentation


def test_configs_of_what_is_not_there_are_refused(world: World) -> None:
    assert configs_of(world, TOPIC, "b").error_code == 3
    assert configs_of(world, BROKER, "7").error_code == ErrorCode.INVALID_REQUEST
    assert configs_of(world, LOGGER, "1").error_code == ErrorCode.INVALID_REQUEST


def test_configs_need_permission(world: World) -> None:
    world.create("a")
    world.authorizer = Only()
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert configs_of(world, TOPIC, "a").error_code == refused
    assert alter(world, TOPIC, "a").error_code == refused
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert configs_of(world, BROKER, "1").error_code == refused
    assert alter(world, BROKER, "1").error_code == refused


@pytest.mark.parametrize("value", ["no", "-1"])
def test_a_dynamic_setting_has_limits(world: World, value: str) -> None:
    result = alter(world, BROKER, "1", ("message.max.bytes", SET, value))
    assert result.error_code == ErrorCode.INVALID_CONFIG


def test_a_dynamic_setting_goes_back_to_its_default(world: World) -> None:
    alter(world, BROKER, "1", ("message.max.bytes", SET, "77"))
    alter(world, BROKER, "1", ("message.max.bytes", DELETE, None))
    assert world.catalog.settings.message_max_bytes == 1_048_588
