from __future__ import annotations

import pytest

from coterie.broker.coordinator.classic import lifecycle
from coterie.broker.coordinator.classic.group import GroupState
from coterie.testing.invariants import check_classic_group
from tests.broker.coordinator.classic.members import (
    SESSION_MS,
    heartbeat,
    join,
    joining_group,
    leave,
    stable_group,
    sync,
)
from tests.broker.coordinator.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


def resign(driver: Driver) -> None:
    group = driver.groups["g"]
    driver.settle(lifecycle.resigned(group))


@pytest.mark.fact("E19-17")
def test_loaded_members_start_a_full_session(driver: Driver) -> None:
    ids = stable_group(driver)
    driver.advance(SESSION_MS - 1)
    loaded = driver.reload()
    loaded.advance(SESSION_MS - 1)
    assert heartbeat(loaded, ids[0]) == 0
    loaded.advance(1)
    assert list(loaded.groups["g"].members) == [ids[0]]


@pytest.mark.fact("E19-16")
def test_pending_joins_fail_when_the_shard_is_unloaded(driver: Driver) -> None:
    sent = join(driver)
    resign(driver)
    assert sent.error == 16
    assert not driver.parked


@pytest.mark.fact("E19-16a")
def test_pending_syncs_fail_when_the_shard_is_unloaded(driver: Driver) -> None:
    _, follower = joining_group(driver)
    waiting = sync(driver, follower)
    resign(driver)
    assert waiting.error == 16


@pytest.mark.fact("E19-16b")
def test_a_group_of_an_unloaded_shard_is_dead(driver: Driver) -> None:
    (member_id,) = stable_group(driver, 1)
    resign(driver)
    assert driver.groups["g"].state is GroupState.DEAD
    check_classic_group(driver.groups["g"])
    assert heartbeat(driver, member_id) == 15
    assert driver.log[-1].value is not None


def test_an_empty_group_of_an_unloaded_shard_is_dead(driver: Driver) -> None:
    leave(driver, *stable_group(driver))
    resign(driver)
    check_classic_group(driver.groups["g"])
    assert driver.groups["g"].state is GroupState.DEAD
