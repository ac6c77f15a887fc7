"""Classic members of a consumer group send heartbeats, sync and leave (E20.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coterie.coordinator.consumer.member import MemberState
from coterie.settings import Settings
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.leave_group import LeaveGroupRequest
from tests.coordinator.classic.members import (
    codes,
    heartbeat,
    join,
    leave,
    sync,
)
from tests.coordinator.consumer.faces import assigned, offers, rejoined
from tests.coordinator.consumer.groups import AT_ONCE, GroupDriver, topic_id

FOO = topic_id("foo")
IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
STAYS = replace(AT_ONCE, group_consumer_migration_policy="disabled")
"""The group stays a consumer group, whoever is in it."""


@pytest.fixture
def driver() -> GroupDriver:
    """m speaks the consumer protocol; c, a classic member, and the static d share foo
    with it. Everybody is at epoch 3."""
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


@pytest.mark.fact("E20-28", "E8-11")
def test_a_heartbeat_keeps_the_session_and_nothing_else(driver: GroupDriver) -> None:
    driver.advance(1_000)
    assert heartbeat(driver, "c", 3) == ErrorCode.NONE
    assert driver.timers["session", "g", "c"].fires_at_ms == driver.now_ms + 60_000
    assert not driver.wrote
    assert ("join", "g", "c") not in driver.timers


@pytest.mark.fact("H-144", "E20-28", "E20-32")
def test_who_is_behind_is_to_join_again(driver: GroupDriver) -> None:
    driver.join("n")
    driver.advance(1_000)
    assert heartbeat(driver, "c", 3) == IN_PROGRESS
    joins_until_ms = driver.now_ms + 60_000
    assert driver.timers["join", "g", "c"].fires_at_ms == joins_until_ms
    driver.advance(1_000)
    assert heartbeat(driver, "c", 3) == IN_PROGRESS
    assert driver.timers["join", "g", "c"].fires_at_ms == joins_until_ms
    assert driver.timers["session", "g", "c"].fires_at_ms == driver.now_ms + 60_000


@pytest.mark.fact("H-144", "E20-28")
def test_who_has_to_revoke_is_to_join_again(driver: GroupDriver) -> None:
    driver.assigns({"m": {"foo": [0, 1, 2, 3, 4, 5]}})
    driver.join("n")
    rejoined(driver, "c", owned=_owned(driver, "c"))
    assert driver.member("c").state is MemberState.UNREVOKED_PARTITIONS
    assert heartbeat(driver, "c", 3) == IN_PROGRESS
    assert ("join", "g", "c") in driver.timers


@pytest.mark.fact("H-144", "E20-28")
def test_who_waits_is_to_join_again_once_something_is_free(
    driver: GroupDriver,
) -> None:
    (of_d, of_d_too), (of_m, _) = _owned(driver, "d")["foo"], _owned(driver, "m")["foo"]
    driver.assigns({"c": {"foo": [of_d, of_m]}})
    driver.join("n")
    rejoined(driver, "c")
    assert driver.member("c").state is MemberState.UNRELEASED_PARTITIONS
    assert heartbeat(driver, "c", 4) == ErrorCode.NONE
    rejoined(driver, "d")
    assert heartbeat(driver, "c", 4) == IN_PROGRESS
    assert ("join", "g", "c") in driver.timers
    assert rejoined(driver, "c").response.generation_id == 4
    assert driver.member("c").assigned[FOO].keys() == {of_d}
    assert heartbeat(driver, "c", 4) == ErrorCode.NONE
    assert ("join", "g", "c") not in driver.timers
    assert driver.group.owner_epoch(FOO, of_d_too) == -1


@pytest.mark.fact("E20-32")
def test_who_is_told_to_join_finds_a_target() -> None:
    interval_ms = 5_000
    settings = Settings(group_consumer_assignment_interval_ms=interval_ms)
    driver = GroupDriver(settings=settings)
    driver.join("m")
    join(driver, "c", protocols=offers("foo"))
    assert (driver.group.epoch, driver.group.assignment_epoch) == (2, 1)
    assert sync(driver, "c", 1).error == ErrorCode.NONE
    assert heartbeat(driver, "c", 1) == ErrorCode.NONE
    driver.advance(interval_ms)
    assert heartbeat(driver, "c", 1) == IN_PROGRESS
    assert rejoined(driver, "c").response.generation_id == 2


def test_a_group_with_classic_members_alone_goes_on_by_itself(
    driver: GroupDriver,
) -> None:
    """Where the policy keeps it a consumer group, nobody else makes its targets."""
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


def test_a_failing_assignor_is_no_matter_of_a_classic_member(
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


@pytest.mark.fact("E20-28")
def test_a_heartbeat_comes_from_a_classic_member_of_this_epoch(
    driver: GroupDriver,
) -> None:
    assert heartbeat(driver, "x", 3) == UNKNOWN
    assert heartbeat(driver, "m", 3) == UNKNOWN
    assert heartbeat(driver, "c", 2) == ErrorCode.ILLEGAL_GENERATION
    assert heartbeat(driver, "c", 4) == ErrorCode.ILLEGAL_GENERATION
    assert heartbeat(driver, "c", 3, group_instance_id="i") == UNKNOWN


@pytest.mark.fact("H-145", "E20-29")
def test_who_does_not_join_in_time_is_fenced(driver: GroupDriver) -> None:
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


@pytest.mark.fact("E20-29")
def test_who_does_not_sync_in_time_is_fenced(driver: GroupDriver) -> None:
    join(driver, "e", protocols=offers("foo"), rebalance_timeout_ms=9_000)
    driver.advance(8_999)
    assert "e" in driver.group.members
    driver.advance(1)
    assert "e" not in driver.group.members
    assert {"c", "d"} <= driver.group.members.keys()


@pytest.mark.fact("E20-29", "E8-11")
def test_who_is_not_heard_of_is_fenced(driver: GroupDriver) -> None:
    join(driver, "e", protocols=offers("foo"), session_timeout_ms=6_000)
    sync(driver, "e", driver.group.epoch)
    driver.advance(6_000)
    assert "e" not in driver.group.members
    assert ("sync", "g", "e") not in driver.timers


# Syncs.


@pytest.mark.fact("H-142", "E20-26")
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_assignment_comes_in_the_members_version(
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


@pytest.mark.fact("H-143", "E20-26")
def test_a_sync_comes_from_a_classic_member_of_this_epoch(
    driver: GroupDriver,
) -> None:
    i = join(driver, group_instance_id="i", protocols=offers("foo")).response.member_id
    assert sync(driver, "x", 3).error == UNKNOWN
    assert sync(driver, "m", 3).error == UNKNOWN
    assert sync(driver, i, 4, group_instance_id="j").error == UNKNOWN
    fenced = sync(driver, "c", 3, group_instance_id="i")
    assert fenced.error == ErrorCode.FENCED_INSTANCE_ID
    assert sync(driver, "c", 2).error == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.fact("H-143", "E20-26")
@pytest.mark.parametrize(
    "wrong", [{"protocol_type": "connect"}, {"protocol_name": "roundrobin"}]
)
def test_a_sync_names_the_protocol_of_its_join(
    driver: GroupDriver, wrong: dict[str, Any]
) -> None:
    assert sync(driver, "c", 3, **wrong).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.fact("H-143", "E20-26", "E20-28")
def test_a_sync_that_comes_too_late_is_to_join_again(driver: GroupDriver) -> None:
    driver.join("n")
    assert sync(driver, "c", 3).error == IN_PROGRESS
    assert ("join", "g", "c") in driver.timers


@pytest.mark.fact("E20-26", "E20-27")
def test_who_has_to_revoke_is_told_what_it_keeps(driver: GroupDriver) -> None:
    keeps, _ = _owned(driver, "c")["foo"]
    driver.assigns({"c": {"foo": [keeps]}})
    driver.join("n")
    rejoined(driver, "c", owned=_owned(driver, "c"))
    assert driver.group.epoch > driver.member("c").epoch == 3
    assert assigned(sync(driver, "c", 3).response.assignment) == {"foo": [keeps]}


def test_topics_that_are_gone_are_not_assigned(driver: GroupDriver) -> None:
    del driver.topics.counts["foo"]
    assert assigned(sync(driver, "c", 3).response.assignment) == {}


# Leaving.


@pytest.mark.fact("H-146", "E20-30", "E6-17")
def test_a_batch_that_leaves_bumps_once(driver: GroupDriver) -> None:
    i = join(driver, group_instance_id="i", protocols=offers("foo")).response.member_id
    j = join(driver, group_instance_id="j", protocols=offers("foo")).response.member_id
    epoch = driver.group.epoch
    answer = leave(
        driver, "c", "x", "c", ("", "i"), (i, "j"), (j, "j"), ("y", "k"), ("", None)
    )
    fenced = ErrorCode.FENCED_INSTANCE_ID
    expected = [0, UNKNOWN, UNKNOWN, 0, fenced, 0, UNKNOWN, UNKNOWN]
    assert codes(answer) == expected
    assert [each.member_id for each in answer.response.members[3:6]] == ["", i, j]
    assert driver.group.epoch == epoch + 1
    assert driver.wrote_types == ["-current", "-target", "-member"] * 3 + ["epoch"]
    assert {*driver.group.members} == {"m", "d"}


@pytest.mark.fact("F6-07", "E20-30", "E6-17")
def test_an_admin_removes_members_of_both_protocols(driver: GroupDriver) -> None:
    driver.join("n", instance_id="i")
    epoch = driver.group.epoch
    assert codes(leave(driver, "c", ("", "i"))) == [0, 0]
    assert {*driver.group.members} == {"m", "d"}
    assert driver.group.epoch == epoch + 1
    assert codes(leave(driver, "d", "m")) == [0, 0]
    assert not driver.group.members
    assert driver.group.assignment_epoch == driver.group.epoch


def test_who_is_not_there_leaves_nothing_behind(driver: GroupDriver) -> None:
    assert codes(leave(driver, "x", "y")) == [UNKNOWN, UNKNOWN]
    assert not driver.wrote
    assert not driver.results[-1].timers


@pytest.mark.fact("E20-30")
@pytest.mark.parametrize(("member_id", "code"), [("c", 0), ("x", UNKNOWN)])
def test_before_version_3_one_member_leaves(
    driver: GroupDriver, member_id: str, code: int
) -> None:
    request = LeaveGroupRequest(group_id="g", member_id=member_id)
    assert driver.send(request, version=2).error == code
    assert ("c" in driver.group.members) is (code != 0)


def test_a_member_that_left_has_no_timers(driver: GroupDriver) -> None:
    driver.join("n")
    heartbeat(driver, "c", 3)
    rejoined(driver, "d")
    leave(driver, "c", "d")
    left = {key for key in driver.timers if key[-1] in ("c", "d")}
    assert not left
