from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.coordinator.classic.group import GroupState
from coterie.coordinator.classic.heartbeat import session_of
from coterie.coordinator.classic.timers import ExpireSession, commit_timers
from coterie.coordinator.result import Session, Timer
from coterie.wire.messages.heartbeat import HeartbeatRequest
from tests.coordinator.classic.members import (
    SESSION_MS,
    heartbeat,
    join,
    joining_group,
    leave,
    stable_group,
)
from tests.coordinator.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.mark.fact("E19-10")
def test_a_stable_groups_members_are_fine(driver: Driver) -> None:
    ids = stable_group(driver)
    assert [heartbeat(driver, member_id) for member_id in ids] == [0, 0]


@pytest.mark.fact("E19-10")
def test_members_between_join_and_sync_are_fine(driver: Driver) -> None:
    ids = joining_group(driver)
    assert [heartbeat(driver, member_id) for member_id in ids] == [0, 0]


@pytest.mark.fact("E19-10")
def test_members_are_told_of_a_rebalance(driver: Driver) -> None:
    ids = stable_group(driver)
    join(driver)
    assert [heartbeat(driver, member_id) for member_id in ids] == [27, 27]


@pytest.mark.fact("E19-10")
def test_the_session_is_refreshed_while_a_rebalance_is_prepared(driver: Driver) -> None:
    (member_id,) = stable_group(driver, 1)
    join(driver)
    for _ in range(5):
        driver.advance(SESSION_MS - 1)
        assert heartbeat(driver, member_id) == 27
    assert member_id in driver.groups["g"].members


@pytest.mark.fact("E19-10")
def test_a_heartbeat_keeps_the_session_alive(driver: Driver) -> None:
    (member_id,) = stable_group(driver, 1)
    for _ in range(5):
        driver.advance(SESSION_MS - 1)
        assert heartbeat(driver, member_id) == 0
    driver.advance(SESSION_MS)
    assert heartbeat(driver, member_id) == 25


@pytest.mark.fact("E19-10")
def test_a_heartbeat_is_one_timer_and_nothing_else(driver: Driver) -> None:
    ids = stable_group(driver, 10)
    heartbeat(driver, ids[3])
    result = driver.results[-1]
    timer = Timer(
        ("session", "g", ids[3]),
        driver.now_ms + SESSION_MS,
        ExpireSession("g", ids[3]),
    )
    assert result.timers == (timer,)
    assert (result.changes, result.records, result.replies) == ((), (), ())


@pytest.mark.fact("E19-10")
def test_a_group_nobody_knows_has_no_members(driver: Driver) -> None:
    assert heartbeat(driver, "somebody") == 25


@pytest.mark.fact("E19-10")
def test_an_empty_group_has_no_members(driver: Driver) -> None:
    ids = stable_group(driver)
    leave(driver, *ids)
    assert driver.groups["g"].state is GroupState.EMPTY
    assert heartbeat(driver, ids[0], generation=2) == 25


@pytest.mark.fact("E19-10")
def test_an_unknown_member_is_told_so(driver: Driver) -> None:
    stable_group(driver)
    assert heartbeat(driver, "somebody") == 25


@pytest.mark.fact("E19-10")
@pytest.mark.parametrize("generation", [0, 2, -1])
def test_another_generation_is_illegal(driver: Driver, generation: int) -> None:
    ids = stable_group(driver)
    assert heartbeat(driver, ids[0], generation) == 22


@pytest.mark.fact("E19-10")
def test_a_dead_group_sends_members_to_look_for_the_coordinator(driver: Driver) -> None:
    (member_id,) = stable_group(driver, 1)
    driver.groups["g"].state = GroupState.DEAD
    assert heartbeat(driver, member_id) == 15


@pytest.mark.fact("H-120")
def test_an_empty_group_id_is_invalid(driver: Driver) -> None:
    assert heartbeat(driver, "m", group_id="") == 24


def test_a_static_member_with_another_member_id_is_fenced(driver: Driver) -> None:
    stable_group(driver, 1, static=True)
    assert heartbeat(driver, "old-id", group_instance_id="i0") == 82


def test_an_instance_nobody_knows_is_an_unknown_member(driver: Driver) -> None:
    (member_id,) = stable_group(driver, 1, static=True)
    assert heartbeat(driver, member_id, group_instance_id="other") == 25


def test_a_static_member_is_known_by_both_its_ids(driver: Driver) -> None:
    (member_id,) = stable_group(driver, 1, static=True)
    assert heartbeat(driver, member_id, group_instance_id="i0") == 0


@pytest.mark.fact("E17-10")
def test_a_commit_refreshes_the_session_of_a_stable_member(driver: Driver) -> None:
    (member_id,) = stable_group(driver, 1)
    (timer,) = commit_timers(driver.groups["g"], member_id, 5)
    assert timer == Timer(
        ("session", "g", member_id), 5 + SESSION_MS, ExpireSession("g", member_id)
    )


@pytest.mark.fact("E17-10")
def test_a_commit_refreshes_the_session_in_the_join_phase(driver: Driver) -> None:
    (member_id,) = stable_group(driver, 1)
    join(driver)
    assert commit_timers(driver.groups["g"], member_id, 5)


@pytest.mark.fact("E17-10")
def test_a_commit_between_join_and_sync_refreshes_nothing(driver: Driver) -> None:
    (member_id,) = joining_group(driver, 1)
    assert commit_timers(driver.groups["g"], member_id, 5) == ()


def test_a_commit_by_nobody_refreshes_nothing(driver: Driver) -> None:
    stable_group(driver, 1)
    assert commit_timers(driver.groups["g"], "", 5) == ()


def session(driver: Driver, member_id: str, generation: int = 1) -> Session | None:
    request = HeartbeatRequest(
        group_id="g", generation_id=generation, member_id=member_id
    )
    return session_of(driver.shard.state, request)


@pytest.mark.parametrize("make", [stable_group, joining_group])
def test_a_plain_heartbeat_has_a_session_to_refresh(
    driver: Driver, make: Callable[[Driver], list[str]]
) -> None:
    _, follower = make(driver)
    assert heartbeat(driver, follower) == 0
    (timer,) = driver.results[-1].timers
    assert session(driver, follower) == Session(timer.key, SESSION_MS)


def test_a_heartbeat_with_more_to_say_has_no_session_to_refresh(
    driver: Driver,
) -> None:
    assert session(driver, "somebody") is None
    leader, _ = stable_group(driver)
    assert session(driver, "somebody") is None
    assert session(driver, leader, generation=2) is None
    join(driver)
    assert session(driver, leader) is None
    driver.groups["g"].state = GroupState.DEAD
    assert session(driver, leader) is None
