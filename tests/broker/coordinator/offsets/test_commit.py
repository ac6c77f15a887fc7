"""OffsetCommit: validation of the member, records, and the error of each partition."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from coterie.broker.coordinator.classic.group import GroupState
from coterie.broker.coordinator.records import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.broker.coordinator.result import Record
from tests.broker.coordinator.classic.members import (
    join,
    stable_group,
)
from tests.broker.coordinator.shard_driver import ShardDriver

T0 = ("t", 0)
ILLEGAL_GENERATION, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID = 22, 69, 25


@pytest.fixture
def driver() -> ShardDriver:
    return ShardDriver()


def commit_as(
    driver: ShardDriver, member_id: str, generation: int = 1, **fields: Any
) -> int:
    """Return the error code of a member's commit of one partition."""
    answer = driver.commit(
        {T0: 5},
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        **fields,
    )
    return answer[T0]


def test_committed_offsets_are_fetched(driver: ShardDriver) -> None:
    assert driver.commit({T0: 5, ("u", 3): 9}) == {T0: 0, ("u", 3): 0}
    assert driver.offsets() == {T0: 5, ("u", 3): 9}


def test_the_newest_commit_replaces_earlier_ones(driver: ShardDriver) -> None:
    driver.commit({T0: 5})
    driver.commit({T0: 4})
    assert driver.offsets() == {T0: 4}


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_writes_a_record_with_the_topic_id(
    driver: ShardDriver, version: int
) -> None:
    fields = {"committed_offset": 5, "committed_leader_epoch": 2}
    driver.commit({T0: fields}, version=version)
    value = OffsetCommitValue(
        offset=5,
        leader_epoch=2 if version >= 6 else -1,
        commit_timestamp=driver.now_ms,
        topic_id=b"t".ljust(16, b"\0"),
    )
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    assert driver.written == (Record(key, value, 4),)


@pytest.mark.fact("E17-01a")
def test_version_10_identifies_topics_by_id(driver: ShardDriver) -> None:
    assert driver.commit({T0: 5}, version=10) == {("t", 0): 0}
    assert driver.offsets() == {T0: 5}


def test_version_10_refuses_an_unknown_topic_id(driver: ShardDriver) -> None:
    answer = driver.commit({("gone", 0): 5, T0: 6}, version=10)
    assert answer == {("gone", 0): 100, T0: 0}


@pytest.mark.fact("E17-08")
def test_each_unknown_topic_or_partition_has_its_own_error(
    driver: ShardDriver,
) -> None:
    answer = driver.commit({("gone", 0): 5, ("t", 4): 5, ("t", -1): 5, T0: 5})
    assert answer == {("gone", 0): 3, ("t", 4): 3, ("t", -1): 3, T0: 0}
    assert driver.offsets() == {T0: 5}


def test_unknown_partitions_keep_their_error_in_a_refused_commit(
    driver: ShardDriver,
) -> None:
    answer = driver.commit(
        {("gone", 0): 5, T0: 5}, member_id="m", generation_id_or_member_epoch=1
    )
    assert answer == {("gone", 0): 3, T0: GROUP_ID_NOT_FOUND}


@pytest.mark.fact("A-43a")
def test_the_empty_group_id_is_accepted(driver: ShardDriver) -> None:
    assert driver.commit({T0: 5}, group_id="") == {T0: 0}
    assert driver.offsets(group_id="") == {T0: 5}
    assert driver.describe("").group_state == "Empty"
    assert driver.delete_group("").error == 0


def test_a_member_commits_in_its_generation(driver: ShardDriver) -> None:
    [member_id] = stable_group(driver, 1)
    assert commit_as(driver, member_id) == 0


@pytest.mark.fact("E17-12d")
@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_a_wrong_generation_is_illegal(driver: ShardDriver, generation: int) -> None:
    [member_id] = stable_group(driver, 1)
    assert commit_as(driver, member_id, generation) == ILLEGAL_GENERATION


@pytest.mark.fact("E17-12b")
def test_an_unknown_member_takes_precedence_over_a_wrong_generation(
    driver: ShardDriver,
) -> None:
    stable_group(driver, 1)
    assert commit_as(driver, "nobody", 9) == UNKNOWN_MEMBER_ID


@pytest.mark.fact("E17-12a")
def test_an_empty_group_accepts_only_commits_without_a_generation(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 5})
    assert commit_as(driver, "m", -1) == 0
    assert commit_as(driver, "m", 0) == UNKNOWN_MEMBER_ID


@pytest.mark.fact("E17-12c")
def test_an_instance_id_must_belong_to_the_member(driver: ShardDriver) -> None:
    first, second = stable_group(driver, 2, static=True)
    assert commit_as(driver, first, group_instance_id="i0") == 0
    assert commit_as(driver, second, group_instance_id="i0") == 82
    assert commit_as(driver, first, group_instance_id="other") == UNKNOWN_MEMBER_ID


@pytest.mark.fact("E17-11a")
def test_commits_of_the_old_generation_are_accepted_while_members_rejoin(
    driver: ShardDriver,
) -> None:
    [member_id] = stable_group(driver, 1)
    join(driver)
    assert driver.groups["g"].state is GroupState.PREPARING_REBALANCE
    assert commit_as(driver, member_id) == 0


def test_the_system_time_is_read_once_for_a_commit(
    driver: ShardDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = count()
    monkeypatch.setattr(type(driver), "wall_ahead_ms", property(lambda _: next(steps)))
    driver.commit({T0: 5}, version=4, retention_time_ms=1234)
    [record] = driver.written
    assert isinstance(record.value, OffsetCommitValue)
    assert record.value.expire_timestamp == record.value.commit_timestamp + 1234


@pytest.mark.parametrize("retention_ms", [2**63 - 1, -(2**63)])
def test_any_retention_time_is_accepted(driver: ShardDriver, retention_ms: int) -> None:
    assert driver.commit({T0: 5}, version=4, retention_time_ms=retention_ms) == {T0: 0}
    [record] = driver.written
    assert isinstance(record.value, OffsetCommitValue)
    assert record.value.expire_timestamp == min(driver.now_ms + retention_ms, 2**63 - 1)
    assert driver.reloaded().offsets() == {T0: 5}


@pytest.mark.fact("E17-09")
def test_a_commit_without_a_retention_time_has_no_expire_timestamp(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 5}, version=4, retention_time_ms=-1)
    assert driver.written[0].value_version == 4


@pytest.mark.parametrize(("count", "code"), [(2048, 0), (2049, 12)])
def test_the_length_of_metadata_is_counted_in_utf_16(
    driver: ShardDriver, count: int, code: int
) -> None:
    fields = {"committed_offset": 1, "committed_metadata": "\N{GRINNING FACE}" * count}
    assert driver.commit({T0: fields}) == {T0: code}


@pytest.mark.fact("E17-07a")
def test_null_metadata_is_stored_as_empty_metadata(driver: ShardDriver) -> None:
    driver.commit({T0: {"committed_offset": 1, "committed_metadata": None}})
    [topic] = driver.fetch(None).topics
    assert topic.partitions[0].metadata == ""


def test_a_commit_without_partitions_writes_nothing(driver: ShardDriver) -> None:
    assert driver.commit({}) == {}
    assert not driver.written
    assert "g" not in driver.groups


@pytest.mark.parametrize("members", [1, 40])
def test_the_cost_of_a_commit_does_not_grow_with_the_group(
    driver: ShardDriver, members: int
) -> None:
    ids = stable_group(driver, members)
    driver.commit({T0: 5}, member_id=ids[0], generation_id_or_member_epoch=1)
    assert len(driver.written) == 1
    assert len(driver.results[-1].timers) == 1
    assert not driver.results[-1].changes
