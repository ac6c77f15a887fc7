from __future__ import annotations

import pytest

from coterie.broker.coordinator.classic.group import GroupState
from coterie.broker.coordinator.records import GroupMetadataValue
from coterie.wire import messages as m
from tests.broker.coordinator.classic.members import (
    codes,
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


def test_the_remaining_members_rebalance_when_a_member_leaves(driver: Driver) -> None:
    leader, follower = stable_group(driver)
    assert codes(leave(driver, follower)) == [0]
    assert heartbeat(driver, leader) == 27
    assert heartbeat(driver, follower) == 25


@pytest.mark.fact("E22-32b", "E19-15a")
def test_a_group_is_empty_after_its_last_member_leaves(driver: Driver) -> None:
    ids = stable_group(driver)
    written = len(driver.log)
    leave(driver, *ids)
    (record,) = driver.log[written:]
    assert record.value == GroupMetadataValue(
        protocol_type="consumer",
        generation=2,
        protocol=None,
        leader=None,
        current_state_timestamp=driver.now_ms,
        members=[],
    )
    group = driver.groups["g"]
    assert group.state is GroupState.EMPTY
    assert (group.generation, group.leader_id, group.members) == (2, None, {})
    assert group.state_timestamp_ms == driver.now_ms


def test_the_leave_response_waits_for_the_record_of_the_empty_group(
    driver: Driver,
) -> None:
    ids = stable_group(driver)
    leave(driver, *ids)
    result = driver.results[-1]
    assert result.response is not None
    assert len(result.records) == 1


@pytest.mark.fact("E19-11")
def test_a_leave_request_has_an_error_code_for_each_member(driver: Driver) -> None:
    ids = stable_group(driver, 3)
    sent = leave(driver, ids[0], "unknown", ids[2])
    assert sent.error == 0
    assert codes(sent) == [0, 25, 0]
    assert list(driver.groups["g"].members) == [ids[1]]


def test_a_member_listed_twice_leaves_once(driver: Driver) -> None:
    ids = stable_group(driver)
    assert codes(leave(driver, ids[1], ids[1])) == [0, 25]


@pytest.mark.fact("E19-11a")
def test_a_static_member_is_removed_by_its_instance_id(driver: Driver) -> None:
    ids = stable_group(driver, static=True)
    sent = leave(driver, ("", "i1"))
    assert codes(sent) == [0]
    (answer,) = sent.response.members
    assert (answer.member_id, answer.group_instance_id) == ("", "i1")
    assert list(driver.groups["g"].members) == [ids[0]]


@pytest.mark.fact("E19-11c")
def test_leaving_with_an_unknown_instance_id_returns_unknown_member_id(
    driver: Driver,
) -> None:
    stable_group(driver, static=True)
    assert codes(leave(driver, ("", "other"), ("", None))) == [25, 25]


@pytest.mark.fact("E19-11d")
def test_a_wrong_member_id_for_an_instance_id_is_fenced(driver: Driver) -> None:
    ids = stable_group(driver, static=True)
    assert codes(leave(driver, (ids[0], "i1"))) == [82]
    assert len(driver.groups["g"].members) == 2


def test_a_member_leaves_with_its_member_id_and_instance_id(driver: Driver) -> None:
    ids = stable_group(driver, static=True)
    assert codes(leave(driver, (ids[1], "i1"))) == [0]


@pytest.mark.fact("E19-11b")
def test_a_pending_member_may_leave(driver: Driver) -> None:
    member_id = driver.send(join_request()).response.member_id
    assert codes(leave(driver, member_id)) == [0]
    assert not driver.groups["g"].pending_members
    assert driver.timers == {}


def test_a_rebalance_does_not_wait_for_a_pending_member_that_left(
    driver: Driver,
) -> None:
    (member_id,) = stable_group(driver, 1)
    pending_id = driver.send(join_request()).response.member_id
    rejoined = join(driver, member_id)
    leave(driver, pending_id)
    assert rejoined.error == 0


def test_a_leaving_pending_member_triggers_a_rebalance(driver: Driver) -> None:
    (member_id,) = stable_group(driver, 1)
    leave(driver, driver.send(join_request()).response.member_id)
    assert heartbeat(driver, member_id) == 27


def test_a_pending_member_that_expires_triggers_no_rebalance(driver: Driver) -> None:
    (member_id,) = stable_group(driver, 1)
    driver.send(join_request(session_timeout_ms=6_000))
    driver.advance(6_000)
    assert not driver.groups["g"].pending_members
    assert heartbeat(driver, member_id) == 0


def test_a_rebalance_does_not_wait_for_a_member_that_left(driver: Driver) -> None:
    ids = stable_group(driver, 3)
    waiting = [join(driver, member_id) for member_id in ids[:2]]
    leave(driver, ids[2])
    assert [sent.error for sent in waiting] == [0, 0]


def test_a_pending_join_fails_when_its_member_leaves(
    driver: Driver,
) -> None:
    (member_id,) = stable_group(driver, 1)
    newcomer = join(driver)
    newcomer_id = list(driver.groups["g"].members)[-1]
    leave(driver, newcomer_id)
    assert newcomer.error == 25
    rejoined = join(driver, member_id)
    assert rejoined.error == 0


def test_a_pending_sync_fails_when_its_member_leaves(
    driver: Driver,
) -> None:
    _, follower = joining_group(driver)
    waiting = sync(driver, follower)
    leave(driver, follower)
    assert waiting.error == 25


def test_another_member_becomes_leader_when_the_leader_leaves(driver: Driver) -> None:
    leader, follower = stable_group(driver)
    leave(driver, leader)
    sent = join(driver, follower)
    assert sent.response.leader == follower


def test_a_member_that_left_has_no_timers(driver: Driver) -> None:
    leave(driver, *stable_group(driver))
    assert driver.timers == {}


@pytest.mark.fact("G4-06")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_leave_group_before_version_3_removes_one_member(
    driver: Driver, version: int
) -> None:
    leader, follower = stable_group(driver)
    request = m.LeaveGroupRequest(group_id="g", member_id=follower)
    assert driver.send(request, version=version).error == 0
    assert list(driver.groups["g"].members) == [leader]
    assert driver.send(request, version=version).error == 25
