"""Configurations of topics and brokers, described and changed."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.wire import messages as m
from coterie.wire.configs import ConfigResourceType, ConfigSource
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.fake_broker import FakeBroker, allow_only

NEWEST = 13


def describe(
    broker: FakeBroker, *names: str | None, version: int = NEWEST, **options: Any
) -> Any:
    topics = [m.MetadataRequestTopic(name=name) for name in names]
    return broker.call(m.MetadataRequest(topics=topics, **options), version)


def configs_of(
    broker: FakeBroker,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    **options: Any,
) -> Any:
    resource = m.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = m.DescribeConfigsRequest(resources=[resource], **options)
    [result] = broker.call(request, 4).results
    return result


def alter(
    broker: FakeBroker, kind: int, name: str, *changes: tuple[str, int, str | None]
) -> Any:
    resource = m.IncrementalAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            m.IncrementalAlterableConfig(
                name=key, config_operation=operation, value=value
            )
            for key, operation, value in changes
        ],
    )
    request = m.IncrementalAlterConfigsRequest(resources=[resource])
    [result] = broker.call(request, 1).responses
    return result


SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, GROUP = (
    ConfigResourceType.TOPIC,
    ConfigResourceType.BROKER,
    ConfigResourceType.GROUP,
)
LOGGER = ConfigResourceType.BROKER_LOGGER


def value_of(broker: FakeBroker, name: str = "retention.ms") -> tuple[str, int]:
    [config] = configs_of(broker, TOPIC, "a", [name]).configs
    return config.value, config.config_source


def test_no_configuration_keys_mean_all(broker: FakeBroker) -> None:
    broker.create("a")
    every = configs_of(broker, TOPIC, "a").configs
    assert configs_of(broker, TOPIC, "a", []).configs == every
    assert len(every) > 20


@pytest.mark.parametrize(
    ("name", "synonym"),
    [
        ("cleanup.policy", "log.cleanup.policy"),
        ("compression.type", "compression.type"),
        ("delete.retention.ms", "log.cleaner.delete.retention.ms"),
        ("file.delete.delay.ms", "log.segment.delete.delay.ms"),
        ("flush.messages", "log.flush.interval.messages"),
        ("index.interval.bytes", "log.index.interval.bytes"),
        ("local.retention.bytes", "log.local.retention.bytes"),
        ("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
        ("max.message.bytes", "message.max.bytes"),
        ("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"),
        ("message.timestamp.type", "log.message.timestamp.type"),
        ("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
        ("preallocate", "log.preallocate"),
        ("retention.bytes", "log.retention.bytes"),
        ("segment.bytes", "log.segment.bytes"),
        ("segment.index.bytes", "log.index.size.max.bytes"),
        ("unclean.leader.election.enable", "unclean.leader.election.enable"),
    ],
)
def test_a_default_of_a_topic_has_the_brokers_name(
    broker: FakeBroker, name: str, synonym: str
) -> None:
    """Compare with the names that Apache Kafka 4.3.1 describes."""
    broker.create("a")
    [config] = configs_of(broker, TOPIC, "a", [name], include_synonyms=True).configs
    assert [each.name for each in config.synonyms] == [synonym]
    assert config.config_source == ConfigSource.DEFAULT


def test_topic_configs_are_set_and_deleted(broker: FakeBroker) -> None:
    broker.create("a")
    assert value_of(broker) == ("604800000", ConfigSource.DEFAULT)
    assert alter(broker, TOPIC, "a", ("retention.ms", SET, "5")).error_code == 0
    assert value_of(broker) == ("5", ConfigSource.DYNAMIC_TOPIC)
    assert alter(broker, TOPIC, "a", ("retention.ms", DELETE, None)).error_code == 0
    assert value_of(broker) == ("604800000", ConfigSource.DEFAULT)


def test_values_are_appended_to_and_subtracted_from_a_list_config(
    broker: FakeBroker,
) -> None:
    broker.create("a")
    alter(broker, TOPIC, "a", ("cleanup.policy", APPEND, "compact"))
    assert value_of(broker, "cleanup.policy")[0] == "delete,compact"
    alter(broker, TOPIC, "a", ("cleanup.policy", SUBTRACT, "delete"))
    assert value_of(broker, "cleanup.policy")[0] == "compact"


def test_a_topic_can_have_an_empty_cleanup_policy(broker: FakeBroker) -> None:
    broker.create("a")
    alter(broker, TOPIC, "a", ("cleanup.policy", SUBTRACT, "delete"))
    assert value_of(broker, "cleanup.policy")[0] == ""


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
def test_an_invalid_change_is_refused(
    broker: FakeBroker,
    kind: int,
    name: str,
    change: tuple[str, int, str | None],
    code: int,
) -> None:
    broker.create("a")
    result = alter(broker, kind, name, change)
    assert result.error_code == code
    assert result.error_message


def test_a_config_named_twice_is_refused(broker: FakeBroker) -> None:
    broker.create("a")
    change = ("retention.ms", SET, "5")
    assert alter(broker, TOPIC, "a", change, change).error_code == 42


def test_a_dynamic_broker_setting_changes_at_run_time_and_survives_a_restart(
    broker: FakeBroker,
) -> None:
    broker.create("a")
    alter(broker, BROKER, "1", ("message.max.bytes", SET, "77"))
    broker.restart()
    assert value_of(broker, "max.message.bytes")[0] == "77"
    configs = configs_of(broker, BROKER, "", None).configs
    assert [(config.name, config.value) for config in configs] == [
        ("message.max.bytes", "77"),
        ("min.insync.replicas", "1"),
    ]
    assert not any(config.read_only for config in configs)


def test_min_insync_replicas_of_the_cluster_is_the_default_of_topics(
    broker: FakeBroker,
) -> None:
    broker.create("a")
    name = "min.insync.replicas"
    assert value_of(broker, name) == ("1", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert alter(broker, BROKER, "", (name, SET, "2")).error_code == 0
    broker.restart()
    assert value_of(broker, name) == ("2", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    for level, operation in (("1", SET), ("1", DELETE), ("", DELETE)):
        refused = alter(broker, BROKER, level, (name, operation, "3"))
        assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert value_of(broker, name)[0] == "2"


def test_a_brokers_settings_are_described_under_kafkas_names(
    broker: FakeBroker,
) -> None:
    result = configs_of(broker, BROKER, "1")
    configs = {config.name: config for config in result.configs}
    assert configs["num.partitions"].value == "1"
    assert configs["num.partitions"].read_only
    assert configs["auto.create.topics.enable"].value == "true"
    assert configs["node.id"].value == "1"
    assert configs["advertised.listeners"].value.startswith("PLAINTEXT://")
    assert configs["advertised.listeners"].read_only


def test_synonyms_and_documentation_are_returned_on_request(broker: FakeBroker) -> None:
    broker.create("a")
    plain = configs_of(broker, TOPIC, "a", ["retention.bytes"]).configs[0]
    assert (plain.synonyms, plain.documentation) == ([], None)
    full = configs_of(
        broker,
        TOPIC,
        "a",
        ["retention.bytes"],
        include_synonyms=True,
        include_documentation=True,
    ).configs[0]
    assert [found.name for found in full.synonyms] == ["log.retention.bytes"]
    assert full.documentation


def test_configs_of_missing_resources_are_refused(broker: FakeBroker) -> None:
    assert configs_of(broker, TOPIC, "b").error_code == 3
    assert configs_of(broker, BROKER, "7").error_code == ErrorCode.INVALID_REQUEST
    assert configs_of(broker, LOGGER, "1").error_code == ErrorCode.INVALID_REQUEST


def test_describing_configs_needs_describe_configs_and_changing_them_alter_configs(
    broker: FakeBroker,
) -> None:
    broker.create("a")
    broker.authorizer = allow_only()
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert configs_of(broker, TOPIC, "a").error_code == refused
    assert alter(broker, TOPIC, "a").error_code == refused
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert configs_of(broker, BROKER, "1").error_code == refused
    assert alter(broker, BROKER, "1").error_code == refused


@pytest.mark.parametrize("value", ["no", "-1"])
def test_an_invalid_value_of_a_dynamic_setting_is_refused(
    broker: FakeBroker, value: str
) -> None:
    result = alter(broker, BROKER, "1", ("message.max.bytes", SET, value))
    assert result.error_code == ErrorCode.INVALID_CONFIG


def test_a_deleted_dynamic_setting_has_its_default(broker: FakeBroker) -> None:
    alter(broker, BROKER, "1", ("message.max.bytes", SET, "77"))
    alter(broker, BROKER, "1", ("message.max.bytes", DELETE, None))
    assert broker.catalog.settings.message_max_bytes == 1_048_588
