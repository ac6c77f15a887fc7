from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.broker.coordinator.classic.group import GroupState
from coterie.broker.coordinator.classic.heartbeat import session_of
from coterie.broker.coordinator.classic.timers import ExpireSession, commit_timers
from coterie.broker.coordinator.result import Session, Timer
from coterie.wire import messages as m
from tests.broker.coordinator.classic.members import (
    SESSION_MS,
    heartbeat,
    join,
    joining_group,
    leave,
    stable_group,
)
from tests.broker.coordinator.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.mark.fact("E19-10")
def test_heartbeats_of_members_of_a_stable_group_succeed(driver: Driver) -> None:
    ids = stable_group(driver)
    assert [heartbeat(driver, member_id) for member_id in ids] == [0, 0]


@pytest.mark.fact("E19-10")
def test_heartbeats_between_join_and_sync_succeed(driver: Driver) -> None:
    ids = joining_group(driver)
    assert [heartbeat(driver, member_id) for member_id in ids] == [0, 0]


@pytest.mark.fact("E19-10a")
def test_heartbeats_report_a_rebalance(driver: Driver) -> None:
    ids = stable_group(driver)
    join(driver)
    assert [heartbeat(driver, member_id) for member_id in ids] == [27, 27]


@pytest.mark.fact("E19-10b")
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


def test_a_heartbeat_only_sets_the_session_timer(driver: Driver) -> None:
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


@pytest.mark.fact("E19-10c")
def test_an_unknown_group_returns_unknown_member_id(driver: Driver) -> None:
    assert heartbeat(driver, "unknown") == 25


@pytest.mark.fact("E19-10c")
def test_an_empty_group_returns_unknown_member_id(driver: Driver) -> None:
    ids = stable_group(driver)
    leave(driver, *ids)
    assert driver.groups["g"].state is GroupState.EMPTY
    assert heartbeat(driver, ids[0], generation=2) == 25


@pytest.mark.fact("E19-10c")
def test_an_unknown_member_is_refused(driver: Driver) -> None:
    stable_group(driver)
    assert heartbeat(driver, "unknown") == 25


@pytest.mark.fact("E19-10d")
@pytest.mark.parametrize("generation", [0, 2, -1])
def test_a_wrong_generation_is_illegal(driver: Driver, generation: int) -> None:
    ids = stable_group(driver)
    assert heartbeat(driver, ids[0], generation) == 22


def test_a_static_member_with_another_member_id_is_fenced(driver: Driver) -> None:
    stable_group(driver, 1, static=True)
    assert heartbeat(driver, "old-id", group_instance_id="i0") == 82


def test_an_unknown_instance_id_returns_unknown_member_id(driver: Driver) -> None:
    (member_id,) = stable_group(driver, 1, static=True)
    assert heartbeat(driver, member_id, group_instance_id="other") == 25


def test_a_heartbeat_with_matching_member_and_instance_ids_succeeds(
    driver: Driver,
) -> None:
    (member_id,) = stable_group(driver, 1, static=True)
    assert heartbeat(driver, member_id, group_instance_id="i0") == 0


def test_a_commit_without_a_member_id_refreshes_no_session(driver: Driver) -> None:
    stable_group(driver, 1)
    assert commit_timers(driver.groups["g"], "", 5) == ()


def session(driver: Driver, member_id: str, generation: int = 1) -> Session | None:
    request = m.HeartbeatRequest(
        group_id="g", generation_id=generation, member_id=member_id
    )
    return session_of(driver.shard.state, request)


@pytest.mark.parametrize("make", [stable_group, joining_group])
def test_a_successful_heartbeat_only_refreshes_the_session(
    driver: Driver, make: Callable[[Driver], list[str]]
) -> None:
    _, follower = make(driver)
    assert heartbeat(driver, follower) == 0
    (timer,) = driver.results[-1].timers
    assert session(driver, follower) == Session(timer.key, SESSION_MS)


def test_a_heartbeat_that_returns_an_error_has_no_session_to_refresh(
    driver: Driver,
) -> None:
    assert session(driver, "unknown") is None
    leader, _ = stable_group(driver)
    assert session(driver, "unknown") is None
    assert session(driver, leader, generation=2) is None
    join(driver)
    assert session(driver, leader) is None
