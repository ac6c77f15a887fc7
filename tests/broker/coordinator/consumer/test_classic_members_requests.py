"""Heartbeats, syncs and leaves of classic members in a consumer group (E20.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coterie.broker.coordinator.consumer.member import MemberState
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.classic.members import (
    codes,
    heartbeat,
    join,
    leave,
    sync,
)
from tests.broker.coordinator.consumer.classic_requests import (
    assigned,
    offers,
    rejoined,
)
from tests.broker.coordinator.consumer.groups import AT_ONCE, GroupDriver
from tests.broker.coordinator.requests import topic_id

FOO = topic_id("foo")
IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
STAYS = replace(AT_ONCE, group_consumer_migration_policy="upgrade")
"""A policy under which the group is never downgraded."""


@pytest.fixture
def driver() -> GroupDriver:
    """A group in which consumer protocol member m and classic members c and d share
    foo, all at epoch 3.
    """
    driver = GroupDriver()
    driver.join("m")
    join(driver, "c", protocols=offers("foo"))
    join(driver, "d", protocols=offers("foo"), session_timeout_ms=60_000)
    driver.heartbeat("m", 1, owned={"foo": [0, 1, 2, 3, 4, 5]})
    driver.heartbeat("m", 1, owned=_owned(driver, "m"))
    for member_id in ("c", "d"):
        rejoined(driver, member_id, session_timeout_ms=60_000)
        assert not sync(driver, member_id, 3).error
    assert driver.group.epoch == 3
    assert driver.group.state.value == "Stable"
    return driver


def _owned(driver: GroupDriver, member_id: str) -> dict[str, Any]:
    return {"foo": driver.member(member_id).assigned.get(FOO, ())}


# Heartbeats.


@pytest.mark.fact("E8-11", "E20-28c")
def test_a_heartbeat_only_extends_the_session(driver: GroupDriver) -> None:
    driver.advance(1_000)
    assert heartbeat(driver, "c", 3) == ErrorCode.NONE
    assert driver.timers["session", "g", "c"].fires_at_ms == driver.now_ms + 60_000
    assert not driver.wrote
    assert ("join", "g", "c") not in driver.timers


@pytest.mark.fact("H-144a", "E20-28", "E20-32")
def test_a_classic_member_behind_its_target_must_rejoin(driver: GroupDriver) -> None:
    driver.join("n")
    driver.advance(1_000)
    assert heartbeat(driver, "c", 3) == IN_PROGRESS
    joins_until_ms = driver.now_ms + 60_000
    assert driver.timers["join", "g", "c"].fires_at_ms == joins_until_ms
    driver.advance(1_000)
    assert heartbeat(driver, "c", 3) == IN_PROGRESS
    assert driver.timers["join", "g", "c"].fires_at_ms == joins_until_ms
    assert driver.timers["session", "g", "c"].fires_at_ms == driver.now_ms + 60_000


@pytest.mark.fact("H-144b", "E20-28a")
def test_a_classic_member_that_must_revoke_must_rejoin(driver: GroupDriver) -> None:
    driver.assigns({"m": {"foo": [0, 1, 2, 3, 4, 5]}})
    driver.join("n")
    rejoined(driver, "c", owned=_owned(driver, "c"))
    assert driver.member("c").state is MemberState.UNREVOKED_PARTITIONS
    assert heartbeat(driver, "c", 3) == IN_PROGRESS
    assert ("join", "g", "c") in driver.timers


@pytest.mark.fact("H-144b", "E20-28a")
def test_a_member_that_revokes_at_the_epoch_of_the_target_must_rejoin() -> None:
    """Expect the target of the new subscription only after the interval."""
    driver = GroupDriver(settings=Settings())
    driver.join("m", ["nowhere"])
    driver.advance(1_000)
    driver.assigns({"c": {"foo": [0], "bar": [1]}})
    join(driver, "c", protocols=offers("foo", "bar"))
    assert driver.member("c").epoch == driver.group.assignment_epoch == 2
    owned: dict[str, Any] = {"foo": [0], "bar": [1]}
    join(driver, "c", protocols=offers("foo", owned=owned))
    assert driver.member("c").state is MemberState.UNREVOKED_PARTITIONS
    assert driver.member("c").epoch == driver.group.assignment_epoch == 2
    assert heartbeat(driver, "c", 2) == IN_PROGRESS
    assert ("join", "g", "c") in driver.timers


@pytest.mark.fact("H-144c", "E20-28b")
def test_a_waiting_classic_member_must_rejoin_once_all_its_partitions_are_free(
    driver: GroupDriver,
) -> None:
    (of_d, of_d_too), (of_m, _) = _owned(driver, "d")["foo"], _owned(driver, "m")["foo"]
    driver.assigns({"c": {"foo": [of_d, of_m]}})
    driver.join("n")
    rejoined(driver, "c")
    assert driver.member("c").state is MemberState.UNRELEASED_PARTITIONS
    assert heartbeat(driver, "c", 4) == ErrorCode.NONE
    rejoined(driver, "d")
    driver.heartbeat("m", 3)
    assert heartbeat(driver, "c", 4) == ErrorCode.NONE
    assert ("join", "g", "c") not in driver.timers
    driver.heartbeat("m", 3, owned={})
    assert heartbeat(driver, "c", 4) == IN_PROGRESS
    assert ("join", "g", "c") in driver.timers
    assert rejoined(driver, "c").response.generation_id == 4
    assert driver.member("c").assigned[FOO].keys() == {of_d, of_m}
    assert driver.member("c").state is MemberState.STABLE
    assert heartbeat(driver, "c", 4) == ErrorCode.NONE
    assert ("join", "g", "c") not in driver.timers
    assert driver.group.owner_epoch(FOO, of_d_too) == -1


@pytest.mark.fact("E20-32")
def test_a_classic_member_rejoins_after_its_target_is_computed() -> None:
    interval_ms = 5_000
    settings = Settings(group_consumer_assignment_interval_ms=interval_ms)
    driver = GroupDriver(settings=settings)
    driver.join("m")
    join(driver, "c", protocols=offers("foo"))
    assert (driver.group.epoch, driver.group.assignment_epoch) == (2, 1)
    assert sync(driver, "c", 1).error == ErrorCode.NONE
    assert heartbeat(driver, "c", 1) == ErrorCode.NONE
    driver.advance(interval_ms)
    assert heartbeat(driver, "c", 1) == ErrorCode.NONE
    driver.heartbeat("m", 1)
    assert heartbeat(driver, "c", 1) == IN_PROGRESS
    assert rejoined(driver, "c").response.generation_id == 2


def test_a_consumer_group_of_classic_members_keeps_rebalancing(
    driver: GroupDriver,
) -> None:
    """Keep the group from being downgraded, so that only classic members trigger new
    target assignments.
    """
    driver.settings = STAYS
    driver.heartbeat("m", -1)
    assert driver.group.classic_count == len(driver.group.members) == 2
    driver.topics.counts["foo"] = 9
    assert heartbeat(driver, "c", 3) == IN_PROGRESS
    assert driver.wrote_types[-1] == "target-epoch"
    for member_id in ("c", "d"):
        rejoined(driver, member_id)
        assert not sync(driver, member_id, driver.group.epoch).error
    driver.advance(5_000)
    driver.now_ms += 300_000
    assert heartbeat(driver, "c", driver.group.epoch) == IN_PROGRESS
    held = [len(driver.group.target(each)[FOO]) for each in ("c", "d")]
    assert sorted(held) == [4, 5]


def test_a_failing_assignor_does_not_affect_classic_members(
    driver: GroupDriver,
) -> None:
    def fail(spec: object) -> None:
        raise RuntimeError("no")

    driver.settings = STAYS
    driver.heartbeat("m", -1)
    driver.assigns(fail)
    assert heartbeat(driver, "c", 3) == ErrorCode.NONE
    assert not driver.wrote
    assert ("session", "g", "c") in driver.timers


@pytest.mark.fact("E20-26b")
def test_a_classic_heartbeat_with_another_generation_is_refused(
    driver: GroupDriver,
) -> None:
    assert heartbeat(driver, "x", 3) == UNKNOWN
    assert heartbeat(driver, "m", 3) == UNKNOWN
    assert heartbeat(driver, "c", 2) == ErrorCode.ILLEGAL_GENERATION
    assert heartbeat(driver, "c", 4) == ErrorCode.ILLEGAL_GENERATION
    assert heartbeat(driver, "c", 3, group_instance_id="i") == UNKNOWN


@pytest.mark.fact("H-145", "E20-29")
def test_a_classic_member_that_does_not_rejoin_in_time_is_fenced(
    driver: GroupDriver,
) -> None:
    rejoined(driver, "c", session_timeout_ms=60_000, rebalance_timeout_ms=20_000)
    sync(driver, "c", 3)
    driver.join("n")
    heartbeat(driver, "c", 3)
    epoch = driver.group.epoch
    driver.advance(19_999)
    assert heartbeat(driver, "c", 3) == IN_PROGRESS
    driver.advance(1)
    assert "c" not in driver.group.members
    assert driver.group.epoch == epoch + 1
    assert heartbeat(driver, "c", 3) == UNKNOWN


@pytest.mark.fact("E20-29a")
def test_a_classic_member_that_does_not_sync_in_time_is_fenced(
    driver: GroupDriver,
) -> None:
    join(driver, "e", protocols=offers("foo"), rebalance_timeout_ms=9_000)
    driver.advance(8_999)
    assert "e" in driver.group.members
    driver.advance(1)
    assert "e" not in driver.group.members
    assert {"c", "d"} <= driver.group.members.keys()


@pytest.mark.fact("E8-11", "E20-29b")
def test_a_classic_member_without_heartbeats_is_fenced(driver: GroupDriver) -> None:
    join(driver, "e", protocols=offers("foo"), session_timeout_ms=6_000)
    sync(driver, "e", driver.group.epoch)
    driver.advance(6_000)
    assert "e" not in driver.group.members
    assert ("sync", "g", "e") not in driver.timers


# Syncs.


@pytest.mark.fact("H-142", "E20-26e")
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_assignment_is_encoded_in_the_version_of_the_subscription(
    driver: GroupDriver, version: int
) -> None:
    rejoined(driver, "c", protocols=offers("foo", version=version))
    answer = sync(driver, "c", 3, protocol_type="consumer", protocol_name="range")
    assert answer.response.assignment[:2] == bytes([0, version])
    assert assigned(answer.response.assignment) == {
        "foo": sorted(driver.member("c").assigned[FOO])
    }
    assert answer.response.protocol_type == "consumer"
    assert answer.response.protocol_name == "range"
    assert ("sync", "g", "c") not in driver.timers
    assert not driver.wrote


@pytest.mark.fact("H-143a", "H-143b", "H-143d", "E20-26", "E20-26a", "E20-26b")
def test_a_classic_sync_with_wrong_ids_or_generation_is_refused(
    driver: GroupDriver,
) -> None:
    i = join(driver, group_instance_id="i", protocols=offers("foo")).response.member_id
    assert sync(driver, "x", 3).error == UNKNOWN
    assert sync(driver, "m", 3).error == UNKNOWN
    assert sync(driver, i, 4, group_instance_id="j").error == UNKNOWN
    fenced = sync(driver, "c", 3, group_instance_id="i")
    assert fenced.error == ErrorCode.FENCED_INSTANCE_ID
    assert sync(driver, "c", 2).error == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.fact("H-143c", "E20-26c")
@pytest.mark.parametrize(
    "wrong", [{"protocol_type": "connect"}, {"protocol_name": "roundrobin"}]
)
def test_a_sync_with_another_protocol_than_its_join_is_refused(
    driver: GroupDriver, wrong: dict[str, Any]
) -> None:
    assert sync(driver, "c", 3, **wrong).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.fact("H-143e", "E20-26d")
def test_a_sync_of_a_member_behind_the_target_gets_rebalance_in_progress(
    driver: GroupDriver,
) -> None:
    driver.join("n")
    assert sync(driver, "c", 3).error == IN_PROGRESS
    assert ("join", "g", "c") in driver.timers


@pytest.mark.fact("E20-26d")
def test_a_revoking_classic_member_receives_the_partitions_it_keeps(
    driver: GroupDriver,
) -> None:
    keeps, _ = _owned(driver, "c")["foo"]
    driver.assigns({"c": {"foo": [keeps]}})
    driver.join("n")
    rejoined(driver, "c", owned=_owned(driver, "c"))
    assert driver.group.epoch > driver.member("c").epoch == 3
    assert assigned(sync(driver, "c", 3).response.assignment) == {"foo": [keeps]}


def test_deleted_topics_are_not_assigned(driver: GroupDriver) -> None:
    del driver.topics.counts["foo"]
    assert assigned(sync(driver, "c", 3).response.assignment) == {}


# Leaving.


@pytest.mark.fact("H-146", "E6-17", "E20-30", "E20-30a")
def test_members_that_leave_in_one_request_bump_the_epoch_once(
    driver: GroupDriver,
) -> None:
    i = join(driver, group_instance_id="i", protocols=offers("foo")).response.member_id
    j = join(driver, group_instance_id="j", protocols=offers("foo")).response.member_id
    epoch = driver.group.epoch
    answer = leave(
        driver, "c", "x", "c", ("", "i"), (i, "j"), (j, "j"), ("y", "k"), ("", None)
    )
    fenced = ErrorCode.FENCED_INSTANCE_ID
    expected = [0, UNKNOWN, 0, 0, fenced, 0, UNKNOWN, UNKNOWN]
    assert codes(answer) == expected
    assert [each.member_id for each in answer.response.members[3:6]] == ["", i, j]
    assert driver.group.epoch == epoch + 1
    assert driver.wrote_types == ["-current", "-target", "-member"] * 3 + ["epoch"]
    assert {*driver.group.members} == {"m", "d"}


@pytest.mark.fact("E6-17", "E20-30", "E20-30a")
def test_an_admin_removes_members_of_both_protocols(driver: GroupDriver) -> None:
    driver.join("n", instance_id="i")
    epoch = driver.group.epoch
    assert codes(leave(driver, "c", ("", "i"))) == [0, 0]
    assert {*driver.group.members} == {"m", "d"}
    assert driver.group.epoch == epoch + 1
    assert codes(leave(driver, "d", "m")) == [0, 0]
    assert not driver.group.members
    assert driver.group.epoch == epoch + 2


def test_leaving_an_unknown_classic_member_changes_nothing(driver: GroupDriver) -> None:
    assert codes(leave(driver, "x", "y")) == [UNKNOWN, UNKNOWN]
    assert not driver.wrote
    assert not driver.results[-1].timers


@pytest.mark.fact("E20-30")
@pytest.mark.parametrize(("member_id", "code"), [("c", 0), ("x", UNKNOWN)])
def test_leave_group_before_version_3_removes_one_member(
    driver: GroupDriver, member_id: str, code: int
) -> None:
    request = m.LeaveGroupRequest(group_id="g", member_id=member_id)
    assert driver.send(request, version=2).error == code
    assert ("c" in driver.group.members) is (code != 0)


def test_a_member_that_left_has_no_timers(driver: GroupDriver) -> None:
    driver.join("n")
    heartbeat(driver, "c", 3)
    rejoined(driver, "d")
    leave(driver, "c", "d")
    left = {key for key in driver.timers if key[-1] in ("c", "d")}
    assert not left
