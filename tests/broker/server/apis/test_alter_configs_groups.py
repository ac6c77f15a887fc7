"""Configurations of groups, changed and described (KIP-848, E21)."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.catalog.entries import EntryKind, space_of
from coterie.broker.catalog.group_configs import GROUP_CONFIGS
from coterie.wire import messages as m
from coterie.wire.configs import ConfigSource
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.fake_broker import FakeBroker, allow_only
from tests.broker.server.apis.test_describe_configs import (
    APPEND,
    DELETE,
    GROUP,
    SET,
    alter,
    configs_of,
)

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"
SHOWN = [name for name, config in GROUP_CONFIGS.items() if not config.is_internal]
"""The configurations that are shown of every group."""


def value_of(broker: FakeBroker, name: str = SESSION) -> tuple[str, int]:
    [config] = configs_of(broker, GROUP, "g", [name]).configs
    return config.value, config.config_source


@pytest.mark.fact("E21-10")
def test_a_missing_group_has_the_default_configs() -> None:
    broker = FakeBroker(group_consumer_heartbeat_interval_ms=6_000)
    configs = configs_of(broker, GROUP, "g").configs
    assert [one.name for one in configs] == SHOWN
    assert [(one.name, one.value, one.config_source) for one in configs[:3]] == [
        (ASSIGNMENT, "1000", ConfigSource.DEFAULT),
        (HEARTBEAT, "6000", ConfigSource.STATIC_BROKER),
        (SESSION, "45000", ConfigSource.DEFAULT),
    ]
    assert not any(config.read_only or config.is_sensitive for config in configs)


@pytest.mark.fact("E21-04", "E21-04a")
def test_group_resource_type_and_source_are_kafkas_numbers() -> None:
    assert (GROUP, ConfigSource.GROUP) == (32, 8)


def test_group_configs_are_set_and_deleted(broker: FakeBroker) -> None:
    changes = ((SESSION, SET, "50000"), (HEARTBEAT, SET, "7000"))
    assert alter(broker, GROUP, "g", *changes).error_code == 0
    assert value_of(broker) == ("50000", ConfigSource.GROUP)
    assert alter(broker, GROUP, "g", (SESSION, DELETE, None)).error_code == 0
    assert value_of(broker) == ("45000", ConfigSource.DEFAULT)
    assert value_of(broker, HEARTBEAT) == ("7000", ConfigSource.GROUP)


def test_synonyms_of_a_group_config_are_the_broker_settings_as_in_kafka() -> None:
    broker = FakeBroker(group_consumer_session_timeout_ms=46_000)
    setting = f"group.{SESSION}"
    below = [
        (setting, "46000", ConfigSource.STATIC_BROKER),
        (setting, "45000", ConfigSource.DEFAULT),
    ]

    def synonyms() -> list[tuple[str, str, int]]:
        options = {"include_synonyms": True, "include_documentation": True}
        [config] = configs_of(broker, GROUP, "g", [SESSION], **options).configs
        assert "fenced" in config.documentation
        return [(one.name, one.value, one.source) for one in config.synonyms]

    assert synonyms() == below
    alter(broker, GROUP, "g", (SESSION, SET, "50000"))
    assert synonyms() == [(SESSION, "50000", ConfigSource.GROUP), *below]


@pytest.mark.fact("E21-07", "E21-07a", "E21-07b", "E21-07c")
@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("g", ("no.such", SET, "5"), ErrorCode.INVALID_CONFIG),
        ("g", (SESSION, SET, None), ErrorCode.INVALID_REQUEST),
        ("g", (SESSION, SET, "1"), ErrorCode.INVALID_CONFIG),
        ("g", (SESSION, APPEND, "50000"), ErrorCode.INVALID_CONFIG),
        ("g", (SESSION, 4, "50000"), ErrorCode.INVALID_REQUEST),
        ("", (SESSION, SET, "50000"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_change_refuses_all_changes_of_its_resource(
    broker: FakeBroker, name: str, change: tuple[str, int, str | None], code: int
) -> None:
    result = alter(broker, GROUP, name, (HEARTBEAT, SET, "7000"), change)
    assert result.error_code == code
    assert result.error_message
    assert value_of(broker, HEARTBEAT) == ("5000", ConfigSource.DEFAULT)


@pytest.mark.fact("E21-07c")
def test_each_resource_has_its_own_result(broker: FakeBroker) -> None:
    resources = [
        m.IncrementalAlterConfigsResource(
            resource_type=GROUP,
            resource_name=name,
            configs=[
                m.IncrementalAlterableConfig(
                    name=SESSION, config_operation=SET, value=value
                )
            ],
        )
        for name, value in (("a", "1"), ("g", "50000"))
    ]
    request = m.IncrementalAlterConfigsRequest(resources=resources)
    answer = broker.call(request, 1)
    assert [one.error_code for one in answer.responses] == [40, 0]
    assert value_of(broker) == ("50000", ConfigSource.GROUP)
    resources[1].configs[0].value = "55000"
    request = m.IncrementalAlterConfigsRequest(resources=resources, validate_only=True)
    answer = broker.call(request, 1)
    assert [one.error_code for one in answer.responses] == [40, 0]
    assert value_of(broker) == ("50000", ConfigSource.GROUP)


def test_describing_a_group_with_an_empty_name_is_refused(broker: FakeBroker) -> None:
    assert configs_of(broker, GROUP, "").error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.fact("E21-09", "E21-09a")
def test_group_configs_need_operations_on_the_group(broker: FakeBroker) -> None:
    change = (SESSION, SET, "50000")
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert refused == 30

    def checks(*allowed: tuple[str, str]) -> tuple[int, int]:
        broker.authorizer = allow_only(*allowed)
        altered = alter(broker, GROUP, "g", change).error_code
        return altered, configs_of(broker, GROUP, "g").error_code

    assert checks(("ALTER_CONFIGS", "h"), ("DESCRIBE_CONFIGS", "h")) == (30, 30)
    assert checks(("ALTER_CONFIGS", "g")) == (0, 30)
    assert checks(("DESCRIBE_CONFIGS", "g"), ("READ", "g")) == (30, 0)


@pytest.mark.fact("E21-09", "E21-09a")
def test_the_authorizer_is_called_for_the_group_resource(broker: FakeBroker) -> None:
    checks: list[tuple[str, str, str]] = []

    class Listens:
        def authorize(self, _: object, operation: Any, kind: Any, name: str) -> bool:
            checks.append((operation.name, kind.name, name))
            return True

    broker.authorizer = Listens()
    alter(broker, GROUP, "g", (SESSION, SET, "50000"))
    configs_of(broker, GROUP, "g")
    assert checks == [
        ("ALTER_CONFIGS", "GROUP", "g"),
        ("DESCRIBE_CONFIGS", "GROUP", "g"),
    ]


@pytest.mark.fact("E21-01")
def test_group_configs_survive_a_restart(broker: FakeBroker) -> None:
    alter(broker, GROUP, "g", (SESSION, SET, "50000"))
    [(key, value)] = broker.log.items(space_of(EntryKind.GROUP_CONFIG))
    assert (key, value) == (b"g", b'{"consumer.session.timeout.ms":50000}')
    broker.restart()
    assert value_of(broker) == ("50000", ConfigSource.GROUP)
    assert broker.catalog.group_configs.session_timeout_ms("g") == 50_000
    alter(broker, GROUP, "g", (SESSION, DELETE, None))
    assert not [*broker.log.items(space_of(EntryKind.GROUP_CONFIG))]


def test_only_requested_config_names_are_described(broker: FakeBroker) -> None:
    resources = [
        m.DescribeConfigsResource(
            resource_type=GROUP, resource_name="g", configuration_keys=keys
        )
        for keys in ([HEARTBEAT, "no.such"], [])
    ]
    answer = broker.call(m.DescribeConfigsRequest(resources=resources), 4)
    assert [[one.name for one in found.configs] for found in answer.results] == [
        [HEARTBEAT],
        SHOWN,
    ]


def test_at_most_catalog_max_entries_groups_have_configs() -> None:
    broker = FakeBroker(catalog_max_entries=1)
    assert alter(broker, GROUP, "g", (SESSION, SET, "50000")).error_code == 0
    refused = alter(broker, GROUP, "h", (SESSION, SET, "50000"))
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert alter(broker, GROUP, "g", (SESSION, SET, "51000")).error_code == 0


def test_a_request_changes_at_most_10_000_configs(broker: FakeBroker) -> None:
    resources = [
        m.IncrementalAlterConfigsResource(
            resource_type=GROUP,
            resource_name=f"g{at}",
            configs=[
                m.IncrementalAlterableConfig(
                    name=SESSION, config_operation=SET, value="50000"
                )
            ],
        )
        for at in range(10_001)
    ]
    request = m.IncrementalAlterConfigsRequest(resources=resources)
    codes = {each.error_code for each in broker.call(request, 1).responses}
    assert codes == {ErrorCode.POLICY_VIOLATION}
    assert not broker.catalog.group_configs.groups
