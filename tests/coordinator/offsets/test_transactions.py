"""TxnOffsetCommit, stable fetches, and the markers that end transactions."""

from __future__ import annotations

import pytest

from coterie.coordinator.classic.group import GroupState
from tests.coordinator.classic.members import joining_group, stable_group
from tests.coordinator.shard_driver import WEEK_MS, ShardDriver

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
UNSTABLE = -88


@pytest.fixture
def driver() -> ShardDriver:
    return ShardDriver()


@pytest.mark.fact("E17-16")
def test_offsets_of_an_open_transaction_do_not_count(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    assert driver.txn_commit({T0: 5, T1: 6}) == {T0: 0, T1: 0}
    assert driver.offsets() == {T0: 1}


def test_the_records_belong_to_the_producers_transaction(driver: ShardDriver) -> None:
    driver.txn_commit({T0: 5}, producer_epoch=3)
    result = driver.results[-1]
    assert (result.producer_id, result.producer_epoch) == (7, 3)
    assert [record.value_version for record in result.records] == [3]


@pytest.mark.fact("E17-16", "E22-47")
def test_a_commit_marker_makes_them_count(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    driver.txn_commit({T0: 5, T1: 6})
    driver.end_transaction(commit=True)
    assert driver.offsets() == {T0: 5, T1: 6}
    assert driver.reloaded().offsets() == {T0: 5, T1: 6}


@pytest.mark.fact("E17-16", "E22-47")
def test_an_abort_marker_drops_them(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    driver.txn_commit({T0: 5, T1: 6})
    driver.end_transaction(commit=False)
    assert driver.offsets() == {T0: 1}
    assert driver.reloaded().offsets() == {T0: 1}


def test_a_marker_ends_its_own_producers_transaction_alone(
    driver: ShardDriver,
) -> None:
    driver.txn_commit({T0: 5})
    driver.txn_commit({T1: 6}, producer_id=8)
    driver.end_transaction(8, commit=True)
    assert driver.offsets() == {T1: 6}
    driver.end_transaction(7, commit=True)
    assert driver.offsets() == {T0: 5, T1: 6}


def test_a_marker_for_nothing_changes_nothing(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    driver.end_transaction(commit=True)
    assert driver.offsets() == {T0: 1}


def test_one_transaction_may_commit_for_several_groups(driver: ShardDriver) -> None:
    driver.txn_commit({T0: 5})
    driver.txn_commit({T0: 6}, group_id="h")
    driver.end_transaction(commit=True)
    assert driver.offsets() == {T0: 5}
    assert driver.offsets(group_id="h") == {T0: 6}


@pytest.mark.fact("E17-16")
def test_within_a_transaction_the_newest_commit_counts(driver: ShardDriver) -> None:
    driver.txn_commit({T0: 5})
    driver.txn_commit({T0: 4})
    driver.end_transaction(commit=True)
    assert driver.offsets() == {T0: 4}


@pytest.mark.fact("H-90", "E17-16")
def test_a_later_plain_commit_wins_over_the_transactions(driver: ShardDriver) -> None:
    driver.txn_commit({T0: 5, T1: 6})
    driver.commit({T0: 100})
    driver.end_transaction(commit=True)
    assert driver.offsets() == {T0: 100, T1: 6}


@pytest.mark.fact("E17-16")
def test_the_transactions_commit_wins_over_an_earlier_plain_one(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 100})
    driver.txn_commit({T0: 5})
    driver.end_transaction(commit=True)
    assert driver.offsets() == {T0: 5}


@pytest.mark.fact("H-91", "E17-17")
def test_a_tombstone_removes_every_pending_offset(driver: ShardDriver) -> None:
    driver.txn_commit({T0: 5, T1: 6})
    driver.txn_commit({T0: 7}, producer_id=8)
    driver.delete_offsets({"t": [0]})
    driver.end_transaction(7, commit=True)
    driver.end_transaction(8, commit=True)
    assert driver.offsets() == {T1: 6}


@pytest.mark.fact("A-48", "H-93")
def test_a_stable_fetch_says_which_offsets_are_unstable(driver: ShardDriver) -> None:
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


@pytest.mark.fact("A-48", "H-93")
def test_a_stable_fetch_of_all_lists_stored_partitions_alone(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1, U0: 2})
    driver.txn_commit({T0: 5, T1: 6})
    assert driver.offsets(None, stable=True) == {T0: UNSTABLE, U0: 2}
    driver.end_transaction(commit=True)
    assert driver.offsets(None, stable=True) == {T0: 5, T1: 6, U0: 2}


@pytest.mark.fact("A-48")
def test_a_fetch_that_need_not_be_stable_ignores_transactions(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1})
    driver.txn_commit({T0: 5})
    assert driver.offsets(None, stable=False) == {T0: 1}


@pytest.mark.fact("H-89", "E17-15")
@pytest.mark.parametrize(("version", "code"), [(3, 22), (5, 22), (6, 69)])
def test_a_member_of_an_unknown_group_is_refused(
    driver: ShardDriver, version: int, code: int
) -> None:
    answer = driver.txn_commit(
        {T0: 5}, version=version, member_id="m", generation_id_or_member_epoch=1
    )
    assert answer == {T0: code}


@pytest.mark.fact("H-89", "E17-15", "E17-12")
@pytest.mark.parametrize(
    ("member_id", "generation", "code"),
    [("nobody", 1, 25), ("", 1, 25), (None, 2, 22), (None, -1, 22), (None, 1, 0)],
)
def test_a_transaction_says_who_commits(
    driver: ShardDriver, member_id: str | None, generation: int, code: int
) -> None:
    [member] = stable_group(driver, 1)
    answer = driver.txn_commit(
        {T0: 5},
        member_id=member if member_id is None else member_id,
        generation_id_or_member_epoch=generation,
    )
    assert answer == {T0: code}


@pytest.mark.fact("E17-12")
def test_old_versions_do_not_say_who_commits_and_may_always(
    driver: ShardDriver,
) -> None:
    stable_group(driver, 1)
    assert driver.txn_commit({T0: 5}, version=2) == {T0: 0}


@pytest.mark.fact("E17-12")
def test_a_transaction_may_commit_between_join_and_sync(driver: ShardDriver) -> None:
    [member_id] = joining_group(driver, 1)
    assert driver.groups["g"].state is GroupState.COMPLETING_REBALANCE
    answer = driver.txn_commit(
        {T0: 5}, member_id=member_id, generation_id_or_member_epoch=1
    )
    assert answer == {T0: 0}


def test_a_transaction_does_not_keep_a_session(driver: ShardDriver) -> None:
    [member_id] = stable_group(driver, 1)
    driver.txn_commit({T0: 5}, member_id=member_id, generation_id_or_member_epoch=1)
    assert not driver.results[-1].timers


def test_a_dead_group_has_no_coordinator_here(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    driver.shard.resign()
    assert driver.txn_commit({T0: 5}) == {T0: 15}


def test_a_fenced_producer_cannot_add_to_the_transaction(driver: ShardDriver) -> None:
    driver.txn_commit({T0: 5}, producer_epoch=2)
    assert driver.txn_commit({T0: 6}, producer_epoch=1) == {T0: 47}


@pytest.mark.fact("E17-15")
def test_a_commit_without_a_generation_makes_a_simple_group(
    driver: ShardDriver,
) -> None:
    driver.txn_commit({T0: 5})
    assert driver.groups["g"].is_simple


def test_a_group_that_only_an_aborted_transaction_made_is_gone(
    driver: ShardDriver,
) -> None:
    driver.txn_commit({T0: 5})
    driver.end_transaction(commit=False)
    assert "g" not in driver.groups


@pytest.mark.fact("E17-15")
def test_version_6_names_topics_by_id(driver: ShardDriver) -> None:
    assert driver.txn_commit({T0: 5, ("gone", 0): 1}, version=6) == {
        T0: 0,
        ("", 0): 100,
    }
    driver.end_transaction(commit=True)
    assert driver.offsets() == {T0: 5}


def test_unknown_partitions_and_long_metadata_are_refused_alone(
    driver: ShardDriver,
) -> None:
    long = {"committed_offset": 1, "committed_metadata": "x" * 4097}
    answer = driver.txn_commit({("gone", 0): 1, ("t", 9): 1, T0: long, T1: 6})
    assert answer == {("gone", 0): 3, ("t", 9): 3, T0: 12, T1: 0}


@pytest.mark.fact("E17-19", "H-99")
def test_a_pending_offset_keeps_the_stored_one_and_its_group(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1, T1: 2})
    driver.txn_commit({T0: 5})
    driver.sweep(WEEK_MS)
    assert driver.offsets() == {T0: 1}
    driver.end_transaction(commit=False)
    driver.sweep()
    assert "g" not in driver.groups


@pytest.mark.fact("E17-19")
def test_an_open_transaction_keeps_a_group_without_offsets(
    driver: ShardDriver,
) -> None:
    driver.txn_commit({T0: 5})
    driver.sweep(WEEK_MS)
    assert "g" in driver.groups
