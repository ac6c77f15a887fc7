"""Configurations of groups, described and changed through the APIs (KIP-848, E21)."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.catalog.entries import Kind, space_of
from coterie.server.apis import describe_configs, incremental_alter_configs
from coterie.wire.config_kinds import ConfigSource
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
from tests.data.test_configs import APPEND, DELETE, GROUP, SET, Only, alter, configs_of
from tests.data.world import World

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


@pytest.fixture
def world() -> World:
    return World()


def value_of(world: World, name: str = SESSION) -> tuple[str, int]:
    [config] = configs_of(world, GROUP, "g", [name]).configs
    return config.value, config.config_source


@pytest.mark.fact("E21-10")
def test_a_group_that_is_not_there_has_the_defaults() -> None:
    world = World(group_consumer_heartbeat_interval_ms=6_000)
    configs = configs_of(world, GROUP, "g").configs
    assert [(one.name, one.value, one.config_source) for one in configs] == [
        (ASSIGNMENT, "1000", ConfigSource.DEFAULT),
        (HEARTBEAT, "6000", ConfigSource.STATIC_BROKER),
        (SESSION, "45000", ConfigSource.DEFAULT),
    ]
    assert not any(config.read_only or config.is_sensitive for config in configs)


def test_the_numbers_of_a_groups_configs_are_kafkas() -> None:
    assert (GROUP, ConfigSource.GROUP) == (32, 8)


def test_they_are_set_and_taken_back(world: World) -> None:
    changes = ((SESSION, SET, "50000"), (HEARTBEAT, SET, "7000"))
    assert alter(world, GROUP, "g", *changes).error_code == 0
    assert value_of(world) == ("50000", ConfigSource.GROUP)
    assert alter(world, GROUP, "g", (SESSION, DELETE, None)).error_code == 0
    assert value_of(world) == ("45000", ConfigSource.DEFAULT)
    assert value_of(world, HEARTBEAT) == ("7000", ConfigSource.GROUP)


def test_synonyms_are_the_servers_settings_as_apache_kafka_lists_them() -> None:
    world = World(group_consumer_session_timeout_ms=46_000)
    setting = f"group.{SESSION}"
    below = [
        (setting, "46000", ConfigSource.STATIC_BROKER),
        (setting, "45000", ConfigSource.DEFAULT),
    ]

    def synonyms() -> list[tuple[str, str, int]]:
        options = {"include_synonyms": True, "include_documentation": True}
        [config] = configs_of(world, GROUP, "g", [SESSION], **options).configs
        assert "fenced" in config.documentation
        return [(one.name, one.value, one.source) for one in config.synonyms]

    assert synonyms() == below
    alter(world, GROUP, "g", (SESSION, SET, "50000"))
    assert synonyms() == [(SESSION, "50000", ConfigSource.GROUP), *below]


@pytest.mark.fact("E21-07")
@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("g", ("no.such", SET, "5"), ErrorCode.INVALID_CONFIG),
        ("g", (SESSION, SET, None), ErrorCode.INVALID_CONFIG),
        ("g", (SESSION, SET, "1"), ErrorCode.INVALID_CONFIG),
        ("g", (SESSION, APPEND, "50000"), ErrorCode.INVALID_CONFIG),
        ("g", (SESSION, 4, "50000"), ErrorCode.INVALID_REQUEST),
        ("", (SESSION, SET, "50000"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_impossible_change_is_refused_and_the_rest_of_it_too(
    world: World, name: str, change: tuple[str, int, str | None], code: int
) -> None:
    result = alter(world, GROUP, name, (HEARTBEAT, SET, "7000"), change)
    assert result.error_code == code
    assert result.error_message
    assert value_of(world, HEARTBEAT) == ("5000", ConfigSource.DEFAULT)


@pytest.mark.fact("E21-07")
def test_each_resource_is_judged_on_its_own(world: World) -> None:
    resources = [
        AlterConfigsResource(
            resource_type=GROUP,
            resource_name=name,
            configs=[AlterableConfig(name=SESSION, config_operation=SET, value=value)],
        )
        for name, value in (("a", "1"), ("g", "50000"))
    ]
    request = IncrementalAlterConfigsRequest(resources=resources)
    answer = world.call(incremental_alter_configs, request, 1)
    assert [one.error_code for one in answer.responses] == [40, 0]
    assert value_of(world) == ("50000", ConfigSource.GROUP)
    resources[1].configs[0].value = "55000"
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=True)
    answer = world.call(incremental_alter_configs, request, 1)
    assert [one.error_code for one in answer.responses] == [40, 0]
    assert value_of(world) == ("50000", ConfigSource.GROUP)


@pytest.mark.fact("E21-07")
def test_no_group_with_an_empty_name_is_described(world: World) -> None:
    assert configs_of(world, GROUP, "").error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.fact("E21-09")
def test_they_need_permission_on_the_group(world: World) -> None:
    change = (SESSION, SET, "50000")
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert refused == 30

    def asked(*allowed: tuple[str, str]) -> tuple[int, int]:
        world.authorizer = Only(*allowed)
        altered = alter(world, GROUP, "g", change).error_code
        return altered, configs_of(world, GROUP, "g").error_code

    assert asked(("ALTER_CONFIGS", "h"), ("DESCRIBE_CONFIGS", "h")) == (30, 30)
    assert asked(("ALTER_CONFIGS", "g")) == (0, 30)
    assert asked(("DESCRIBE_CONFIGS", "g"), ("READ", "g")) == (30, 0)


@pytest.mark.fact("E21-09")
def test_permission_is_asked_of_the_authorizer_for_a_group(world: World) -> None:
    asked: list[tuple[str, str, str]] = []

    class Listens:
        def authorize(self, _: object, operation: Any, kind: Any, name: str) -> bool:
            asked.append((operation.name, kind.name, name))
            return True

    world.authorizer = Listens()
    alter(world, GROUP, "g", (SESSION, SET, "50000"))
    configs_of(world, GROUP, "g")
    assert asked == [
        ("ALTER_CONFIGS", "GROUP", "g"),
        ("DESCRIBE_CONFIGS", "GROUP", "g"),
    ]


@pytest.mark.fact("E21-01", "E21-02")
def test_they_are_kept_with_the_catalog_over_a_restart(world: World) -> None:
    alter(world, GROUP, "g", (SESSION, SET, "50000"))
    [(key, value)] = world.log.items(space_of(Kind.GROUP_CONFIG))
    assert (key, value) == (b"g", b'{"consumer.session.timeout.ms":50000}')
    world.restart()
    assert value_of(world) == ("50000", ConfigSource.GROUP)
    assert world.catalog.group_configs.session_timeout_ms("g") == 50_000
    alter(world, GROUP, "g", (SESSION, DELETE, None))
    assert not [*world.log.items(space_of(Kind.GROUP_CONFIG))]


def test_only_what_is_asked_for_is_described(world: World) -> None:
    resources = [
        DescribeConfigsResource(
            resource_type=GROUP, resource_name="g", configuration_keys=keys
        )
        for keys in ([HEARTBEAT, "no.such"], [])
    ]
    answer = world.call(
        describe_configs, DescribeConfigsRequest(resources=resources), 4
    )
    assert [[one.name for one in found.configs] for found in answer.results] == [
        [HEARTBEAT],
        [],
    ]
