"""Group configurations: entries, and the server's settings as defaults."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.catalog.catalog import Catalog
from coterie.broker.catalog.entries import Entry, EntryKind, decode_entry
from coterie.broker.catalog.group_configs import GroupConfigs
from coterie.errors import ApiError
from coterie.settings import Settings
from coterie.wire.error_codes import ErrorCode

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


def altered(configs: GroupConfigs, group_id: str = "g", **changes: Any) -> Entry:
    """Alter configurations and replay the entry.

    The keyword `session_timeout_ms` stands for "consumer.session.timeout.ms".
    """
    named = {f"consumer.{key.replace('_', '.')}": text for key, text in changes.items()}
    entry = configs.alter(group_id, named)
    configs.replay(entry.name, entry.value)
    return entry


@pytest.fixture
def configs() -> GroupConfigs:
    return GroupConfigs(Settings(group_consumer_session_timeout_ms=46_000))


@pytest.mark.fact("E21-06", "E21-12b")
def test_an_unset_group_config_has_the_brokers_setting(
    configs: GroupConfigs,
) -> None:
    assert configs.session_timeout_ms("g") == 46_000
    assert configs.heartbeat_interval_ms("g") == 5_000
    assert configs.assignment_interval_ms("g") == 1_000
    altered(configs, heartbeat_interval_ms="6000")
    assert configs.session_timeout_ms("g") == 46_000
    assert configs.heartbeat_interval_ms("g") == 6_000
    assert configs.heartbeat_interval_ms("other") == 5_000


@pytest.mark.fact("E21-05", "E21-12b")
def test_each_of_the_three_configurations_is_set_and_unset(
    configs: GroupConfigs,
) -> None:
    altered(configs, session_timeout_ms="50000", assignment_interval_ms="0")
    altered(configs, heartbeat_interval_ms=" 7000 ")
    assert configs.own("g") == {SESSION: 50_000, HEARTBEAT: 7_000, ASSIGNMENT: 0}
    assert configs.session_timeout_ms("g") == 50_000
    assert configs.assignment_interval_ms("g") == 0
    altered(configs, session_timeout_ms=None)
    assert configs.session_timeout_ms("g") == 46_000
    assert configs.heartbeat_interval_ms("g") == 7_000


def test_a_group_without_own_configurations_has_no_entry(
    configs: GroupConfigs,
) -> None:
    altered(configs, session_timeout_ms="50000")
    entry = altered(configs, session_timeout_ms=None)
    assert entry == Entry(EntryKind.GROUP_CONFIG, "g", None)
    assert configs.own("g") == {}


def test_deleting_an_unset_config_succeeds(configs: GroupConfigs) -> None:
    assert configs.alter("g", {SESSION: None}).value is None


def test_deciding_a_change_does_not_apply_it(configs: GroupConfigs) -> None:
    version = configs.version
    configs.alter("g", {SESSION: "50000"})
    assert (configs.own("g"), configs.version) == ({}, version)


def test_every_change_increases_the_version(configs: GroupConfigs) -> None:
    versions = [configs.version]
    for text in ("50000", None):
        altered(configs, session_timeout_ms=text)
        versions.append(configs.version)
    configs.clear()
    versions.append(configs.version)
    assert versions == sorted(set(versions))


@pytest.mark.fact("E21-06a", "E21-07", "E21-12")
@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (SESSION, "44999", f"{SESSION} must be in the range 45000 to 60000"),
        (SESSION, "60001", f"{SESSION} must be in the range 45000 to 60000"),
        (HEARTBEAT, "4999", f"{HEARTBEAT} must be in the range 5000 to 15000"),
        (HEARTBEAT, "15001", f"{HEARTBEAT} must be in the range 5000 to 15000"),
        (ASSIGNMENT, "15001", f"{ASSIGNMENT} must be in the range 0 to 15000"),
        (ASSIGNMENT, "-1", "must be at least 0"),
        (SESSION, "0", "must be at least 1"),
        (SESSION, "2147483648", "Not a number of type INT"),
        (HEARTBEAT, "5000.5", "Not a number of type INT"),
        (HEARTBEAT, "", "Not a number of type INT"),
        (SESSION, "50_000", "Not a number of type INT"),
        (SESSION, "٥٠٠٠٠", "Not a number of type INT"),
        (SESSION, "9" * 5_000, "Not a number of type INT"),
        ("no.such", "1", "Unknown group config name: no.such"),
        ("share.session.timeout.ms", "44999", "in the range 45000 to 60000"),
        ("share.delivery.count.limit", "1", "must be at least 2"),
        ("share.delivery.count.limit", "11", "in the range 2 to 10"),
        ("share.partition.max.record.locks", "4001", "in the range 100 to 4000"),
        ("share.auto.offset.reset", "never", "Invalid value never"),
        ("share.auto.offset.reset", "by_duration:-P1D", "Invalid value by_duration"),
        ("share.auto.offset.reset", "by_duration:P", "Invalid value by_duration"),
        ("share.isolation.level", "READ_COMMITTED", "Invalid value READ_COMMITTED"),
        ("share.renew.acknowledge.enable", "yes", "Invalid value yes"),
        ("streams.num.standby.replicas", "3", "less than or equal to 2"),
        ("streams.session.timeout.ms", "60001", "in the range 45000 to 60000"),
        ("streams.rack.aware.assignment.tags", "a, b,a", "duplicate tag keys"),
    ],
)
def test_an_invalid_config_is_refused_by_name(
    configs: GroupConfigs, name: str, value: str, says: str
) -> None:
    with pytest.raises(ApiError, match=name) as refused:
        configs.alter("g", {name: value})
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert says in str(refused.value.message)


def test_a_list_of_any_length_is_checked_in_one_pass(configs: GroupConfigs) -> None:
    long = "x," + " " * 30_000 + ",y"
    entry = configs.alter("g", {"streams.rack.aware.assignment.tags": long})
    assert entry.value == {"streams.rack.aware.assignment.tags": long}


@pytest.mark.fact("F5-15", "I-10", "E21-07")
@pytest.mark.parametrize(
    "name",
    [
        "group.consumer.session.timeout.ms",
        "group.consumer.heartbeat.interval.ms",
        "assignor.offload.enable",
    ],
)
def test_only_kafkas_names_are_accepted(configs: GroupConfigs, name: str) -> None:
    with pytest.raises(ApiError) as refused:
        configs.alter("g", {SESSION: "50000", name: "45000"})
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    # As in Kafka, what has no name cannot be set, so it is not set.
    assert configs.alter("g", {name: None}).value is None


@pytest.mark.fact("E21-12")
@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("share.session.timeout.ms", "50000", 50_000),
        ("share.heartbeat.interval.ms", "15000", 15_000),
        ("share.record.lock.duration.ms", "15000", 15_000),
        ("share.auto.offset.reset", "earliest", "earliest"),
        ("share.auto.offset.reset", "by_duration:PT1H30M", "by_duration:PT1H30M"),
        ("share.isolation.level", "read_committed", "read_committed"),
        ("share.renew.acknowledge.enable", "FALSE", "false"),
        ("streams.num.standby.replicas", "2", 2),
        ("streams.initial.rebalance.delay.ms", "0", 0),
    ],
)
def test_configs_of_other_types_of_groups_are_stored(
    configs: GroupConfigs, name: str, text: str, value: int | str
) -> None:
    before = configs.session_timeout_ms("g")
    entry = configs.alter("g", {name: text})
    assert entry.value == {name: value}
    configs.replay("g", entry.value)
    assert configs.own("g") == {name: value}
    assert configs.session_timeout_ms("g") == before


@pytest.mark.fact("E21-06b")
def test_the_session_timeout_must_exceed_the_servers_heartbeat_interval() -> None:
    configs = GroupConfigs(
        Settings(
            group_consumer_min_session_timeout_ms=1,
            group_consumer_max_heartbeat_interval_ms=60_000,
        )
    )
    for changes in (
        {SESSION: "5000"},
        {HEARTBEAT: "45000"},
        {SESSION: "6000", HEARTBEAT: "6000"},
    ):
        with pytest.raises(ApiError, match="must be greater than") as refused:
            configs.alter("g", changes)
        assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert configs.alter("g", {SESSION: "6001", HEARTBEAT: "6000"}).value


@pytest.mark.fact("E21-07b")
def test_the_empty_group_id_is_refused(configs: GroupConfigs) -> None:
    with pytest.raises(ApiError) as refused:
        configs.alter("", {SESSION: "50000"})
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_loaded_group_configs_are_visible_through_the_catalog() -> None:
    catalog = Catalog(Settings())
    held = catalog.group_configs
    entry = held.alter("gruppe-ü", {SESSION: "50000"})
    key, value = entry.encode()
    assert value is not None
    assert decode_entry(EntryKind.GROUP_CONFIG, key, value) == entry
    catalog.replay(entry)
    assert held.session_timeout_ms("gruppe-ü") == 50_000
    catalog.clear()
    assert held.session_timeout_ms("gruppe-ü") == 45_000
    catalog.replay(decode_entry(EntryKind.GROUP_CONFIG, key, value))
    assert held is catalog.group_configs
    assert held.session_timeout_ms("gruppe-ü") == 50_000


def test_effective_values_are_clamped_and_set_values_are_retained() -> None:
    """Reload with narrower limits; Apache Kafka 4.4 has the same result."""
    before = Catalog(Settings())
    entry = before.group_configs.alter("g", {SESSION: "60000", HEARTBEAT: "6000"})
    after = Catalog(
        Settings(
            group_consumer_max_session_timeout_ms=50_000,
            group_consumer_heartbeat_interval_ms=7_000,
            group_consumer_min_heartbeat_interval_ms=7_000,
        )
    )
    after.replay(entry)
    held = after.group_configs
    assert held.own("g") == {SESSION: 60_000, HEARTBEAT: 6_000}
    assert held.session_timeout_ms("g") == 50_000
    assert held.heartbeat_interval_ms("g") == 7_000
    with pytest.raises(ApiError, match=f"{HEARTBEAT} must be in the range"):
        held.alter("g", {ASSIGNMENT: "500"})
