from __future__ import annotations

import pytest

from coterie.broker.coordinator.classic.group import GroupState
from tests.broker.coordinator.classic.members import (
    codes,
    heartbeat,
    join,
    joining_group,
    leave,
    protocols,
    stable_group,
    sync,
)
from tests.broker.coordinator.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.mark.fact("E19-14")
def test_a_leader_that_rejoins_a_stable_group_starts_a_rebalance(
    driver: Driver,
) -> None:
    leader, follower = stable_group(driver)
    assert join(driver, leader).parked
    assert heartbeat(driver, follower) == 27


@pytest.mark.fact("E19-14a")
def test_a_rejoin_of_a_follower_with_new_metadata_starts_a_rebalance(
    driver: Driver,
) -> None:
    _, follower = stable_group(driver)
    assert join(driver, follower, protocols=protocols(range=b"other")).parked
    assert driver.groups["g"].state is GroupState.PREPARING_REBALANCE


@pytest.mark.fact("E19-14b")
def test_a_rejoin_of_a_follower_with_unchanged_metadata_returns_the_generation(
    driver: Driver,
) -> None:
    leader, follower = stable_group(driver)
    sent = join(driver, follower)
    assert sent.error == 0
    assert sent.response.generation_id == 1
    assert sent.response.leader == leader
    assert sent.response.members == []
    assert driver.groups["g"].state is GroupState.STABLE


def test_a_rejoin_of_the_only_member_completes_immediately(driver: Driver) -> None:
    (leader,) = stable_group(driver, 1)
    assert join(driver, leader).response.generation_id == 2


@pytest.mark.fact("E19-14c")
def test_a_repeated_join_of_a_leader_gets_the_same_response(driver: Driver) -> None:
    leader, _ = joining_group(driver)
    sent = join(driver, leader)
    assert sent.error == 0
    assert sent.response.generation_id == 1
    assert len(sent.response.members) == 2


@pytest.mark.fact("E19-14c")
def test_a_repeated_join_of_a_follower_gets_the_same_response(driver: Driver) -> None:
    _, follower = joining_group(driver)
    sent = join(driver, follower)
    assert sent.response.generation_id == 1
    assert sent.response.members == []


def test_new_metadata_before_the_assignment_starts_a_rebalance(driver: Driver) -> None:
    leader, follower = joining_group(driver)
    waiting = sync(driver, follower)
    assert join(driver, leader, protocols=protocols(range=b"other")).parked
    assert waiting.error == 27


def test_a_rejoin_replaces_the_members_metadata(driver: Driver) -> None:
    (leader,) = stable_group(driver, 1)
    changed = protocols(sticky=b"s", range=b"r")
    join(
        driver,
        leader,
        protocols=changed,
        session_timeout_ms=7_000,
        rebalance_timeout_ms=8_000,
    )
    member = driver.groups["g"].members[leader]
    assert [protocol.name for protocol in member.protocols] == ["sticky", "range"]
    assert member.session_timeout_ms == 7_000
    assert member.rebalance_timeout_ms == 8_000


@pytest.mark.bug("KAFKA-20938")
def test_a_second_join_of_a_member_replaces_its_pending_join(driver: Driver) -> None:
    first = join(driver)
    member_id = next(iter(driver.groups["g"].members))
    second = join(driver, member_id)
    assert first.error == 27
    assert second.parked
    driver.advance(3_000)
    assert second.error == 0


@pytest.mark.fact("E19-05")
def test_dynamic_members_that_do_not_rejoin_in_time_are_removed(driver: Driver) -> None:
    ids = stable_group(driver, 3, session_timeout_ms=100_000)
    rejoined = join(driver, ids[0])
    driver.advance(59_999)
    assert rejoined.parked
    driver.advance(1)
    assert rejoined.error == 0
    assert list(driver.groups["g"].members) == [ids[0]]


@pytest.mark.fact("E19-05d")
def test_the_longest_rebalance_timeout_of_the_members_applies(driver: Driver) -> None:
    join(driver, rebalance_timeout_ms=10_000, session_timeout_ms=100_000)
    late = join(driver, rebalance_timeout_ms=30_000, session_timeout_ms=100_000)
    driver.advance(6_000)
    rejoined = join(
        driver,
        late.response.leader,
        rebalance_timeout_ms=10_000,
        protocols=protocols(range=b"new"),
    )
    driver.advance(29_999)
    assert rejoined.parked
    driver.advance(1)
    assert rejoined.error == 0


def test_a_leader_that_does_not_rejoin_is_replaced(driver: Driver) -> None:
    leader, follower = stable_group(driver, session_timeout_ms=100_000)
    sent = join(driver, follower, protocols=protocols(range=b"other"))
    driver.advance(60_000)
    assert sent.response.leader == follower
    assert leader not in driver.groups["g"].members


def test_a_leader_that_rejoins_last_remains_the_leader(driver: Driver) -> None:
    leader, follower = stable_group(driver)
    first = join(driver, follower, protocols=protocols(range=b"other"))
    join(driver, leader)
    assert first.response.leader == leader


def test_a_new_generation_cancels_the_join_timer(driver: Driver) -> None:
    (leader,) = stable_group(driver, 1)
    newcomer = join(driver)
    assert ("join", "g") in driver.timers
    join(driver, leader)
    assert newcomer.error == 0
    assert ("join", "g") not in driver.timers


@pytest.mark.fact("E19-05a")
def test_static_members_that_do_not_rejoin_are_kept(driver: Driver) -> None:
    ids = stable_group(driver, static=True, session_timeout_ms=100_000)
    sent = join(
        driver,
        ids[1],
        group_instance_id="i1",
        session_timeout_ms=100_000,
        protocols=protocols(range=b"other"),
    )
    driver.advance(60_000)
    assert sent.response.leader == ids[1]
    assert {member.member_id for member in sent.response.members} == set(ids)


@pytest.mark.fact("E19-05b")
def test_a_join_phase_without_joins_is_extended(driver: Driver) -> None:
    ids = stable_group(driver, static=True, session_timeout_ms=200_000)
    newcomer = join(driver, session_timeout_ms=200_000)
    newcomer_id = list(driver.groups["g"].members)[-1]
    driver.advance(10_000)
    # The new member leaves before the phase ends; static members did not rejoin.
    assert codes(leave(driver, newcomer_id)) == [0]
    assert newcomer.error == 25
    driver.advance(50_000)
    assert driver.groups["g"].state is GroupState.PREPARING_REBALANCE
    assert set(driver.groups["g"].members) == set(ids)
    driver.advance(60_000)
    assert driver.groups["g"].state is GroupState.PREPARING_REBALANCE
    waiting = join(driver, ids[1], group_instance_id="i1", session_timeout_ms=200_000)
    driver.advance(59_999)
    assert waiting.parked
    driver.advance(1)
    assert (waiting.error, waiting.response.leader) == (0, ids[1])
