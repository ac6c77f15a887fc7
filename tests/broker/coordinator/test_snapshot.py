"""The content of snapshots, and the state of shards loaded from them."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.result import Record
from coterie.broker.coordinator.shard import Shard
from coterie.broker.coordinator.snapshot import (
    entries,
    read_offsets,
    take_group,
    take_transactions,
)
from coterie.errors import LogCorrupt
from sim import invariants
from tests.broker.coordinator.classic.members import (
    join,
    join_request,
    leave,
    stable_group,
)
from tests.broker.coordinator.shard_driver import (
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


def test_a_snapshot_contains_groups_and_offsets(driver: ShardDriver) -> None:
    stable_group(driver, 2, static=True)
    driver.commit({T0: 5}, group_id="simple", version=10)
    driver.commit({T1: 6}, group_id="short", version=4, retention_time_ms=9)
    shard = taken_over(driver.state)
    assert_same_durable(driver.state, shard.state)
    invariants.check(shard.state)


def test_a_snapshot_contains_groups_without_offsets(driver: ShardDriver) -> None:
    leave(driver, *stable_group(driver, 1))
    assert_same_durable(driver.state, taken_over(driver.state).state)


def test_a_snapshot_omits_a_rebalance_in_progress(driver: ShardDriver) -> None:
    stable_group(driver, 1)
    join(driver)
    shard = taken_over(driver.state)
    assert shard.state.classic_groups["g"].state.value == "Stable"
    assert_same_durable(driver.state, shard.state)


def test_a_snapshot_omits_a_group_with_only_pending_members(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1})
    driver.send(join_request())
    driver.delete_offsets({"t": [0]})
    assert driver.groups["g"].pending_members
    assert take_group(driver.state, "g", 0) is None
    assert_same_durable(driver.state, taken_over(driver.state).state)


def test_a_snapshot_contains_open_transactions(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    driver.txn_commit({T0: 5, T1: 6}, producer_epoch=2)
    driver.commit({T1: 100})
    shard = taken_over(driver.state)
    assert_same_durable(driver.state, shard.state)
    shard.replay_marker(7, 2, commit=True, log_offset=9)
    driver.end_transaction(commit=True)
    assert_same_durable(driver.state, shard.state)
    assert driver.offsets() == {T0: 5, T1: 100}


def test_offsets_of_a_snapshot_are_decoded_on_first_access(driver: ShardDriver) -> None:
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


def test_later_records_replace_the_state_of_the_snapshot(driver: ShardDriver) -> None:
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


def test_changed_groups_are_recorded_for_the_next_snapshot(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1})
    driver.txn_commit({T0: 1}, group_id="h")
    assert driver.shard.changed == {"g", "h"}
    driver.shard.changed.clear()
    driver.end_transaction(commit=True)
    assert driver.shard.changed == {"h"}


def test_a_truncated_snapshot_is_corrupt(driver: ShardDriver) -> None:
    driver.commit({T0: 5, ("u", 3): 6})
    driver.txn_commit({T0: 5})
    stable_group(driver, 1)
    kept = take_group(driver.state, "g", 0)
    assert kept is not None
    topic_ends = {len(kept.offsets) // 2 + 1}  # a cut here is undetectable
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


def test_offsets_in_an_unknown_format_are_corrupt(driver: ShardDriver) -> None:
    stable_group(driver, 1)
    kept = take_group(driver.state, "g", 0)
    assert kept is not None
    state = Shard(SETTINGS).state
    adopt(state, "g", kept.metadata)
    with pytest.raises(LogCorrupt, match="unknown format"):
        state.offsets.stored.group("g")


def test_deleted_offsets_are_not_in_a_snapshot(driver: ShardDriver) -> None:
    driver.commit({T0: 5})
    driver.delete_offsets({"t": [0]})
    assert take_group(driver.state, "g", 0) is None
    assert take_transactions(driver.state) == b""
