"""Local snapshots: a shard is taken over again by the end of its partition."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.shard import Shard
from coterie.broker.log.memory import MemoryLog
from coterie.broker.runtime.loader import replay_batch
from coterie.broker.runtime.shards import DrivenShard
from coterie.errors import ConnectionLost
from coterie.gateway.log import opening
from coterie.gateway.log.barrier import read_barrier
from coterie.gateway.log.local_snapshots import AGE_MAX_MS, CHECK_S
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    LogRecord,
    Producer,
    encode_batch,
    read_header,
)
from tests.broker.runtime.world import commit_request
from tests.gateway.log.application import Transactions, offset_record
from tests.gateway.log.shard_world import Node, node


def with_snapshot(offset: int = 1) -> Node:
    """Return a node with a commit of group g in a snapshot."""
    world = node(store=MemoryLog())
    assert world.commit("g", offset) == 0
    world.take_snapshots()
    assert world.local.replay_from(world.runtime.shard_of("g")) == 2
    return world


def again(world: Node, **changes: Any) -> Node:
    """Return the node after a restart, with its store and all shards."""
    assert world.store is not None
    restarted = world.successor(store=world.store.reopen(), **changes)
    restarted.own()
    return restarted


def without_log(world: Node, group_id: str) -> None:
    """Make every record before the end unreadable: only a snapshot has them."""
    partition = world.partition_of(group_id)
    for at, batch in enumerate(partition.batches):
        header = read_header(batch)
        partition.batches[at] = batch[:21] + bytes(len(batch) - 21)
        assert header.base_offset < partition.end


def test_a_shard_is_loaded_from_its_snapshot() -> None:
    world = with_snapshot()
    without_log(world, "g")
    assert again(world).offset("g") == 1


def test_records_after_the_snapshot_are_replayed() -> None:
    world = with_snapshot()
    without_log(world, "g")
    world.commit("g", 2)
    world.commit("g", 3, partition=1)
    restarted = again(world)
    assert restarted.offset("g") == 2
    assert restarted.offset("g", 1) == 3


def test_commits_of_another_node_are_replayed() -> None:
    world = with_snapshot()
    other = world.successor(name="other")
    other.own()
    other.commit("g", 7)
    assert again(world).offset("g") == 7


def test_batches_of_earlier_owners_after_the_snapshot_are_dropped() -> None:
    world = again(with_snapshot())
    world.commit("g", 2)
    world.take_snapshots()
    partition = world.partition_of("g")
    owner = read_header(partition.batches[-1])
    assert owner.producer_epoch > 0
    key, value = encode_record(offset_record("g", 99))
    earlier = Producer(owner.producer_id, owner.producer_epoch - 1, 0)
    stale = encode_batch([LogRecord(0, 0, key, value)], producer=earlier)
    partition.producers.clear()
    partition.append(stale)
    partition.producers.clear()
    assert again(world).offset("g") == 2


def test_commits_of_later_owners_whose_barriers_were_compacted_are_replayed() -> None:
    world = with_snapshot()
    other = world.successor(name="other")
    other.own()
    other.commit("g", 7)
    partition = world.partition_of("g")
    barriers = [
        batch for batch in partition.batches if read_barrier(batch, read_header(batch))
    ]
    assert len(barriers) == 2
    for each in barriers:
        partition.batches.remove(each)
    assert again(world).offset("g") == 7


def test_a_snapshot_has_no_commit_that_upstream_did_not_acknowledge() -> None:
    world = with_snapshot()
    world.upstream.answers_produce = False
    world.submit(commit_request("g", 99), "g")
    world.loop.settle()
    world.take_snapshots()
    world.upstream.requests.clear()
    world.upstream.answers_produce = True
    assert again(world).offset("g") == 1


def test_a_snapshot_is_dropped_when_a_write_in_it_fails() -> None:
    world = with_snapshot()
    world.upstream.answers_produce = False
    answers = world.submit(commit_request("g", 99), "g")
    world.loop.settle()
    world.take_snapshots()
    world.upstream.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    world.upstream.answers_produce = True
    world.loop.advance(5)
    assert len(answers) == 1
    assert world.store is not None
    world.store.flush()
    assert again(world).offset("g") == 1


def test_a_snapshot_waits_for_writes_in_flight() -> None:
    world = with_snapshot()
    world.upstream.answers_produce = False
    world.submit(commit_request("g", 2), "g")
    world.loop.settle()
    world.take_snapshots()
    index = world.runtime.shard_of("g")
    assert world.local.replay_from(index) == 2
    world.upstream.answer()
    world.loop.advance(1)
    assert world.local.replay_from(index) == 3


def test_a_snapshot_is_dropped_when_offsets_were_assigned_too_low() -> None:
    world = with_snapshot()
    index = world.runtime.shard_of("g")
    application = Transactions(world)
    application.commit("g", 50)
    world.loop.settle()
    world.upstream.answers_produce = False
    world.submit(commit_request("g", 2), "g")
    world.loop.settle()
    application.end("g", commit=True)
    world.take_snapshots()
    world.upstream.answers_produce = True
    world.upstream.answer()
    world.loop.advance(1)
    assert world.local.replay_from(index) == 2, "the marker took its offset"
    world.take_snapshots()
    assert world.local.replay_from(index) == world.partition_of("g").end
    without_log(world, "g")
    assert again(world).offset("g") == 2


def test_an_open_transaction_is_in_the_snapshot() -> None:
    world = with_snapshot()
    application = Transactions(world)
    application.commit("g", 50)
    world.commit("h", 1)
    world.commit("g", 1, partition=1)
    world.take_snapshots()
    without_log(world, "g")
    application.end("g", commit=True)
    restarted = again(world)
    restarted.loop.advance(1)
    assert restarted.offset("g") == 50


@pytest.mark.parametrize("age_ms", [AGE_MAX_MS, -60_000])
def test_a_snapshot_of_another_time_is_not_used(age_ms: int) -> None:
    world = with_snapshot()
    assert world.store is not None
    world.store.put("snapshot/0/groups", b"deleted-meanwhile", b"\0")
    world.store.put("snapshot/1/groups", b"deleted-meanwhile", b"\0")
    world.store.flush()
    world.loop.now_ms += age_ms
    restarted = again(world)
    assert restarted.offset("g") == 1
    groups = [
        group_id
        for driven in restarted.runtime.shards
        for group_id in driven.shard.state.offsets.stored
    ]
    assert groups == ["g"]
    assert restarted.store is not None
    stored = [*restarted.store.items("snapshot/0/groups")]
    stored += restarted.store.items("snapshot/1/groups")
    restarted.take_snapshots()
    assert b"deleted-meanwhile" not in [key for key, _ in stored]


def test_a_snapshot_beyond_the_logs_end_is_not_used() -> None:
    world = with_snapshot()
    for at in range(5):
        world.commit("g", at)
    world.take_snapshots()
    partition = world.partition_of("g")
    del partition.batches[2:]
    partition.end = 2
    assert again(world).offset("g") == 1


def test_a_snapshot_before_the_log_start_is_not_used() -> None:
    world = with_snapshot()
    for at in range(5):
        world.commit("g", at)
    partition = world.partition_of("g")
    del partition.batches[:5]
    partition.log_start = 5
    assert again(world).offset("g") == 4


def test_a_damaged_snapshot_is_removed() -> None:
    world = with_snapshot()
    index = world.runtime.shard_of("g")
    assert world.store is not None
    world.store.put(f"snapshot/{index}/groups", b"g", b"\1damaged")
    world.store.flush()
    restarted = again(world)
    restarted.loop.advance(5)
    assert restarted.offset("g") == 1


def test_a_snapshot_that_does_not_fit_the_log_is_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = with_snapshot()
    world.commit("g", 2)
    replayed: list[Shard] = []
    failures = []

    def refuse_snapshot(driven: DrivenShard, shard: Shard, *arguments: Any) -> None:
        if shard not in replayed and shard.state.offsets.has("g"):
            failures.append("owned at epoch 10")
            raise AssertionError("owned at epoch 10")
        replayed.append(shard)
        replay_batch(driven, shard, *arguments)

    monkeypatch.setattr(opening, "replay_batch", refuse_snapshot)
    restarted = again(world)
    restarted.loop.advance(60)
    assert restarted.offset("g") == 2
    assert len(failures) == 1


def test_a_snapshot_is_written_after_a_long_load() -> None:
    world = node()
    world.commit("g", 1)
    second = world.successor(store=MemoryLog())
    second.own()
    second.loop.advance(CHECK_S + 1)
    without_log(world, "g")
    assert again(second).offset("g") == 1


def test_a_fetch_that_fails_keeps_the_snapshot() -> None:
    world = with_snapshot()
    without_log(world, "g")
    failures = [ConnectionLost("fetch")] * 3
    world.upstream.fails = lambda name: (
        failures.pop() if name == "fetch" and failures else None
    )
    restarted = again(world)
    restarted.loop.advance(10)
    assert restarted.offset("g") == 1


def test_no_snapshot_is_taken_while_offsets_are_too_high() -> None:
    world = with_snapshot()
    index = world.runtime.shard_of("g")
    application = Transactions(world)
    world.upstream.answers_produce = False
    application.commit("g", 50)
    world.submit(commit_request("g", 2), "g")
    world.loop.settle()
    world.upstream.answers_produce = True
    world.upstream.refuse(ErrorCode.INVALID_TXN_STATE)
    world.loop.settle()
    world.take_snapshots()
    assert world.local.replay_from(index) == 2
    assert again(world).offset("g") == 2
