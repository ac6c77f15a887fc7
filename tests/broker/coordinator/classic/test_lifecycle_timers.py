from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.coordinator.classic.group import GroupState
from coterie.broker.coordinator.classic.timers import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    EndInitialDelay,
    EndJoinPhase,
    EndSyncPhase,
    ExpireSession,
)
from coterie.settings import Settings
from tests.broker.coordinator.classic.members import (
    REBALANCE_MS,
    SESSION_MS,
    heartbeat,
    join,
    join_request,
    joining_group,
    leave,
    stable_group,
    sync,
)
from tests.broker.coordinator.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_a_member_whose_session_expires_is_removed_and_the_others_rebalance(
    driver: Driver,
) -> None:
    leader, follower = stable_group(driver)
    driver.advance(SESSION_MS - 1)
    assert heartbeat(driver, leader) == 0
    driver.advance(1)
    assert heartbeat(driver, leader) == 27
    assert list(driver.groups["g"].members) == [leader]
    assert heartbeat(driver, follower) == 25


@pytest.mark.fact("E22-32b")
def test_a_group_is_empty_when_all_sessions_have_expired(driver: Driver) -> None:
    stable_group(driver)
    driver.advance(SESSION_MS + REBALANCE_MS)
    group = driver.groups["g"]
    assert group.state is GroupState.EMPTY
    assert driver.log[-1].value.members == []  # type: ignore[union-attr]
    assert driver.timers == {}


@pytest.mark.fact("E19-05a")
def test_a_static_member_is_removed_at_the_end_of_its_session(driver: Driver) -> None:
    ids = stable_group(driver, static=True)
    driver.advance(SESSION_MS - 1)
    heartbeat(driver, ids[0])
    driver.advance(1)
    assert list(driver.groups["g"].members) == [ids[0]]
    assert driver.groups["g"].static_members == {"i0": ids[0]}


def test_a_member_with_a_pending_join_needs_no_heartbeat(
    driver: Driver,
) -> None:
    leader, follower = stable_group(driver)
    waiting = join(driver, leader)
    for _ in range(4):
        driver.advance(SESSION_MS - 1)
        heartbeat(driver, follower)
    assert waiting.parked
    assert join(driver, follower).error == 0
    assert waiting.error == 0


def test_a_rebalance_ends_when_the_last_missing_member_expires(driver: Driver) -> None:
    leader, _ = stable_group(driver)
    waiting = join(driver, leader)
    driver.advance(SESSION_MS)
    assert waiting.error == 0
    assert list(driver.groups["g"].members) == [leader]


def test_the_join_of_a_new_member_is_pending_for_at_most_five_minutes(
    driver: Driver,
) -> None:
    long_ms = 2 * NEW_MEMBER_JOIN_TIMEOUT_MS
    times: dict[str, Any] = {
        "session_timeout_ms": long_ms,
        "rebalance_timeout_ms": long_ms,
    }
    (member_id,) = stable_group(driver, 1, **times)
    newcomer = join(driver)
    driver.advance(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    assert newcomer.parked
    driver.advance(1)
    assert newcomer.error == 25
    assert newcomer.response.member_id == ""
    assert list(driver.groups["g"].members) == [member_id]


def test_after_the_first_generation_the_session_timeout_of_the_member_applies(
    driver: Driver,
) -> None:
    (member_id,) = joining_group(driver, 1)
    sync(driver, member_id)
    driver.advance(SESSION_MS)
    assert member_id not in driver.groups["g"].members


@pytest.mark.fact("E19-09")
def test_members_that_send_no_sync_are_removed(driver: Driver) -> None:
    ids = joining_group(driver, 3, session_timeout_ms=200_000)
    waiting = sync(driver, ids[1])
    driver.advance(REBALANCE_MS - 1)
    assert waiting.parked
    driver.advance(1)
    assert waiting.error == 27
    assert list(driver.groups["g"].members) == [ids[1]]
    assert driver.groups["g"].state is GroupState.PREPARING_REBALANCE


@pytest.mark.fact("E19-09")
def test_a_follower_that_never_syncs_is_removed_from_a_stable_group(
    driver: Driver,
) -> None:
    leader, follower = joining_group(driver, session_timeout_ms=200_000)
    sync(driver, leader)
    driver.advance(REBALANCE_MS)
    assert list(driver.groups["g"].members) == [leader]
    assert heartbeat(driver, leader) == 27
    assert heartbeat(driver, follower) == 25


def test_the_sync_timer_does_nothing_when_all_members_have_synced(
    driver: Driver,
) -> None:
    ids = stable_group(driver, session_timeout_ms=200_000)
    assert ("sync", "g") not in driver.timers
    driver.advance(REBALANCE_MS)
    assert [heartbeat(driver, member_id) for member_id in ids] == [0, 0]


def test_a_late_sync_of_a_stable_group_is_accepted(driver: Driver) -> None:
    leader, follower = joining_group(driver, session_timeout_ms=200_000)
    sync(driver, leader)
    driver.advance(REBALANCE_MS - 1)
    sync(driver, follower)
    driver.advance(1)
    assert heartbeat(driver, leader) == 0


@pytest.mark.fact("E19-09")
def test_a_group_without_any_sync_becomes_empty(driver: Driver) -> None:
    joining_group(driver, session_timeout_ms=200_000)
    driver.advance(REBALANCE_MS)
    assert driver.groups["g"].state is GroupState.EMPTY


def test_a_rebalance_cancels_the_sync_timer(driver: Driver) -> None:
    joining_group(driver)
    join(driver)
    assert ("sync", "g") not in driver.timers


@pytest.mark.parametrize(
    "request_",
    [
        ExpireSession("gone", "m"),
        EndInitialDelay("gone", 1, 1),
        EndJoinPhase("gone"),
        EndSyncPhase("gone", 1),
        ExpireSession("g", "gone"),
        EndInitialDelay("g", 1, 1),
        EndJoinPhase("g"),
        EndSyncPhase("g", 1),
        EndSyncPhase("g", 7),
    ],
)
def test_an_outdated_timer_does_nothing(driver: Driver, request_: object) -> None:
    ids = stable_group(driver)
    driver.fire(request_)
    assert driver.results[-1] == type(driver.results[-1])()
    assert [heartbeat(driver, member_id) for member_id in ids] == [0, 0]


@pytest.mark.parametrize("leaves", [True, False])
def test_an_expiration_ends_the_initial_delay_and_a_leave_does_not(
    leaves: bool,
) -> None:
    driver = Driver(settings=Settings(group_initial_rebalance_delay_ms=60_000))
    joined = join(driver)
    pending_id = driver.send(join_request()).response.member_id
    if leaves:
        leave(driver, pending_id)
        assert joined.response is None
    driver.advance(SESSION_MS)
    assert (joined.response is None) is leaves


def test_the_initial_delay_elapses_even_without_members(driver: Driver) -> None:
    sent = join(driver)
    member_id = next(iter(driver.groups["g"].members))
    leave(driver, member_id)
    assert sent.error == 25
    assert driver.groups["g"].state is GroupState.PREPARING_REBALANCE
    driver.advance(3_000)
    assert driver.groups["g"].state is GroupState.EMPTY


def test_a_group_may_become_empty_while_a_member_is_pending(driver: Driver) -> None:
    ids = stable_group(driver)
    pending = join_request(session_timeout_ms=200_000)
    pending_id = driver.send(pending).response.member_id
    leave(driver, *ids)
    driver.advance(REBALANCE_MS)
    assert driver.groups["g"].state is GroupState.EMPTY
    sent = driver.send(join_request(pending_id))
    driver.advance(3_000)
    assert sent.error == 0
