from __future__ import annotations

import pytest

from coterie.broker.coordinator.classic.group import GroupState
from coterie.settings import Settings
from tests.broker.coordinator.classic.members import (
    heartbeat,
    join,
    join_request,
    joining_group,
    stable_group,
)
from tests.broker.coordinator.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver(settings=Settings(group_max_size=2))


@pytest.mark.fact("E19-12")
def test_a_full_group_refuses_new_members(driver: Driver) -> None:
    ids = stable_group(driver, 2)
    sent = join(driver)
    assert sent.error == 81
    assert [heartbeat(driver, member_id) for member_id in ids] == [0, 0]


@pytest.mark.fact("E24-02")
def test_the_limit_of_consumer_groups_does_not_apply() -> None:
    driver = Driver(settings=Settings(group_consumer_max_size=1))
    ids = stable_group(driver, 2)
    assert [heartbeat(driver, member_id) for member_id in ids] == [0, 0]


def test_the_members_of_a_full_group_may_rejoin(driver: Driver) -> None:
    leader, follower = stable_group(driver, 2)
    assert join(driver, follower).error == 0
    assert join(driver, leader).parked


@pytest.mark.fact("E19-12a")
def test_pending_members_over_the_limit_are_refused_when_they_join(
    driver: Driver,
) -> None:
    """Give an id to every pending member, and refuse the last of them that joins."""
    ids = [driver.send(join_request()).response.member_id for _ in range(3)]
    joins = [driver.send(join_request(member_id)) for member_id in ids]
    assert joins[2].error == 81
    assert joins[2].response.member_id == ""
    assert not driver.groups["g"].pending_members
    assert ("session", "g", ids[2]) not in driver.timers
    driver.advance(6_000)
    assert [sent.error for sent in joins[:2]] == [0, 0]


@pytest.mark.fact("E19-12b")
def test_the_last_members_to_join_an_oversized_group_are_removed() -> None:
    driver = Driver()
    ids = stable_group(driver, 4)
    driver.settings = Settings(group_max_size=2)
    first = [join(driver, member_id) for member_id in ids[:2]]
    last = [join(driver, member_id) for member_id in ids[2:]]
    assert [sent.error for sent in last] == [81, 81]
    assert [sent.error for sent in first] == [0, 0]
    assert list(driver.groups["g"].members) == ids[:2]


def test_a_member_with_a_pending_join_may_join_again(driver: Driver) -> None:
    joins = [driver.send(join_request(), version=3) for _ in range(2)]
    member_id = next(iter(driver.groups["g"].members))
    assert join(driver, member_id).parked
    assert joins[0].error == 27


def test_an_unknown_member_id_in_a_full_group_is_refused(driver: Driver) -> None:
    joining_group(driver, 2)
    assert join(driver, "unknown").error == 81


@pytest.mark.fact("E19-17a")
def test_a_loaded_group_over_the_limit_rebalances() -> None:
    driver = Driver()
    ids = stable_group(driver, 3)
    driver.settings = driver.shard.settings = Settings(group_max_size=2)
    loaded = driver.reload()
    assert loaded.groups["g"].state is GroupState.PREPARING_REBALANCE
    assert heartbeat(loaded, ids[0]) == 27


@pytest.mark.fact("E19-17a")
def test_a_loaded_group_within_the_limit_stays_stable(driver: Driver) -> None:
    ids = stable_group(driver, 2)
    loaded = driver.reload()
    assert [heartbeat(loaded, member_id) for member_id in ids] == [0, 0]
