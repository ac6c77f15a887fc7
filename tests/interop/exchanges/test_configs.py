"""DescribeConfigs and IncrementalAlterConfigs of topics, groups and brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.interop.exchanges.members import (
    alter_group,
    heartbeat,
    join_consumer,
    leave_consumer,
)
from tests.support.waiting import eventually

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_DEFAULT_BROKER, STATIC_BROKER, DEFAULT, GROUP_CONFIG = 3, 4, 5, 8
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_CONFIG = 40
INVALID_REQUEST = 42
SESSION = "consumer.session.timeout.ms"
NO_SYNONYMS = {
    "errors.deadletterqueue.group.enable",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "retention.ms",
    "segment.jitter.ms",
    "segment.ms",
}
MIN_ISR = "min.insync.replicas"
"""New clusters set it by themselves, as eligible leader replicas need it (KIP-966)."""


def describe(
    wire: WireClient, kind: int, name: str, keys: list[str] | None = None
) -> m.DescribeConfigsResult:
    """Return the answer of DescribeConfigs v4, with synonyms, on one resource."""
    resource = m.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = m.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    [result] = wire.call(request, 4).results
    assert isinstance(result, m.DescribeConfigsResult)
    return result


Change = tuple[str, int, str | None]


def alter(
    wire: WireClient,
    kind: int,
    name: str,
    *changes: Change,
    version: int = 1,
    validate: bool = False,
) -> tuple[int, str | None]:
    """Change configurations, or only validate the change; return the error's code and
    message."""
    resource = m.IncrementalAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            m.IncrementalAlterableConfig(name=key, config_operation=how, value=value)
            for key, how, value in changes
        ],
    )
    request = m.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=validate
    )
    [result] = wire.call(request, version).responses
    return result.error_code, result.error_message


def sources(result: m.DescribeConfigsResult) -> dict[str, Any]:
    """Return value, source, type and synonyms of each configuration by name."""
    return {
        each.name: (
            each.value,
            each.config_source,
            each.config_type,
            [(one.name, one.value, one.source) for one in each.synonyms],
        )
        for each in result.configs
    }


def test_an_empty_list_of_keys_describes_all(
    wire: WireClient, group: str, topic: str
) -> None:
    for kind, name, own in ((TOPIC, topic, "retention.ms"), (GROUP, group, SESSION)):
        every = describe(wire, kind, name, None)
        assert (every.error_code, every.error_message) == (0, "")
        assert describe(wire, kind, name, []) == every
        [one] = describe(wire, kind, name, [own, "no.such"]).configs
        assert one in every.configs
        assert describe(wire, kind, name, ["no.such"]).configs == []


def test_a_topic_has_the_brokers_configurations_as_synonyms(
    wire: WireClient, topic: str
) -> None:
    found = sources(describe(wire, TOPIC, topic))
    assert len(found) == 37
    for name in NO_SYNONYMS:
        assert found[name][1:2] + found[name][3:] == (DEFAULT, [])
    for name in found.keys() - NO_SYNONYMS - {MIN_ISR}:
        value, source, _, synonyms = found[name]
        [(_, *only)] = synonyms
        assert (source, only) == (DEFAULT, [value, DEFAULT])
    names = {name: each[3][0][0] for name, each in found.items() if each[3]}
    assert names["cleanup.policy"] == "log.cleanup.policy"
    assert names["delete.retention.ms"] == "log.cleaner.delete.retention.ms"
    assert names["file.delete.delay.ms"] == "log.segment.delete.delay.ms"
    assert names["max.message.bytes"] == "message.max.bytes"
    assert names["min.cleanable.dirty.ratio"] == "log.cleaner.min.cleanable.ratio"
    assert names["segment.bytes"] == "log.segment.bytes"
    of_cluster = [(MIN_ISR, "1", DYNAMIC_DEFAULT_BROKER), (MIN_ISR, "1", DEFAULT)]
    assert found[MIN_ISR] == ("1", DYNAMIC_DEFAULT_BROKER, 3, of_cluster)
    alter(wire, TOPIC, topic, ("cleanup.policy", APPEND, "compact"))

    def altered() -> Any:
        own = sources(describe(wire, TOPIC, topic, ["cleanup.policy"]))
        return own["cleanup.policy"][3]

    changed = [
        ("cleanup.policy", "delete,compact", 1),
        ("log.cleanup.policy", "delete", DEFAULT),
    ]
    eventually(lambda: altered() == changed, expected="another policy")


@pytest.mark.fact("E21-06", "E21-10")
def test_a_group_has_the_brokers_configurations_as_synonyms(
    wire: WireClient, group: str
) -> None:
    found = sources(describe(wire, GROUP, group))
    for name in ("share", "streams"):
        session = f"group.{name}.session.timeout.ms"
        assert found[f"{name}.session.timeout.ms"] == (
            "45000",
            DEFAULT,
            3,
            [(session, "45000", DEFAULT)],
        )
    assert found[SESSION] == (
        "6000",
        STATIC_BROKER,
        3,
        [
            (f"group.{SESSION}", "6000", STATIC_BROKER),
            (f"group.{SESSION}", "45000", DEFAULT),
        ],
    )
    assert found["share.auto.offset.reset"] == (
        "latest",
        DEFAULT,
        2,
        [("share.auto.offset.reset", "latest", DEFAULT)],
    )
    assert found["share.renew.acknowledge.enable"][:3] == ("true", DEFAULT, 1)
    assert found["streams.assignor.name"] == (
        "sticky",
        DEFAULT,
        2,
        [("group.streams.assignors", "sticky", DEFAULT)],
    )
    assert len(found) == 21


def test_a_brokers_configurations_have_their_defaults_as_synonyms(
    wire: WireClient,
) -> None:
    names = [f"group.{SESSION}", "group.initial.rebalance.delay.ms", "num.partitions"]
    assert sources(describe(wire, BROKER, "1", names)) == {
        names[0]: (
            "6000",
            STATIC_BROKER,
            3,
            [(names[0], "6000", STATIC_BROKER), (names[0], "45000", DEFAULT)],
        ),
        names[1]: (
            "300",
            STATIC_BROKER,
            3,
            [(names[1], "300", STATIC_BROKER), (names[1], "3000", DEFAULT)],
        ),
        names[2]: ("1", DEFAULT, 3, [(names[2], "1", DEFAULT)]),
    }


def test_min_insync_replicas_is_a_configuration_of_the_cluster(
    wire: WireClient,
) -> None:
    of_cluster = sources(describe(wire, BROKER, ""))
    assert of_cluster[MIN_ISR] == (
        "1",
        DYNAMIC_DEFAULT_BROKER,
        3,
        [(MIN_ISR, "1", DYNAMIC_DEFAULT_BROKER)],
    )
    assert alter(wire, BROKER, "", (MIN_ISR, SET, "2"), validate=True) == (0, None)
    refused = (
        (("1", SET, "1"), "Broker-level min.insync.replicas cannot be altered"),
        (("", DELETE, None), "Cluster-level min.insync.replicas cannot be removed"),
    )
    for (name, how, value), text in refused:
        change = (MIN_ISR, how, value)
        code, message = alter(wire, BROKER, name, change, validate=True)
        assert (code, message) == (INVALID_CONFIG, f"{text} while ELR is enabled.")


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "no-such-topic", UNKNOWN_TOPIC_OR_PARTITION, ""),
        (GROUP, "", INVALID_REQUEST, "Group name must not be empty"),
        (BROKER, "x", INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (
            BROKER,
            "77",
            INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 77",
        ),
    ],
)
def test_a_resource_that_cannot_be_described_has_an_error(
    wire: WireClient, kind: int, name: str, code: int, message: str
) -> None:
    result = describe(wire, kind, name)
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message == message


@pytest.mark.fact("E21-07a")
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("how", [SET, APPEND, SUBTRACT])
def test_a_null_value_is_an_invalid_request(
    wire: WireClient, group: str, topic: str, how: int, version: int
) -> None:
    null = INVALID_REQUEST, "Null value not supported for : no.such"
    for kind, name in ((TOPIC, topic), (TOPIC, "no-such-topic"), (GROUP, group)):
        change = ("no.such", how, None)
        assert alter(wire, kind, name, change, version=version) == null
    both = [(SESSION, how, None), ("a", DELETE, None), ("b", how, None)]
    text = f"Null value not supported for : {SESSION}, b"
    found = alter(wire, GROUP, group, *both, version=version)
    assert found == (INVALID_REQUEST, text)


@pytest.mark.fact("E21-07")
def test_an_unknown_configuration_can_be_deleted_but_not_set(
    wire: WireClient, group: str, topic: str
) -> None:
    for kind, name, of in ((TOPIC, topic, "topic"), (GROUP, group, "group")):
        assert alter(wire, kind, name, ("no.such", DELETE, None)) == (0, None)
        unknown = INVALID_CONFIG, f"Unknown {of} config name: no.such"
        assert alter(wire, kind, name, ("no.such", SET, "1")) == unknown
        no_list = "Can't APPEND to key no.such because its type is not LIST."
        found = alter(wire, kind, name, ("no.such", APPEND, "1"))
        assert found == (INVALID_CONFIG, no_list)


def test_values_are_checked_before_the_topic(wire: WireClient) -> None:
    name = "no-such-topic"
    missing = UNKNOWN_TOPIC_OR_PARTITION, "The topic 'no-such-topic' does not exist."
    assert alter(wire, TOPIC, name, ("retention.ms", SET, "5")) == missing
    assert alter(wire, TOPIC, name, ("retention.ms", DELETE, None)) == missing
    assert alter(wire, TOPIC, name, ("retention.ms", SET, "x"))[0] == INVALID_CONFIG
    assert alter(wire, TOPIC, "", ("retention.ms", SET, "5")) == (
        INVALID_REQUEST,
        "Default topic resources are not allowed.",
    )
    found = alter(wire, TOPIC, "", ("retention.ms", APPEND, "5"))
    assert found[0] == INVALID_CONFIG


@pytest.mark.fact("E21-12", "E21-04", "E21-04a")
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("share.session.timeout.ms", "50000", None),
        (
            "share.session.timeout.ms",
            "44999",
            "share.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
        ("share.heartbeat.interval.ms", "15000", None),
        ("share.auto.offset.reset", "earliest", None),
        ("share.auto.offset.reset", "by_duration:P1DT2.5S", None),
        ("share.auto.offset.reset", "by_duration:-P1D", ""),
        ("share.auto.offset.reset", "by_duration:PT", ""),
        ("share.auto.offset.reset", "none", ""),
        ("share.isolation.level", "read_committed", None),
        ("share.isolation.level", "READ_COMMITTED", ""),
        ("share.renew.acknowledge.enable", "False", None),
        ("share.renew.acknowledge.enable", "no", ""),
        ("share.delivery.count.limit", "10", None),
        (
            "share.delivery.count.limit",
            "1",
            "Invalid value 1 for configuration share.delivery.count.limit: "
            "Value must be at least 2",
        ),
        (
            "share.partition.max.record.locks",
            "4001",
            "share.partition.max.record.locks must be in the range 100 to 4000 "
            "inclusive.",
        ),
        ("share.record.lock.duration.ms", "15000", None),
        ("share.assignment.interval.ms", "15000", None),
        ("streams.session.timeout.ms", "60000", None),
        ("streams.heartbeat.interval.ms", "5000", None),
        ("streams.assignment.interval.ms", "0", None),
        ("streams.initial.rebalance.delay.ms", "0", None),
        ("streams.num.standby.replicas", "2", None),
        (
            "streams.num.standby.replicas",
            "3",
            "streams.num.standby.replicas must be less than or equal to 2",
        ),
        ("streams.assignor.name", "sticky", None),
        ("streams.assignor.name", "range", ""),
        ("streams.acceptable.recovery.lag", "9999999999", None),
        ("streams.rack.aware.assignment.tags", "zone,rack", None),
        ("streams.rack.aware.assignment.tags", "zone,rack,zone", ""),
        ("streams.num.warmup.replicas", "20", None),
        (
            "streams.num.warmup.replicas",
            "21",
            "streams.num.warmup.replicas must be less than or equal to 20",
        ),
        (
            "streams.task.offset.interval.ms",
            "100",
            "streams.task.offset.interval.ms must be greater than or equal to 15000",
        ),
        ("errors.deadletterqueue.topic.name", "dead", None),
        ("errors.deadletterqueue.topic.name", "__dead", ""),
        ("errors.deadletterqueue.copy.record.enable", "true", None),
        ("consumer.assignor.offload.enable", "false", None),
    ],
)
def test_configurations_of_share_and_streams_groups_are_stored(
    wire: WireClient, group: str, name: str, value: str, message: str | None
) -> None:
    code, found = alter(wire, GROUP, group, (name, SET, value))
    if message is not None:
        assert code == INVALID_CONFIG
        assert message in {found, ""}
        return
    assert (code, found) == (0, None)

    def own() -> Any:
        return sources(describe(wire, GROUP, group, [name])).get(name, ())[:2]

    eventually(lambda: own()[1:] == (GROUP_CONFIG,), expected="an altered group")
    shown = value.lower() if value == "False" else value
    assert own() == (shown, GROUP_CONFIG)


@pytest.mark.fact("E21-06a", "E21-06b")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            [(SESSION, "1")],
            f"{SESSION} must be in the range 6000 to 60000 inclusive.",
        ),
        (
            [(SESSION, "99999999")],
            f"{SESSION} must be in the range 6000 to 60000 inclusive.",
        ),
        (
            [(SESSION, "6000"), ("consumer.heartbeat.interval.ms", "6000")],
            f"{SESSION} must be greater than consumer.heartbeat.interval.ms",
        ),
        (
            [(SESSION, "0")],
            f"Invalid value 0 for configuration {SESSION}: Value must be at least 1",
        ),
        (
            [(SESSION, "50_000")],
            f"Invalid value 50_000 for configuration {SESSION}: "
            "Not a number of type INT",
        ),
    ],
)
def test_a_value_out_of_range_is_an_invalid_configuration(
    wire: WireClient, group: str, changes: Sequence[tuple[str, str]], message: str
) -> None:
    sets = [(name, SET, value) for name, value in changes]
    assert alter(wire, GROUP, group, *sets) == (INVALID_CONFIG, message)


@pytest.mark.fact("E21-01", "E21-02", "E21-02a", "E21-05", "E21-08", "E21-12b")
def test_configurations_are_older_and_younger_than_their_group(
    wire: WireClient, group: str, topic: str
) -> None:
    alter_group(
        wire,
        group,
        consumer_heartbeat_interval_ms=1_500,
        consumer_session_timeout_ms=9_000,
        consumer_assignment_interval_ms=0,
    )
    member = join_consumer(wire, group, topic)
    found = heartbeat(wire, group, member.id, member.epoch)
    assert (found.error_code, found.heartbeat_interval_ms) == (0, 1_500)
    alter_group(wire, group, consumer_heartbeat_interval_ms=1_600)
    eventually(
        lambda: (
            heartbeat(wire, group, member.id, member.epoch).heartbeat_interval_ms
            == 1_600
        ),
        expected="the changed interval",
    )
    leave_consumer(wire, group, member.id)
    [deleted] = wire.call(m.DeleteGroupsRequest(groups_names=[group]), 2).results
    assert deleted.error_code == 0
    shown = sources(describe(wire, GROUP, group))
    own = {name: each[0] for name, each in shown.items() if each[1] == GROUP_CONFIG}
    assert own == {
        "consumer.assignment.interval.ms": "0",
        "consumer.heartbeat.interval.ms": "1600",
        SESSION: "9000",
    }


@pytest.mark.fact("E21-04b")
def test_alter_configs_replaces_the_configurations_of_a_group(
    wire: WireClient, group: str
) -> None:
    alter_group(wire, group, consumer_heartbeat_interval_ms=1_500)
    change = m.AlterConfigsResource(
        resource_type=GROUP,
        resource_name=group,
        configs=[m.AlterableConfig(name=SESSION, value="9000")],
    )
    [answer] = wire.call(m.AlterConfigsRequest(resources=[change]), 2).responses
    assert answer.error_code == 0, answer

    def own() -> dict[str, str]:
        shown = sources(describe(wire, GROUP, group))
        return {name: each[0] for name, each in shown.items() if each[1] == 8}

    eventually(lambda: own() == {SESSION: "9000"}, expected="replaced configurations")


@pytest.mark.fact("E21-07b", "E21-07c")
def test_the_error_of_a_group_leaves_other_groups_alone(
    wire: WireClient, group: str
) -> None:
    other = f"{group}-2"
    resources = [
        m.IncrementalAlterConfigsResource(
            resource_type=GROUP,
            resource_name=name,
            configs=[
                m.IncrementalAlterableConfig(
                    name=key, config_operation=SET, value=value
                )
                for key, value in changes
            ],
        )
        for name, changes in (
            (group, [("consumer.assignment.interval.ms", "5"), (SESSION, "1")]),
            ("", [(SESSION, "9000")]),
            (other, [(SESSION, "9000")]),
        )
    ]
    request = m.IncrementalAlterConfigsRequest(resources=resources)
    errors = {
        each.resource_name: each.error_code for each in wire.call(request, 1).responses
    }
    assert errors == {group: INVALID_CONFIG, "": INVALID_REQUEST, other: 0}

    def own(name: str) -> dict[str, str]:
        shown = sources(describe(wire, GROUP, name))
        return {key: each[0] for key, each in shown.items() if each[1] == GROUP_CONFIG}

    eventually(lambda: own(other) == {SESSION: "9000"}, expected="the other group")
    assert own(group) == {}
