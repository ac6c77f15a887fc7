"""Heartbeats, syncs and leaves of classic members in a consumer group (E20.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

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


@pytest.mark.bug("KAFKA-18188")
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


def test_a_member_that_left_has_no_timers(driver: GroupDriver) -> None:
    driver.join("n")
    heartbeat(driver, "c", 3)
    rejoined(driver, "d")
    leave(driver, "c", "d")
    left = {key for key in driver.timers if key[-1] in ("c", "d")}
    assert not left
