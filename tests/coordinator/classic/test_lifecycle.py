from __future__ import annotations

import pytest

from coterie.coordinator.classic import lifecycle
from coterie.coordinator.classic.check import check
from coterie.coordinator.classic.group import GroupState
from tests.coordinator.classic.members import (
    SESSION_MS,
    heartbeat,
    join,
    joining_group,
    leave,
    stable_group,
    sync,
)
from tests.coordinator.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


def resign(driver: Driver) -> None:
    group = driver.groups["g"]
    driver.settle(lifecycle.resigned(group, driver.now_ms, driver.settings))


@pytest.mark.fact("E19-17")
def test_loaded_members_have_a_whole_session(driver: Driver) -> None:
    ids = stable_group(driver)
    driver.advance(SESSION_MS - 1)
    loaded = driver.reload()
    loaded.advance(SESSION_MS - 1)
    assert heartbeat(loaded, ids[0]) == 0
    loaded.advance(1)
    assert list(loaded.groups["g"].members) == [ids[0]]


@pytest.mark.fact("E19-16")
def test_parked_joins_are_answered_when_the_coordinator_moves(driver: Driver) -> None:
    sent = join(driver)
    resign(driver)
    assert sent.error == 16
    assert not driver.parked


@pytest.mark.fact("E19-16")
def test_parked_syncs_are_answered_when_the_coordinator_moves(driver: Driver) -> None:
    _, follower = joining_group(driver)
    waiting = sync(driver, follower)
    resign(driver)
    assert waiting.error == 16


@pytest.mark.fact("E19-16", "E19-01")
def test_a_group_that_was_resigned_is_dead(driver: Driver) -> None:
    (member_id,) = stable_group(driver, 1)
    resign(driver)
    assert driver.groups["g"].state is GroupState.DEAD
    check(driver.groups["g"])
    assert heartbeat(driver, member_id) == 15
    assert driver.log[-1].value is not None


def test_an_empty_group_is_resigned_too(driver: Driver) -> None:
    leave(driver, *stable_group(driver))
    resign(driver)
    check(driver.groups["g"])
    assert driver.groups["g"].state is GroupState.DEAD
