"""A shard taken over from a snapshot is the shard the snapshot was taken of."""

from __future__ import annotations

import pytest

from coterie.coordinator import invariants
from coterie.coordinator.result import Record
from coterie.coordinator.shard import Shard
from coterie.coordinator.snapshot import (
    entries,
    read_offsets,
    take_group,
    take_transactions,
)
from coterie.errors import LogCorrupt
from tests.coordinator.classic.members import join, join_request, leave, stable_group
from tests.coordinator.shard_driver import (
    SETTINGS,
    ShardDriver,
    adopt,
    assert_same_durable,
    taken_over,
)

T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture
def driver() -> ShardDriver:
    return ShardDriver()


def test_groups_and_offsets_are_taken_over(driver: ShardDriver) -> None:
    stable_group(driver, 2, static=True)
    driver.commit({T0: 5}, group_id="simple", version=10)
    driver.commit({T1: 6}, group_id="short", version=4, retention_time_ms=9)
    shard = taken_over(driver.state)
    assert_same_durable(driver.state, shard.state)
    invariants.check(shard.state)


def test_a_group_without_offsets_is_taken_over(driver: ShardDriver) -> None:
    leave(driver, *stable_group(driver, 1))
    assert_same_durable(driver.state, taken_over(driver.state).state)


def test_a_rebalance_in_flight_is_not_kept(driver: ShardDriver) -> None:
    stable_group(driver, 1)
    join(driver)
    shard = taken_over(driver.state)
    assert shard.state.classic_groups["g"].state.value == "Stable"
    assert_same_durable(driver.state, shard.state)


def test_a_group_that_left_no_trace_is_not_kept(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    driver.send(join_request())
    driver.delete_offsets({"t": [0]})
    assert driver.groups["g"].pending_members
    assert take_group(driver.state, "g", 0) is None
    assert_same_durable(driver.state, taken_over(driver.state).state)


def test_open_transactions_are_taken_over(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    driver.txn_commit({T0: 5, T1: 6}, producer_epoch=2)
    driver.commit({T1: 100})
    shard = taken_over(driver.state)
    assert_same_durable(driver.state, shard.state)
    shard.replay_marker(7, 2, commit=True, log_offset=9)
    driver.end_transaction(commit=True)
    assert_same_durable(driver.state, shard.state)
    assert driver.offsets() == {T0: 5, T1: 100}


def test_offsets_are_read_when_first_looked_at(driver: ShardDriver) -> None:
    driver.commit({T0: 5})
    kept = take_group(driver.state, "g", 0)
    assert kept is not None
    state = Shard(SETTINGS).state
    reads = adopt(state, "g", kept.offsets)
    assert state.classic_groups["g"].is_simple
    assert state.offsets.has("g")
    assert not reads
    assert state.offsets.stored.get("g", "t", 0) is not None
    assert state.offsets.stored.get("g", "t", 1) is None
    assert reads == ["g"]


def test_what_the_log_says_later_is_put_over_the_snapshot(driver: ShardDriver) -> None:
    driver.commit({T0: 5, T1: 6})
    shard = taken_over(driver.state)
    start = len(driver.history)
    driver.commit({T0: 7})
    driver.delete_offsets({"t": [1]})
    driver.commit({T0: 8}, group_id="new")
    for entry, origin in driver.history[start:]:
        assert isinstance(entry, Record)
        shard.replay(entry, origin)
    assert_same_durable(driver.state, shard.state)
    assert shard.changed == {"g", "new"}


def test_groups_that_changed_are_remembered_for_the_next_snapshot(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1})
    driver.txn_commit({T0: 1}, group_id="h")
    assert driver.shard.changed == {"g", "h"}
    driver.shard.changed.clear()
    driver.end_transaction(commit=True)
    assert driver.shard.changed == {"h"}


def test_every_cut_of_a_snapshot_is_corrupt(driver: ShardDriver) -> None:
    driver.commit({T0: 5, ("u", 3): 6})
    driver.txn_commit({T0: 5})
    stable_group(driver, 1)
    kept = take_group(driver.state, "g", 0)
    assert kept is not None
    topic_ends = {len(kept.offsets) // 2 + 1}  # two topics of one size after a byte
    for end in {*range(len(kept.offsets))} - topic_ends - {1}:
        with pytest.raises(LogCorrupt):
            read_offsets(kept.offsets[:end])
    for records in (kept.metadata, take_transactions(driver.state)):
        for end in range(1, len(records)):
            with pytest.raises(LogCorrupt):
                list(entries(records[:end]))


def test_a_record_of_an_unknown_type_is_corrupt(driver: ShardDriver) -> None:
    stable_group(driver, 1)
    kept = take_group(driver.state, "g", 0)
    assert kept is not None
    with pytest.raises(LogCorrupt, match="unknown type"):
        list(entries(kept.metadata.replace(b"\0\2\0\1g", b"\0\x63\0\1g")))


def test_offsets_in_another_form_are_corrupt(driver: ShardDriver) -> None:
    stable_group(driver, 1)
    kept = take_group(driver.state, "g", 0)
    assert kept is not None
    state = Shard(SETTINGS).state
    adopt(state, "g", kept.metadata)
    with pytest.raises(LogCorrupt, match="unknown format"):
        state.offsets.stored.group("g")


def test_a_tombstone_is_no_part_of_a_snapshot(driver: ShardDriver) -> None:
    driver.commit({T0: 5})
    driver.delete_offsets({"t": [0]})
    assert take_group(driver.state, "g", 0) is None
    assert take_transactions(driver.state) == b""
