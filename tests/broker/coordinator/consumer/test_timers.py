"""Expiration of sessions, rebalance timeouts and assignment intervals (E8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.broker.coordinator.consumer.member import MemberState
from coterie.broker.coordinator.consumer.timers import EndRevocation
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.consumer.groups import (
    AT_ONCE,
    GroupDriver,
    received_assignment,
)

SESSION = ("session", "g", "m")
REBALANCE = ("rebalance", "g", "m")
IN_A_SECOND = replace(AT_ONCE, group_consumer_assignment_interval_ms=1_000)
FOO = b"foo".ljust(16, b"\0")


@pytest.fixture
def driver() -> GroupDriver:
    return GroupDriver()


def to_be_revoked() -> GroupDriver:
    """Return a group in which m must revoke three partitions of foo, because n
    joined.
    """
    driver = GroupDriver()
    driver.join("m")
    driver.join("n")
    driver.heartbeat("m", 1)
    assert driver.member("m").state is MemberState.UNREVOKED_PARTITIONS
    return driver


@pytest.mark.fact("H-60a", "H-60b", "H-60c", "E7-42", "E8-08")
def test_heartbeats_restart_the_session_timer_and_leaving_cancels_it(
    driver: GroupDriver,
) -> None:
    driver.join("m")
    assert driver.timers[SESSION].fires_at_ms == driver.now_ms + 45_000
    driver.advance(10_000)
    driver.heartbeat("m", 1)
    assert driver.timers[SESSION].fires_at_ms == driver.now_ms + 45_000
    driver.heartbeat("m", -1)
    assert SESSION not in driver.timers


@pytest.mark.fact("E7-42a")
def test_a_refused_heartbeat_does_not_extend_the_session(driver: GroupDriver) -> None:
    driver.join("m")
    before = driver.timers[SESSION]
    driver.advance(10)
    assert driver.heartbeat("m", 7).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.timers[SESSION] is before


@pytest.mark.fact("H-61", "E8-02", "E6-03", "E8-01a")
def test_a_member_whose_session_expires_is_fenced(driver: GroupDriver) -> None:
    driver.join("m")
    driver.join("n", ["bar"])
    driver.advance(44_999)
    driver.heartbeat("n", 2)
    assert "m" in driver.group.members
    driver.advance(1)
    assert "m" not in driver.group.members
    assert driver.wrote_types == ["-current", "-target", "-member", "epoch"]
    assert driver.group.epoch == 3


@pytest.mark.fact("H-63a", "H-63b", "H-63c", "E8-03", "E8-03a")
def test_each_member_has_its_own_rebalance_timeout() -> None:
    driver = to_be_revoked()
    assert driver.timers[REBALANCE].fires_at_ms == driver.now_ms + 10_000
    keeps = [*driver.member("m").assigned[FOO]]
    driver.heartbeat("m", 1, owned={"foo": keeps}, rebalance_timeout_ms=5_000)
    assert REBALANCE not in driver.timers
    driver.join("o")
    driver.heartbeat("m", 2)
    assert driver.timers[REBALANCE].fires_at_ms == driver.now_ms + 5_000


@pytest.mark.fact("E8-08a")
def test_the_removal_of_a_member_cancels_its_rebalance_timeout() -> None:
    driver = to_be_revoked()
    driver.heartbeat("m", -1)
    assert REBALANCE not in driver.timers


@pytest.mark.fact("H-64", "E8-04", "E6-04")
def test_a_member_that_does_not_revoke_is_fenced() -> None:
    driver = to_be_revoked()
    driver.advance(9_999)
    driver.heartbeat("m", 1)
    assert "m" in driver.group.members
    driver.advance(1)
    assert "m" not in driver.group.members
    assert driver.group.epoch == 3
    answer = driver.heartbeat("n", 2)
    assert received_assignment(answer) == {"foo": [0, 1, 2, 3, 4, 5]}


@pytest.mark.fact("E8-04a")
def test_a_revocation_timeout_of_an_older_epoch_fences_no_member() -> None:
    driver = to_be_revoked()
    driver.fire(EndRevocation("g", "m", member_epoch=0))
    driver.fire(EndRevocation("g", "gone", member_epoch=1))
    driver.fire(EndRevocation("nowhere", "m", member_epoch=1))
    assert "m" in driver.group.members
    assert not driver.wrote


@pytest.mark.fact("E8-05")
def test_a_member_waiting_for_free_partitions_has_no_rebalance_timeout() -> None:
    driver = to_be_revoked()
    assert driver.member("n").state is MemberState.UNRELEASED_PARTITIONS
    assert ("rebalance", "g", "n") not in driver.timers


@pytest.mark.fact(
    "H-65a", "H-65b", "E8-06", "E15-06", "E6-18", "E23-10b", "E23-10c", "E8-06a"
)
def test_loading_restarts_every_timeout() -> None:
    driver = to_be_revoked()
    driver.advance(5_000)
    loaded = driver.reload()
    sessions = {key: each.fires_at_ms for key, each in loaded.timers.items()}
    assert sessions[SESSION] == loaded.now_ms + 45_000
    assert sessions["session", "g", "n"] == loaded.now_ms + 45_000
    assert sessions[REBALANCE] == loaded.now_ms + 10_000
    assert ("rebalance", "g", "n") not in sessions
    assert loaded.shard.state.consumer_groups["g"].is_refresh_due(loaded.now_ms)


@pytest.mark.fact("E4-02", "E20-32", "E3-02b", "E4-01a")
def test_simultaneous_joins_share_one_target_computation() -> None:
    driver = GroupDriver(settings=IN_A_SECOND)
    assert received_assignment(driver.join("m")) == {"foo": [0, 1, 2, 3, 4, 5]}
    driver.advance(10)
    for member_id in ("n", "o"):
        answer = driver.join(member_id)
        assert received_assignment(answer) == {}
        assert answer.response.member_epoch == 1
        assert driver.wrote_types == ["member", "epoch", "current"]
    assert driver.group.state.value == "Assigning"
    driver.advance(989)
    driver.heartbeat("n", 1)
    assert driver.group.assignment_epoch == 1
    driver.advance(1)
    assert driver.group.assignment_epoch == 1
    driver.heartbeat("n", 1)
    words = ["target", "target", "target", "target-epoch", "current"]
    assert driver.wrote_types == words
    assert driver.group.assignment_epoch == driver.group.epoch == 3
    driver.settled("m", "n", "o")


@pytest.mark.fact("E3-02a")
def test_after_the_assignment_interval_a_join_computes_its_target() -> None:
    driver = GroupDriver(settings=IN_A_SECOND)
    driver.join("m")
    driver.advance(1_000)
    driver.join("n")
    assert driver.group.assignment_epoch == 2
