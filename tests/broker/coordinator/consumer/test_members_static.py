"""Static members: leaving temporarily, returning and being replaced (E9)."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.coordinator.consumer.member import MemberState
from coterie.broker.coordinator.consumer.record_builders import group_records
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.consumer.groups import (
    GroupDriver,
    received_assignment,
)

EVERYTHING = {"foo": [0, 1, 2, 3, 4, 5]}
REPLACED = ["-current", "-target", "-member", "member", "target", "current"]


@pytest.fixture
def driver() -> GroupDriver:
    """A group in which m, with instance id i, has all of foo."""
    driver = GroupDriver()
    assert received_assignment(driver.join("m", instance_id="i")) == EVERYTHING
    return driver


@pytest.mark.fact("H-73a", "H-73b", "E7-63", "E22-27", "E6-15", "E7-63b")
def test_a_temporary_leave_keeps_the_members_state(driver: GroupDriver) -> None:
    answer = driver.heartbeat("m", -2, instance_id="i")
    assert (answer.response.member_id, answer.response.member_epoch) == ("m", -2)
    assert driver.wrote_types == ["current"]
    assert driver.group.epoch == 1
    assert driver.member("m").epoch == -2
    assert driver.group.target("m")


@pytest.mark.fact("E7-63", "E7-63d")
def test_a_temporary_leave_ends_a_revocation_and_resets_assignment_epochs(
    driver: GroupDriver,
) -> None:
    driver.join("n")
    driver.heartbeat("m", 1, instance_id="i")
    before = driver.member("m")
    assert before.state is MemberState.UNREVOKED_PARTITIONS
    driver.heartbeat("m", -2, instance_id="i")
    after = driver.member("m")
    assert (after.epoch, after.previous_epoch) == (-2, before.previous_epoch)
    assert not after.pending_revocation
    assert after.assigned == {
        topic: dict.fromkeys(held, 0) for topic, held in before.assigned.items()
    }


@pytest.mark.fact("E7-63c")
def test_a_temporary_leave_does_not_extend_the_session(driver: GroupDriver) -> None:
    before = driver.timers["session", "g", "m"]
    driver.advance(10_000)
    driver.heartbeat("m", -2, instance_id="i")
    assert driver.timers["session", "g", "m"] is before


@pytest.mark.fact("E9-11a")
def test_partitions_of_a_temporarily_absent_member_are_not_free(
    driver: GroupDriver,
) -> None:
    driver.heartbeat("m", -2, instance_id="i")
    assert received_assignment(driver.join("n")) == {}
    assert driver.member("n").state is MemberState.UNRELEASED_PARTITIONS


@pytest.mark.fact(
    "H-71",
    "E9-05",
    "E9-06",
    "E22-28",
    "E6-16",
    "E9-01",
    "E9-14",
    "E9-05a",
    "E9-05b",
    "E9-06a",
)
def test_a_returning_static_member_gets_its_partitions_back(
    driver: GroupDriver,
) -> None:
    driver.heartbeat("m", -2, instance_id="i")
    assert received_assignment(driver.join("m2", instance_id="i")) == EVERYTHING
    assert driver.wrote_types[:6] == REPLACED
    copied: Any = driver.wrote[5].value
    assert (copied.member_epoch, copied.previous_member_epoch) == (0, 0)
    assert driver.group.epoch == 1
    assert driver.member("m2").epoch == 1
    assert list(driver.group.members) == ["m2"]
    assert ("session", "g", "m") not in driver.timers
    assert ("session", "g", "m2") in driver.timers


@pytest.mark.fact("H-72", "E9-07", "E7-38")
def test_a_returning_static_member_with_other_topics_triggers_a_new_target(
    driver: GroupDriver,
) -> None:
    driver.heartbeat("m", 1, instance_id="i")  # refreshes the topics of a new group
    driver.heartbeat("m", -2, instance_id="i")
    answer = driver.join("m2", ["bar"], instance_id="i")
    words = ["member", "epoch", "target", "target-epoch", "current"]
    assert driver.wrote_types == REPLACED + words
    assert received_assignment(answer) == {"bar": [0, 1, 2]}
    assert driver.group.epoch == driver.member("m2").epoch == 2


def test_a_static_member_can_repeat_its_join_with_the_same_instance_id(
    driver: GroupDriver,
) -> None:
    assert received_assignment(driver.join("m", instance_id="i")) == EVERYTHING
    answer = driver.join("m", instance_id="j")
    assert answer.error == ErrorCode.INVALID_REQUEST


@pytest.mark.fact("H-76a", "H-76b", "E9-08", "E9-10", "E7-62a", "E9-08a", "E9-10a")
@pytest.mark.parametrize("epoch", [1, -1, -2])
def test_an_instance_id_that_is_unknown_or_of_another_member_is_refused(
    driver: GroupDriver, epoch: int
) -> None:
    unknown = driver.heartbeat("m", epoch, instance_id="j")
    assert unknown.error == ErrorCode.UNKNOWN_MEMBER_ID
    fenced = driver.heartbeat("n", epoch, instance_id="i")
    assert fenced.error == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.fact("E7-61", "E7-61a")
def test_leaving_with_an_unknown_member_or_group_is_refused(
    driver: GroupDriver,
) -> None:
    assert driver.heartbeat("x", -1).error == ErrorCode.UNKNOWN_MEMBER_ID
    answer = driver.heartbeat("m", -1, group_id="nowhere")
    assert answer.error == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.fact("E22-28")
def test_a_static_replacement_survives_a_restart(driver: GroupDriver) -> None:
    driver.heartbeat("m", -2, instance_id="i")
    driver.join("m2", instance_id="i")
    loaded = driver.reload()
    group = loaded.shard.state.consumer_groups["g"]
    assert group_records(group) == group_records(driver.group)
