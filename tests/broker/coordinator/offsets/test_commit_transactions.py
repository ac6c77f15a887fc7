"""TxnOffsetCommit, fetches with require_stable, and transaction markers."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.classic.group import GroupState
from coterie.broker.coordinator.records import OffsetCommitValue
from tests.broker.coordinator.classic.members import joining_group, stable_group
from tests.broker.coordinator.shard_driver import ShardDriver

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
UNSTABLE = -88


@pytest.fixture
def driver() -> ShardDriver:
    return ShardDriver()


@pytest.mark.fact("E17-16")
def test_offsets_of_an_open_transaction_are_not_fetched(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    assert driver.txn_commit({T0: 5, T1: 6}) == {T0: 0, T1: 0}
    assert driver.offsets() == {T0: 1}


def test_the_records_belong_to_the_producers_transaction(driver: ShardDriver) -> None:
    driver.txn_commit({T0: 5}, producer_epoch=3)
    result = driver.results[-1]
    assert result.commit is not None
    assert result.commit.producer == (7, 3, -1)
    [record] = result.records
    assert isinstance(record.value, OffsetCommitValue)
    found = record.value_version, record.value.topic_id
    assert found == (4, b"t".ljust(16, b"\0"))


@pytest.mark.fact("E22-47a", "E17-16a")
def test_a_commit_marker_commits_pending_offsets(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    driver.txn_commit({T0: 5, T1: 6})
    driver.end_transaction(commit=True)
    assert driver.offsets() == {T0: 5, T1: 6}
    assert driver.reloaded().offsets() == {T0: 5, T1: 6}


@pytest.mark.fact("E22-47b", "E17-16b")
def test_an_abort_marker_drops_pending_offsets(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    driver.txn_commit({T0: 5, T1: 6})
    driver.end_transaction(commit=False)
    assert driver.offsets() == {T0: 1}
    assert driver.reloaded().offsets() == {T0: 1}


def test_a_marker_ends_only_the_transaction_of_its_producer(
    driver: ShardDriver,
) -> None:
    driver.txn_commit({T0: 5})
    driver.txn_commit({T1: 6}, producer_id=8)
    driver.end_transaction(8, commit=True)
    assert driver.offsets() == {T1: 6}
    driver.end_transaction(7, commit=True)
    assert driver.offsets() == {T0: 5, T1: 6}


def test_a_marker_without_pending_offsets_changes_nothing(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    driver.end_transaction(commit=True)
    assert driver.offsets() == {T0: 1}


def test_one_transaction_may_commit_for_several_groups(driver: ShardDriver) -> None:
    driver.txn_commit({T0: 5})
    driver.txn_commit({T0: 6}, group_id="h")
    driver.end_transaction(commit=True)
    assert driver.offsets() == {T0: 5}
    assert driver.offsets(group_id="h") == {T0: 6}


def test_the_newest_commit_of_a_transaction_replaces_earlier_ones(
    driver: ShardDriver,
) -> None:
    driver.txn_commit({T0: 5})
    driver.txn_commit({T0: 4})
    driver.end_transaction(commit=True)
    assert driver.offsets() == {T0: 4}


@pytest.mark.fact("H-93a", "H-93c", "A-48a", "A-48b")
def test_a_fetch_with_require_stable_reports_pending_offsets_as_unstable(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1, U0: 2})
    driver.txn_commit({T0: 5, T1: 6})
    wanted = {"t": [0, 1, 2], "u": [0]}
    assert driver.offsets(wanted, stable=True) == {
        T0: UNSTABLE,
        T1: UNSTABLE,
        ("t", 2): -1,
        U0: 2,
    }
    [topic, _] = driver.fetch(wanted, stable=True).topics
    assert topic.partitions[0].committed_offset == -1
    assert topic.partitions[0].metadata == ""


@pytest.mark.fact("E17-12e")
def test_before_version_3_transactional_commits_have_no_member_id_and_are_accepted(
    driver: ShardDriver,
) -> None:
    stable_group(driver, 1)
    assert driver.txn_commit({T0: 5}, version=2) == {T0: 0}


@pytest.mark.fact("E17-12f")
def test_a_transaction_may_commit_between_join_and_sync(driver: ShardDriver) -> None:
    [member_id] = joining_group(driver, 1)
    assert driver.groups["g"].state is GroupState.COMPLETING_REBALANCE
    answer = driver.txn_commit(
        {T0: 5}, member_id=member_id, generation_id_or_member_epoch=1
    )
    assert answer == {T0: 0}


def test_a_transactional_commit_does_not_extend_the_session(
    driver: ShardDriver,
) -> None:
    [member_id] = stable_group(driver, 1)
    driver.txn_commit({T0: 5}, member_id=member_id, generation_id_or_member_epoch=1)
    assert not driver.results[-1].timers


def test_a_fenced_producer_cannot_add_to_the_transaction(driver: ShardDriver) -> None:
    driver.txn_commit({T0: 5}, producer_epoch=2)
    assert driver.txn_commit({T0: 6}, producer_epoch=1) == {T0: 47}


@pytest.mark.fact("E17-15d")
def test_a_commit_without_a_generation_creates_a_simple_group(
    driver: ShardDriver,
) -> None:
    driver.txn_commit({T0: 5})
    assert driver.groups["g"].is_simple


def test_a_group_created_by_an_aborted_transaction_stays_until_a_sweep(
    driver: ShardDriver,
) -> None:
    driver.txn_commit({T0: 5})
    driver.sweep()
    driver.end_transaction(commit=False)
    assert driver.groups["g"].is_simple
    driver.sweep()
    assert "g" not in driver.groups


@pytest.mark.fact("E17-15e")
def test_version_6_identifies_topics_by_id(driver: ShardDriver) -> None:
    assert driver.txn_commit({T0: 5, ("gone", 0): 1}, version=6) == {
        T0: 0,
        ("gone", 0): 100,
    }
    driver.end_transaction(commit=True)
    assert driver.offsets() == {T0: 5}


def test_an_unknown_partition_or_long_metadata_does_not_affect_others(
    driver: ShardDriver,
) -> None:
    long = {"committed_offset": 1, "committed_metadata": "x" * 4097}
    answer = driver.txn_commit({("gone", 0): 1, ("t", 9): 1, T0: long, T1: 6})
    assert answer == {("gone", 0): 3, ("t", 9): 3, T0: 12, T1: 0}
