from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.coordinator.classic.group import GroupState
from coterie.broker.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from tests.broker.coordinator.classic.members import (
    REBALANCE_MS,
    SESSION_MS,
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


@pytest.mark.fact("E19-08a")
def test_followers_wait_for_the_leaders_sync(driver: Driver) -> None:
    leader, *followers = joining_group(driver, 3)
    waiting = [sync(driver, member_id) for member_id in followers]
    assert all(sent.parked for sent in waiting)
    given = {followers[0]: b"a", followers[1]: b"b", leader: b"c"}
    own = sync(driver, leader, assignments=given)
    assert own.response.assignment == b"c"
    assert [sent.response.assignment for sent in waiting] == [b"a", b"b"]
    assert driver.groups["g"].state is GroupState.STABLE


@pytest.mark.fact("E19-08")
def test_all_syncs_complete_when_the_assignments_are_written(
    driver: Driver,
) -> None:
    leader, follower = joining_group(driver)
    waiting = sync(driver, follower)
    sync(driver, leader, assignments={follower: b"a"})
    result = driver.results[-1]
    assert len(result.records) == 1
    assert [reply.ticket for reply in result.replies] == [waiting.ticket]
    assert result.response is not None


@pytest.mark.fact("E22-32a", "E19-08")
def test_a_completed_sync_writes_the_generation(driver: Driver) -> None:
    leader, follower = joining_group(driver, protocols=protocols(range=b"sub"))
    written = len(driver.log)
    sync(driver, leader, assignments={leader: b"a", follower: b"b"})
    (record,) = driver.log[written:]
    assert record.key == GroupMetadataKey(group="g")
    assert record.value_version == 3
    assert record.value == GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=leader,
        current_state_timestamp=driver.now_ms,
        members=[
            MemberMetadata(
                member_id=member_id,
                client_id="client",
                client_host="/127.0.0.1",
                rebalance_timeout=REBALANCE_MS,
                session_timeout=SESSION_MS,
                subscription=b"sub",
                assignment=assignment,
            )
            for member_id, assignment in ((leader, b"a"), (follower, b"b"))
        ],
    )


@pytest.mark.fact("E19-08b")
def test_members_missing_from_the_leaders_sync_get_an_empty_assignment(
    driver: Driver,
) -> None:
    leader, follower = joining_group(driver)
    waiting = sync(driver, follower)
    own = sync(driver, leader, assignments={leader: b"a", "stranger": b"x"})
    assert own.response.assignment == b"a"
    assert (waiting.error, waiting.response.assignment) == (0, b"")
    assert "stranger" not in driver.groups["g"].members


def test_a_late_sync_of_a_follower_gets_its_response_immediately(
    driver: Driver,
) -> None:
    leader, follower = joining_group(driver)
    sync(driver, leader, assignments={follower: b"a"})
    assert sync(driver, follower).response.assignment == b"a"


def test_a_sync_of_a_stable_group_can_be_repeated(driver: Driver) -> None:
    (leader,) = stable_group(driver, 1)
    sent = sync(driver, leader)
    assert (sent.error, sent.response.assignment) == (0, leader.upper().encode())


def test_the_sync_response_has_protocol_type_and_name(driver: Driver) -> None:
    leader, follower = joining_group(driver)
    waiting = sync(driver, follower)
    own = sync(driver, leader)
    for sent in (waiting, own):
        assert sent.response.protocol_type == "consumer"
        assert sent.response.protocol_name == "range"


def test_a_second_sync_of_a_member_replaces_its_pending_sync(driver: Driver) -> None:
    leader, follower = joining_group(driver)
    first, second = sync(driver, follower), sync(driver, follower)
    assert first.error == 27
    assert second.parked
    sync(driver, leader)
    assert second.error == 0


def test_a_rebalance_fails_pending_syncs_with_rebalance_in_progress(
    driver: Driver,
) -> None:
    _, follower = joining_group(driver)
    waiting = sync(driver, follower)
    join(driver)
    assert waiting.error == 27


def test_a_rebalance_before_the_sync_drops_the_old_assignments(
    driver: Driver,
) -> None:
    leader, follower = stable_group(driver)
    joins = [join(driver, member_id) for member_id in (leader, follower)]
    assert [sent.response.generation_id for sent in joins] == [2, 2]
    join(driver)
    members = driver.groups["g"].members
    assert [members[m].assignment for m in (leader, follower)] == [b"", b""]


def test_a_rebalance_of_a_stable_group_keeps_assignments_until_it_completes(
    driver: Driver,
) -> None:
    (leader,) = stable_group(driver, 1)
    join(driver)
    assert driver.groups["g"].members[leader].assignment == leader.upper().encode()


def test_a_sync_in_the_join_phase_is_refused(driver: Driver) -> None:
    leader, _ = stable_group(driver)
    join(driver)
    assert sync(driver, leader).error == 27


def test_a_pending_sync_keeps_its_member_in_the_group(driver: Driver) -> None:
    leader, follower = joining_group(driver)
    waiting = sync(driver, follower)
    for _ in range(4):
        driver.advance(SESSION_MS - 1)
        assert heartbeat(driver, leader) == 0
    assert waiting.parked
    sync(driver, leader, assignments={follower: b"a"})
    assert waiting.response.assignment == b"a"
    driver.advance(SESSION_MS - 1)
    assert follower in driver.groups["g"].members
    driver.advance(1)
    assert follower not in driver.groups["g"].members


def test_an_unknown_group_returns_unknown_member_id(driver: Driver) -> None:
    assert sync(driver, "unknown").error == 25


def test_an_empty_group_returns_unknown_member_id(driver: Driver) -> None:
    ids = stable_group(driver)
    leave(driver, *ids)
    assert sync(driver, ids[0]).error == 25


def test_an_unknown_member_is_refused(driver: Driver) -> None:
    joining_group(driver)
    assert sync(driver, "unknown").error == 25


def test_a_wrong_generation_is_illegal(driver: Driver) -> None:
    leader, _ = joining_group(driver)
    assert sync(driver, leader, generation=2).error == 22


@pytest.mark.parametrize(
    "fields", [{"protocol_type": "connect"}, {"protocol_name": "sticky"}]
)
def test_a_sync_with_another_protocol_is_refused(
    driver: Driver, fields: dict[str, Any]
) -> None:
    leader, _ = joining_group(driver)
    assert sync(driver, leader, **fields).error == 23


def test_a_sync_with_the_groups_protocol_is_accepted(driver: Driver) -> None:
    leader, _ = joining_group(driver)
    sent = sync(driver, leader, protocol_type="consumer", protocol_name="range")
    assert sent.error == 0


def test_a_static_member_with_another_member_id_is_fenced(driver: Driver) -> None:
    joining_group(driver, 1, static=True)
    assert sync(driver, "old-id", group_instance_id="i0").error == 82
