from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.coordinator.classic.group import GroupState
from tests.broker.coordinator.classic.members import (
    SESSION_MS,
    heartbeat,
    join,
    joining_group,
    protocols,
    stable_group,
    sync,
)
from tests.broker.coordinator.driver import Driver, Sent


@pytest.fixture
def driver() -> Driver:
    return Driver()


def restart(driver: Driver, instance: int, **options: Any) -> Sent:
    """Join as a static member without a member id."""
    return join(driver, group_instance_id=f"i{instance}", **options)


@pytest.mark.fact("E10-07a")
def test_a_new_static_member_joins_immediately(driver: Driver) -> None:
    sent = join(driver, group_instance_id="pod-1")
    assert sent.parked
    assert driver.groups["g"].static_members == {"pod-1": "pod-1-id1"}


@pytest.mark.fact("E19-13")
def test_restarting_a_static_member_of_a_stable_group_starts_no_rebalance(
    driver: Driver,
) -> None:
    leader, follower = stable_group(driver, static=True)
    sent = restart(driver, 1)
    group = driver.groups["g"]
    assert sent.error == 0
    assert sent.response.generation_id == 1
    assert group.state is GroupState.STABLE
    assert heartbeat(driver, leader) == 0
    assert set(group.members) == {leader, sent.response.member_id}
    assert follower not in group.members


def test_each_restart_of_a_static_member_gets_a_new_member_id(driver: Driver) -> None:
    stable_group(driver, static=True)
    ids = [restart(driver, 1).response.member_id for _ in range(3)]
    assert len(set(ids)) == 3
    assert all(member_id.startswith("i1-") for member_id in ids)


@pytest.mark.fact("E22-32c", "E19-13a")
def test_restarting_a_static_member_of_a_stable_group_writes_a_record(
    driver: Driver,
) -> None:
    leader, follower = stable_group(driver, static=True)
    written = len(driver.log)
    sent = restart(driver, 1)
    (record,) = driver.log[written:]
    stored = {member.member_id: member for member in record.value.members}  # type: ignore[union-attr]
    assert set(stored) == {leader, sent.response.member_id}
    replaced = stored[sent.response.member_id]
    assert replaced.group_instance_id == "i1"
    assert replaced.assignment == follower.upper().encode()


def test_the_new_member_id_gets_the_assignment_of_the_old_member_id(
    driver: Driver,
) -> None:
    _, follower = stable_group(driver, static=True)
    new_id = restart(driver, 1).response.member_id
    sent = sync(driver, new_id, group_instance_id="i1")
    assert sent.response.assignment == follower.upper().encode()


@pytest.mark.fact("E19-13b")
def test_the_old_member_id_is_fenced_after_a_static_member_restarts(
    driver: Driver,
) -> None:
    _, follower = stable_group(driver, static=True)
    restart(driver, 1)
    assert heartbeat(driver, follower, group_instance_id="i1") == 82
    assert join(driver, follower, group_instance_id="i1").error == 82
    assert sync(driver, follower, group_instance_id="i1").error == 82


@pytest.mark.fact("E19-13c")
def test_from_version_9_a_restarted_leader_skips_the_assignment(
    driver: Driver,
) -> None:
    stable_group(driver, static=True)
    sent = restart(driver, 0, version=9)
    assert sent.response.skip_assignment
    assert sent.response.leader == sent.response.member_id
    assert len(sent.response.members) == 2


@pytest.mark.fact("E19-13c")
def test_from_version_9_a_restarted_follower_does_not_skip_the_assignment(
    driver: Driver,
) -> None:
    leader, _ = stable_group(driver, static=True)
    sent = restart(driver, 1, version=9)
    assert not sent.response.skip_assignment
    assert sent.response.leader == leader
    assert sent.response.members == []


@pytest.mark.fact("E19-13d")
def test_before_version_9_a_restarted_leader_gets_its_old_member_id_as_leader(
    driver: Driver,
) -> None:
    leader, _ = stable_group(driver, static=True)
    sent = restart(driver, 0, version=8)
    assert sent.response.leader == leader != sent.response.member_id
    assert not sent.response.skip_assignment
    assert sent.response.members == []
    assert driver.groups["g"].leader_id == sent.response.member_id


@pytest.mark.fact("E19-13e")
def test_restarting_a_static_member_with_another_protocol_starts_a_rebalance(
    driver: Driver,
) -> None:
    both = protocols(range=b"", sticky=b"")
    joining = [
        join(driver, group_instance_id=f"i{n}", protocols=both) for n in range(2)
    ]
    driver.advance(6_000)
    ids = [sent.response.member_id for sent in joining]
    sync(driver, ids[1])
    sync(driver, ids[0])
    sent = restart(driver, 1, protocols=protocols(sticky=b""))
    assert sent.parked
    assert driver.groups["g"].state is GroupState.PREPARING_REBALANCE
    join(driver, ids[0], group_instance_id="i0", protocols=both)
    assert sent.response.protocol_name == "sticky"


def test_restarting_a_static_member_between_join_and_sync_starts_a_rebalance(
    driver: Driver,
) -> None:
    joining_group(driver, static=True)
    sent = restart(driver, 1)
    assert sent.parked
    assert driver.groups["g"].state is GroupState.PREPARING_REBALANCE


@pytest.mark.fact("E19-13b")
def test_a_pending_sync_of_the_old_member_id_is_fenced(driver: Driver) -> None:
    _, follower = joining_group(driver, static=True)
    waiting = sync(driver, follower, group_instance_id="i1")
    restart(driver, 1)
    assert waiting.error == 82


@pytest.mark.fact("E19-13b")
def test_a_pending_join_of_the_old_member_id_is_fenced(driver: Driver) -> None:
    first = join(driver, group_instance_id="i0")
    second = join(driver, group_instance_id="i0")
    assert first.error == 82
    assert second.parked
    driver.advance(3_000)
    assert second.error == 0


def test_restarting_a_static_member_in_the_join_phase_counts_as_a_join(
    driver: Driver,
) -> None:
    leader, _ = stable_group(driver, static=True)
    waiting = join(driver, leader, group_instance_id="i0")
    sent = restart(driver, 1)
    assert [waiting.error, sent.error] == [0, 0]
    assert driver.groups["g"].generation == 2


def test_a_static_member_rejoins_with_its_member_id(driver: Driver) -> None:
    _, follower = stable_group(driver, static=True)
    sent = join(driver, follower, group_instance_id="i1")
    assert sent.error == 0
    assert sent.response.member_id == follower


def test_a_known_member_id_with_an_unknown_instance_id_is_unknown(
    driver: Driver,
) -> None:
    _, follower = stable_group(driver, static=True)
    assert join(driver, follower, group_instance_id="other").error == 25


def test_restarting_a_static_member_starts_a_new_session(driver: Driver) -> None:
    leader, follower = stable_group(driver, static=True)
    driver.advance(SESSION_MS - 1)
    heartbeat(driver, leader)
    new_id = restart(driver, 1).response.member_id
    assert ("session", "g", follower) not in driver.timers
    driver.advance(SESSION_MS - 1)
    assert new_id in driver.groups["g"].members
    driver.advance(1)
    assert new_id not in driver.groups["g"].members


def test_restarting_a_static_member_keeps_client_id_and_host(driver: Driver) -> None:
    stable_group(driver, static=True)
    request = restart(driver, 1).request
    sent = driver.send(request, client_id="moved", client_host="/10.0.0.9")
    member = driver.groups["g"].members[sent.response.member_id]
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
