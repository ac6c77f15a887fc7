"""Joins of classic members to a consumer group (E20.3)."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.coordinator.consumer.record_builders import group_records
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.classic.members import (
    heartbeat,
    join,
    join_request,
    sync,
)
from tests.broker.coordinator.consumer.classic_requests import (
    offers,
    rejoined,
)
from tests.broker.coordinator.consumer.groups import GroupDriver, received_assignment
from tests.broker.coordinator.driver import Sent
from tests.broker.coordinator.requests import topic_id

FOO = topic_id("foo")
ALL = {"foo": [0, 1, 2, 3, 4, 5]}
FOUR = {"foo": [0, 1, 2, 3]}
TWO = {"foo": [4, 5]}


@pytest.fixture
def driver() -> GroupDriver:
    """A group in which m, a consumer protocol member, has all of foo."""
    driver = GroupDriver()
    assert received_assignment(driver.join("m")) == ALL
    return driver


def joins(driver: GroupDriver, **fields: Any) -> Sent:
    """Join as a classic member that subscribes to foo."""
    fields.setdefault("protocols", offers("foo"))
    return join(driver, **fields)


@pytest.mark.fact("E20-23a")
def test_an_unknown_member_id_makes_a_new_member(driver: GroupDriver) -> None:
    answer = joins(driver, member_id="gone")
    assert (answer.error, answer.response.member_id) == (0, "gone")


def test_a_protocol_may_have_an_empty_name(driver: GroupDriver) -> None:
    answer = joins(driver, protocols=offers("foo", names=[""]))
    assert (answer.error, answer.response.protocol_name) == (0, "")
    member_id = answer.response.member_id
    synced = sync(driver, member_id, driver.member(member_id).epoch, protocol_name="")
    assert not synced.error


def test_a_removed_member_that_owns_partitions_does_not_join(
    driver: GroupDriver,
) -> None:
    """Differ from Kafka, where they would have two owners for a moment."""
    answer = joins(driver, member_id="gone", protocols=offers("foo", owned=TWO))
    assert answer.error == ErrorCode.UNKNOWN_MEMBER_ID
    assert "gone" not in driver.group.members


@pytest.mark.bug("KAFKA-20640")
@pytest.mark.fact("E20-01b")
@pytest.mark.parametrize("policy", ["disabled", "Disabled", "nonsense"])
def test_no_classic_member_joins_when_migration_is_disabled(policy: str) -> None:
    driver = GroupDriver(settings=Settings(group_consumer_migration_policy=policy))
    driver.join("m")
    refused = joins(driver, protocols=[])
    assert refused.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert joins(driver).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    driver.heartbeat("m", -1)
    joins(driver)
    assert driver.groups["g"].protocol_type == "consumer"


@pytest.mark.fact("E20-01b")
@pytest.mark.parametrize("policy", ["upgrade", "downgrade", "bidirectional"])
def test_classic_members_join_under_the_other_policies(policy: str) -> None:
    driver = GroupDriver(settings=Settings(group_consumer_migration_policy=policy))
    driver.join("m")
    assert joins(driver).error == 0
    assert driver.group.classic_count == 1


@pytest.mark.fact("E20-21a")
def test_only_the_subscription_of_the_first_protocol_is_read(
    driver: GroupDriver,
) -> None:
    (good,) = offers("foo")
    bad = m.JoinGroupRequestProtocol(name="roundrobin", metadata=b"\0")
    answer = joins(driver, member_id="c", protocols=[good, bad])
    assert (answer.error, answer.response.protocol_name) == (0, "range")
    assert driver.member("c").topic_names == ("foo",)
    refused = joins(driver, member_id="d", protocols=[bad, good])
    assert refused.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert "d" not in driver.group.members


def test_a_member_that_switches_keeps_its_server_assignor(driver: GroupDriver) -> None:
    driver.heartbeat("m", 1, server_assignor="range")
    assert joins(driver, member_id="m").error == 0
    assert driver.member("m").classic is not None
    assert driver.member("m").server_assignor == "range"


@pytest.mark.fact("E6-19", "E8-11", "E20-24", "E20-24a", "E20-31")
def test_a_classic_member_joins_immediately(driver: GroupDriver) -> None:
    answer = joins(driver, protocols=offers("foo", names=["range", "roundrobin"]))
    member_id = answer.response.member_id
    assert answer.response.generation_id == 2
    assert answer.response.protocol_type == "consumer"
    assert answer.response.protocol_name == "range"
    assert answer.response.leader == ""
    assert answer.response.members == []
    member = driver.member(member_id)
    assert member.server_assignor is None
    assert member.topic_names == ("foo",)
    assert member.classic is not None
    assert [name for name, _ in member.classic.protocols] == ["range", "roundrobin"]
    assert driver.group.target(member_id) == {FOO: frozenset({3, 4, 5})}
    assert driver.wrote_types[:2] == ["member", "epoch"]


@pytest.mark.fact("E20-23")
def test_a_classic_member_without_an_id_gets_a_uuid(driver: GroupDriver) -> None:
    answer = driver.send(join_request(protocols=offers("foo")), version=4)
    assert answer.error == ErrorCode.MEMBER_ID_REQUIRED
    member_id = answer.response.member_id
    assert len(member_id) == 22
    assert not driver.wrote
    assert not driver.results[-1].changes
    assert not driver.results[-1].timers
    joined = joins(driver, member_id=member_id)
    assert (joined.error, joined.response.member_id) == (0, member_id)


@pytest.mark.fact("E20-23")
def test_before_version_4_a_member_joins_without_an_id(driver: GroupDriver) -> None:
    answer = driver.send(join_request(protocols=offers("foo")), version=3)
    assert answer.error == ErrorCode.NONE
    assert answer.response.member_id in driver.group.members


@pytest.mark.fact("E8-11", "E8-11b", "E20-29a", "E20-29b")
def test_a_join_sets_timers_from_its_own_timeouts(driver: GroupDriver) -> None:
    answer = joins(driver, session_timeout_ms=7_000, rebalance_timeout_ms=8_000)
    member_id = answer.response.member_id
    now_ms = driver.now_ms
    assert driver.timers["session", "g", member_id].fires_at_ms == now_ms + 7_000
    assert driver.timers["sync", "g", member_id].fires_at_ms == now_ms + 8_000
    assert ("join", "g", member_id) not in driver.timers
    assert driver.member(member_id).rebalance_timeout_ms == 8_000


@pytest.mark.fact("E8-11", "E8-11a")
def test_each_timer_of_a_classic_member_has_its_own_timeout(
    driver: GroupDriver,
) -> None:
    timeouts = {"session_timeout_ms": 7_000, "rebalance_timeout_ms": 8_000}
    member_id = joins(driver, **timeouts).response.member_id
    sync(driver, member_id, driver.member(member_id).epoch)
    assert ("sync", "g", member_id) not in driver.timers
    driver.join("n")
    driver.advance(100)
    epoch = driver.member(member_id).epoch
    assert heartbeat(driver, member_id, epoch) == ErrorCode.REBALANCE_IN_PROGRESS
    now_ms = driver.now_ms
    fires = {
        name: driver.timers[name, "g", member_id].fires_at_ms - now_ms
        for name in ("session", "join")
    }
    assert fires == {"session": 7_000, "join": 8_000}
    usual = driver.timers["session", "g", "n"].fires_at_ms - now_ms
    assert usual == Settings().group_consumer_session_timeout_ms - 100


def test_in_version_0_the_session_timeout_is_used_as_rebalance_timeout(
    driver: GroupDriver,
) -> None:
    request = join_request(protocols=offers("foo"), session_timeout_ms=7_000)
    member_id = driver.send(request, version=0).response.member_id
    assert driver.member(member_id).rebalance_timeout_ms == 7_000


@pytest.mark.fact("E20-21")
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_every_version_of_a_subscription_is_decoded(
    driver: GroupDriver, version: int
) -> None:
    protocols = offers("foo", "bar", version=version, generation_id=77)
    answer = joins(driver, protocols=protocols)
    assert answer.error == ErrorCode.NONE
    assert driver.member(answer.response.member_id).topic_names == ("bar", "foo")


def test_a_later_subscription_version_is_decoded_as_the_latest_supported_version(
    driver: GroupDriver,
) -> None:
    data = offers("foo", version=3, rack_id="r")[0].metadata
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=b"\0\x09" + data[2:])
    member_id = joins(driver, protocols=[protocol]).response.member_id
    assert driver.member(member_id).rack_id == "r"


def test_a_malformed_subscription_is_refused(driver: GroupDriver) -> None:
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=b"\0\1\7")
    answer = joins(driver, protocols=[protocol])
    assert answer.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not driver.wrote


@pytest.fixture
def owned_by_c() -> GroupDriver:
    """A group in which classic member c has all of foo at epoch 2. The target of
    epoch 3 assigns two of these partitions to n, which has none yet.
    """
    driver = GroupDriver()
    driver.assigns({"c": ALL})
    driver.join("n")
    joins(driver, member_id="c")
    driver.assigns({"c": FOUR, "n": TWO})
    driver.heartbeat("n", 1, subscribed_topic_names=["foo", "bar"], owned={})
    assert driver.member("c").assigned == {FOO: dict.fromkeys(range(6), 2)}
    assert driver.group.assignment_epoch == 3
    return driver


def test_a_changed_subscription_triggers_a_rebalance(driver: GroupDriver) -> None:
    member_id = joins(driver).response.member_id
    epoch = driver.group.epoch
    rejoined(driver, member_id, protocols=offers("foo", "bar"))
    assert driver.group.epoch == epoch + 1
    assert topic_id("bar") in driver.group.target(member_id)


def test_a_static_join_with_a_member_id_must_match_it(driver: GroupDriver) -> None:
    member_id = joins(driver, group_instance_id="i").response.member_id
    fenced = joins(driver, member_id="x", group_instance_id="i")
    assert fenced.error == ErrorCode.FENCED_INSTANCE_ID
    unknown = joins(driver, member_id=member_id, group_instance_id="j")
    assert unknown.error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_can_change_to_the_classic_protocol(driver: GroupDriver) -> None:
    driver.join("n", instance_id="i")
    member_id = joins(driver, group_instance_id="i").response.member_id
    assert "n" not in driver.group.members
    assert driver.member(member_id).classic is not None
    assert driver.heartbeat("n", 2, instance_id="i").error == (
        ErrorCode.FENCED_INSTANCE_ID
    )


@pytest.mark.fact("E7-35b")
def test_a_member_that_changes_to_the_consumer_protocol_has_no_classic_timers(
    driver: GroupDriver,
) -> None:
    member_id = joins(driver).response.member_id
    driver.join("n")
    heartbeat(driver, member_id, 2)
    assert ("join", "g", member_id) in driver.timers
    assert ("sync", "g", member_id) in driver.timers
    driver.join(member_id)
    assert driver.member(member_id).classic is None
    assert ("join", "g", member_id) not in driver.timers
    assert ("sync", "g", member_id) not in driver.timers


@pytest.mark.fact("H-132a", "H-132b", "E20-44", "E20-02")
def test_an_empty_consumer_group_becomes_a_classic_group() -> None:
    settings = Settings(group_consumer_migration_policy="disabled")
    driver = GroupDriver(settings=settings)
    driver.join("m")
    driver.heartbeat("m", -1)
    answer = driver.send(join_request(protocols=offers("foo")))
    assert answer.error == ErrorCode.MEMBER_ID_REQUIRED
    assert driver.wrote_types == ["-target-epoch", "-epoch", "classic"]
    assert "g" not in driver.state.consumer_groups
    member_id = answer.response.member_id
    assert member_id in driver.groups["g"].pending_members
    again = driver.send(join_request(member_id, protocols=offers("foo")))
    driver.advance(settings.group_initial_rebalance_delay_ms)
    assert again.response.leader == member_id
    assert driver.reload().groups["g"].members == {}


def test_an_empty_group_returns_unknown_member_id(driver: GroupDriver) -> None:
    driver.heartbeat("m", -1)
    assert joins(driver, member_id="c").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert "g" in driver.state.consumer_groups


@pytest.mark.parametrize("timeout_ms", [1, 10_000_000])
def test_an_invalid_session_timeout_is_refused(
    driver: GroupDriver, timeout_ms: int
) -> None:
    answer = joins(driver, session_timeout_ms=timeout_ms)
    assert answer.error == ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.fact("E20-03", "E2-02a")
def test_classic_members_survive_a_restart(owned_by_c: GroupDriver) -> None:
    rejoined(owned_by_c, "c", owned=ALL)
    loaded = owned_by_c.reload()
    group = loaded.shard.state.consumer_groups["g"]
    assert group_records(group) == group_records(owned_by_c.group)
    assert loaded.timers["session", "g", "c"].fires_at_ms == loaded.now_ms + 10_000
