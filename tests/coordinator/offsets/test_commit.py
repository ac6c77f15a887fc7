"""OffsetCommit: who may commit, what is written, what each partition is answered."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.coordinator.classic.group import GroupState
from coterie.coordinator.records.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.coordinator.result import Record
from coterie.wire.messages.list_groups import ListGroupsRequest
from tests.coordinator.classic.members import (
    SESSION_MS,
    join,
    joining_group,
    stable_group,
)
from tests.coordinator.shard_driver import ShardDriver

T0 = ("t", 0)
ILLEGAL_GENERATION, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID = 22, 69, 25


@pytest.fixture
def driver() -> ShardDriver:
    return ShardDriver()


def commit_as(
    driver: ShardDriver, member_id: str, generation: int = 1, **fields: Any
) -> int:
    """The error code of a commit of one partition by a member."""
    answer = driver.commit(
        {T0: 5},
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        **fields,
    )
    return answer[T0]


def test_what_is_committed_is_what_is_fetched(driver: ShardDriver) -> None:
    assert driver.commit({T0: 5, ("u", 3): 9}) == {T0: 0, ("u", 3): 0}
    assert driver.offsets() == {T0: 5, ("u", 3): 9}


def test_the_newest_commit_counts(driver: ShardDriver) -> None:
    driver.commit({T0: 5})
    driver.commit({T0: 4})
    assert driver.offsets() == {T0: 4}


def test_a_commit_is_written_as_a_record_of_version_3(driver: ShardDriver) -> None:
    driver.commit({T0: {"committed_offset": 5, "committed_leader_epoch": 2}})
    value = OffsetCommitValue(offset=5, leader_epoch=2, commit_timestamp=driver.now_ms)
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    assert driver.written == (Record(key, value, 3),)


@pytest.mark.fact("E17-01")
def test_version_10_names_topics_by_id_and_keeps_the_id(driver: ShardDriver) -> None:
    assert driver.commit({T0: 5}, version=10) == {("t", 0): 0}
    value = driver.written[0].value
    assert isinstance(value, OffsetCommitValue)
    assert value.topic_id == b"t".ljust(16, b"\0")
    assert driver.written[0].value_version == 4
    assert driver.offsets() == {T0: 5}


def test_version_10_does_not_know_an_unknown_id(driver: ShardDriver) -> None:
    answer = driver.commit({("gone", 0): 5, T0: 6}, version=10)
    assert answer == {("", 0): 100, T0: 0}


@pytest.mark.fact("E17-08")
def test_unknown_topics_and_partitions_are_told_apart(driver: ShardDriver) -> None:
    answer = driver.commit({("gone", 0): 5, ("t", 4): 5, ("t", -1): 5, T0: 5})
    assert answer == {("gone", 0): 3, ("t", 4): 3, ("t", -1): 3, T0: 0}
    assert driver.offsets() == {T0: 5}


def test_unknown_partitions_stay_unknown_when_the_request_is_refused(
    driver: ShardDriver,
) -> None:
    answer = driver.commit(
        {("gone", 0): 5, T0: 5}, member_id="m", generation_id_or_member_epoch=1
    )
    assert answer == {("gone", 0): 3, T0: GROUP_ID_NOT_FOUND}


@pytest.mark.fact("H-80", "E17-06")
@pytest.mark.parametrize(
    ("version", "code"),
    [(2, ILLEGAL_GENERATION), (8, ILLEGAL_GENERATION), (9, GROUP_ID_NOT_FOUND)],
)
def test_a_member_of_an_unknown_group_is_refused(
    driver: ShardDriver, version: int, code: int
) -> None:
    assert commit_as(driver, "m", 1, version=version) == code
    assert not driver.written


@pytest.mark.fact("H-80", "E17-06")
def test_a_commit_without_a_generation_makes_a_simple_group(
    driver: ShardDriver,
) -> None:
    assert driver.commit({T0: 5}) == {T0: 0}
    [listed] = driver.send(ListGroupsRequest()).response.groups
    assert (listed.group_id, listed.protocol_type) == ("g", "")
    assert driver.groups["g"].is_simple


@pytest.mark.fact("A-43")
def test_the_empty_group_id_is_legal(driver: ShardDriver) -> None:
    assert driver.commit({T0: 5}, group_id="") == {T0: 0}
    assert driver.offsets(group_id="") == {T0: 5}
    assert driver.describe("").group_state == "Empty"
    assert driver.delete_group("").error == 0


@pytest.mark.fact("H-81")
def test_a_simple_group_ignores_instance_ids(driver: ShardDriver) -> None:
    assert driver.commit({T0: 5}, group_instance_id="pod-1") == {T0: 0}
    assert driver.commit({T0: 6}, group_instance_id="pod-1") == {T0: 0}


@pytest.mark.fact("H-82", "E17-11")
def test_a_dead_group_has_no_coordinator_here(driver: ShardDriver) -> None:
    [member_id] = stable_group(driver, 1)
    driver.shard.resign()
    assert commit_as(driver, member_id) == 15


@pytest.mark.fact("E17-12")
def test_a_member_commits_in_its_generation(driver: ShardDriver) -> None:
    [member_id] = stable_group(driver, 1)
    assert commit_as(driver, member_id) == 0


@pytest.mark.fact("H-83", "E17-12")
def test_nobody_in_particular_cannot_commit_to_a_group_with_members(
    driver: ShardDriver,
) -> None:
    stable_group(driver, 1)
    assert commit_as(driver, "", -1) == UNKNOWN_MEMBER_ID


@pytest.mark.fact("E17-12")
@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_another_generation_is_illegal(driver: ShardDriver, generation: int) -> None:
    [member_id] = stable_group(driver, 1)
    assert commit_as(driver, member_id, generation) == ILLEGAL_GENERATION


@pytest.mark.fact("E17-12")
def test_an_unknown_member_comes_before_a_wrong_generation(driver: ShardDriver) -> None:
    stable_group(driver, 1)
    assert commit_as(driver, "nobody", 9) == UNKNOWN_MEMBER_ID


@pytest.mark.fact("E17-12")
def test_an_empty_group_takes_commits_without_a_generation_alone(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 5})
    assert commit_as(driver, "m", -1) == 0
    assert commit_as(driver, "m", 0) == UNKNOWN_MEMBER_ID


@pytest.mark.fact("E17-13")
def test_an_instance_id_must_be_the_members_own(driver: ShardDriver) -> None:
    first, second = stable_group(driver, 2, static=True)
    assert commit_as(driver, first, group_instance_id="i0") == 0
    assert commit_as(driver, second, group_instance_id="i0") == 82
    assert commit_as(driver, first, group_instance_id="other") == UNKNOWN_MEMBER_ID


@pytest.mark.fact("H-84", "E17-11")
def test_between_join_and_sync_nothing_is_committed(driver: ShardDriver) -> None:
    [member_id] = joining_group(driver, 1)
    assert driver.groups["g"].state is GroupState.COMPLETING_REBALANCE
    assert commit_as(driver, member_id) == 27


@pytest.mark.fact("E17-11")
def test_while_members_rejoin_the_old_generation_commits(driver: ShardDriver) -> None:
    [member_id] = stable_group(driver, 1)
    join(driver)
    assert driver.groups["g"].state is GroupState.PREPARING_REBALANCE
    assert commit_as(driver, member_id) == 0


@pytest.mark.fact("H-86", "E17-10")
def test_commits_keep_a_session(driver: ShardDriver) -> None:
    [member_id] = stable_group(driver, 1)
    for _ in range(5):
        driver.advance(SESSION_MS - 1)
        assert commit_as(driver, member_id) == 0
    driver.advance(SESSION_MS)
    assert commit_as(driver, member_id) == UNKNOWN_MEMBER_ID


@pytest.mark.fact("H-85", "E17-09")
def test_a_retention_of_its_own_is_written_in_version_1(driver: ShardDriver) -> None:
    fields = {"committed_offset": 5, "committed_leader_epoch": 3}
    driver.commit({T0: fields}, version=4, retention_time_ms=1234)
    [record] = driver.written
    assert record.value_version == 1
    assert record.value == OffsetCommitValue(
        offset=5,
        commit_timestamp=driver.now_ms,
        expire_timestamp=driver.now_ms + 1234,
    )


def test_no_retention_of_its_own_is_the_default(driver: ShardDriver) -> None:
    driver.commit({T0: 5}, version=4, retention_time_ms=-1)
    assert driver.written[0].value_version == 3


@pytest.mark.fact("H-88", "E17-07")
def test_metadata_that_is_too_long_refuses_its_partition_alone(
    driver: ShardDriver,
) -> None:
    answer = driver.commit(
        {
            T0: {"committed_offset": 1, "committed_metadata": "x" * 4097},
            ("t", 1): {"committed_offset": 2, "committed_metadata": "x" * 4096},
        }
    )
    assert answer == {T0: 12, ("t", 1): 0}
    assert driver.offsets() == {("t", 1): 2}


@pytest.mark.parametrize(("count", "code"), [(2048, 0), (2049, 12)])
def test_metadata_is_measured_in_utf_16(
    driver: ShardDriver, count: int, code: int
) -> None:
    fields = {"committed_offset": 1, "committed_metadata": "\N{GRINNING FACE}" * count}
    assert driver.commit({T0: fields}) == {T0: code}


@pytest.mark.fact("E17-07")
def test_no_metadata_becomes_empty_metadata(driver: ShardDriver) -> None:
    driver.commit({T0: {"committed_offset": 1, "committed_metadata": None}})
    [topic] = driver.fetch(None).topics
    assert topic.partitions[0].metadata == ""


def test_a_commit_of_nothing_writes_nothing(driver: ShardDriver) -> None:
    assert driver.commit({}) == {}
    assert not driver.written
    assert "g" not in driver.groups


@pytest.mark.parametrize("members", [1, 40])
def test_a_commit_costs_the_same_whatever_the_group(
    driver: ShardDriver, members: int
) -> None:
    ids = stable_group(driver, members)
    driver.commit({T0: 5}, member_id=ids[0], generation_id_or_member_epoch=1)
    assert len(driver.written) == 1
    assert len(driver.results[-1].timers) == 1
    assert not driver.results[-1].changes
