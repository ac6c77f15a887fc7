"""Static members: who comes back gets its place back (E9)."""

from __future__ import annotations

import pytest

from coterie.coordinator.assignors.spec import GroupSpec
from coterie.coordinator.consumer.member import MemberState
from coterie.coordinator.consumer.records import group_records
from coterie.wire.error_codes import ErrorCode
from tests.coordinator.consumer.groups import GroupDriver, told

EVERYTHING = {"foo": [0, 1, 2, 3, 4, 5]}
REPLACED = ["-current", "-target", "-member", "member", "target", "current"]


@pytest.fixture
def driver() -> GroupDriver:
    """m, with the instance id i, has all of foo."""
    driver = GroupDriver()
    assert told(driver.join("m", instance_id="i")) == EVERYTHING
    return driver


@pytest.mark.fact("H-70", "E9-02")
def test_a_new_static_member_is_a_reason_to_rebalance(driver: GroupDriver) -> None:
    driver.join("n", instance_id="j")
    assert driver.group.epoch == 2


@pytest.mark.fact("H-73", "E7-63", "E22-27", "E6-15", "E3-04")
def test_who_leaves_to_come_back_keeps_everything(driver: GroupDriver) -> None:
    answer = driver.heartbeat("m", -2, instance_id="i")
    assert (answer.response.member_id, answer.response.member_epoch) == ("m", -2)
    assert driver.wrote_types == ["current"]
    assert driver.group.epoch == 1
    assert driver.member("m").epoch == -2
    assert driver.group.target("m")


@pytest.mark.fact("E9-11")
def test_the_partitions_of_who_left_are_not_free(driver: GroupDriver) -> None:
    driver.heartbeat("m", -2, instance_id="i")
    assert told(driver.join("n")) == {}
    assert driver.member("n").state is MemberState.UNRELEASED_PARTITIONS


@pytest.mark.fact("H-71", "E9-05", "E9-06", "E22-28", "E6-16", "E9-01", "E9-14")
def test_who_comes_back_gets_its_partitions_back(driver: GroupDriver) -> None:
    driver.heartbeat("m", -2, instance_id="i")
    assert told(driver.join("m2", instance_id="i")) == EVERYTHING
    assert driver.wrote_types[:6] == REPLACED
    assert driver.group.epoch == 1
    assert driver.member("m2").epoch == 1
    assert list(driver.group.members) == ["m2"]
    assert ("session", "g", "m") not in driver.timers
    assert ("session", "g", "m2") in driver.timers


@pytest.mark.fact("H-72", "E9-07")
def test_who_comes_back_for_other_topics_makes_a_new_target(
    driver: GroupDriver,
) -> None:
    driver.heartbeat("m", -2, instance_id="i")
    answer = driver.join("m2", ["bar"], instance_id="i")
    assert told(answer) == {"bar": [0, 1, 2]}
    assert driver.group.epoch == driver.member("m2").epoch == 2


@pytest.mark.fact("H-74", "E7-62")
def test_who_leaves_for_good_is_removed(driver: GroupDriver) -> None:
    answer = driver.heartbeat("m", -1, instance_id="i")
    assert answer.response.member_epoch == -1
    assert not driver.group.members
    assert not driver.group.static_members
    assert driver.group.epoch == 2


@pytest.mark.fact("H-75", "E9-03")
def test_a_place_that_is_taken_is_not_given_away(driver: GroupDriver) -> None:
    answer = driver.join("m2", instance_id="i")
    assert answer.error == ErrorCode.UNRELEASED_INSTANCE_ID
    assert not driver.wrote
    assert driver.heartbeat("m", 1, instance_id="i").error == ErrorCode.NONE


@pytest.mark.fact("F6-10", "E9-04")
def test_who_asks_again_is_not_fenced_by_itself(driver: GroupDriver) -> None:
    assert told(driver.join("m", instance_id="i")) == EVERYTHING
    answer = driver.join("m", instance_id="j")
    assert answer.error == ErrorCode.INVALID_REQUEST


@pytest.mark.fact("H-76", "E9-08", "E9-10")
@pytest.mark.parametrize("epoch", [1, -1, -2])
def test_an_instance_is_known_and_its_member_the_right_one(
    driver: GroupDriver, epoch: int
) -> None:
    unknown = driver.heartbeat("m", epoch, instance_id="j")
    assert unknown.error == ErrorCode.UNKNOWN_MEMBER_ID
    fenced = driver.heartbeat("n", epoch, instance_id="i")
    assert fenced.error == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.fact("H-07", "E9-09")
def test_the_epoch_of_a_static_member_is_checked_too(driver: GroupDriver) -> None:
    for epoch in (0, 2):
        driver.join("n", instance_id="j")
        answer = driver.heartbeat("m", epoch + 2, instance_id="i")
        assert answer.error == ErrorCode.FENCED_MEMBER_EPOCH
    wrong = driver.heartbeat("n2", 1, instance_id="i")
    assert wrong.error == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.fact("E9-10")
def test_only_a_static_member_leaves_to_come_back(driver: GroupDriver) -> None:
    driver.join("n")
    assert driver.heartbeat("n", -2).error == ErrorCode.INVALID_REQUEST


@pytest.mark.fact("E7-61")
def test_to_leave_one_has_to_be_there(driver: GroupDriver) -> None:
    assert driver.heartbeat("x", -1).error == ErrorCode.UNKNOWN_MEMBER_ID
    answer = driver.heartbeat("m", -1, group_id="nowhere")
    assert answer.error == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.fact("E22-28", "E8-06")
def test_a_place_that_was_taken_over_is_so_after_a_restart(driver: GroupDriver) -> None:
    driver.heartbeat("m", -2, instance_id="i")
    driver.join("m2", instance_id="i")
    loaded = driver.reload()
    group = loaded.shard.state.consumer_groups["g"]
    assert group_records(group) == group_records(driver.group)


@pytest.mark.fact("H-34", "E9-14")
def test_who_comes_back_is_to_the_assignor_who_left(driver: GroupDriver) -> None:
    asked: list[GroupSpec] = []

    def assign(spec: GroupSpec) -> dict[str, dict[bytes, list[int]]]:
        asked.append(spec)
        return {}

    before = driver.group.target("m")
    driver.heartbeat("m", -2, instance_id="i")
    driver.assigns(assign)
    driver.join("m2", ["foo", "bar"], instance_id="i")
    assert asked[0].members["m2"].partitions == before
