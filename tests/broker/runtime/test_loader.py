"""Loading of shards: in slices, shards with requests first, corrupt data refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from coterie.broker.coordinator.consumer.record_builders import epoch_record
from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.log.log import BatchInfo, LogPartition
from coterie.broker.runtime import slices as slices_module
from coterie.broker.runtime.shards import Phase
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.broker.runtime.test_snapshots import write
from tests.broker.runtime.world import (
    TOPIC_ID,
    World,
    commit_error,
    commit_request,
    join_request,
)
from tests.support.compiled import skip_if_compiled

FIRST = LogPartition(TOPIC_ID, 0)


def append(world: World, records: Sequence[LogRecord]) -> None:
    """Append a batch to the log without the runtime."""
    batch = encode_batch(records)
    first, last = records[0], records[-1]
    info = BatchInfo(first.offset, last.offset, first.timestamp_ms, len(batch))
    world.log.append(FIRST, batch, info)
    world.flusher.flush()


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit every slice of the loader to a single step."""
    monkeypatch.setattr(slices_module, "SLICE_S", 0.0)


@pytest.mark.usefixtures("slices")
def test_loaded_shards_serve_while_others_load() -> None:
    world = World(shard_count=3)
    for at in range(60):
        world.call(commit_request(f"g{at}", at), f"g{at}")
    loading = world.reopened(starts=False)
    loading.start()
    seen: set[frozenset[Phase]] = set()
    while Phase.LOADING in loading.phases:
        seen.add(frozenset(loading.phases))
        loading.loop.turn()
    assert frozenset({Phase.LOADING, Phase.ACTIVE}) in seen
    assert [loading.offset(f"g{at}") for at in range(60)] == list(range(60))


@pytest.mark.usefixtures("slices")
def test_a_runtime_can_stop_while_it_loads(caplog: pytest.LogCaptureFixture) -> None:
    world = World(shard_count=3)
    for at in range(60):
        world.call(commit_request(f"g{at}", at), f"g{at}")
    loading = world.reopened(starts=False)
    loading.start()
    loading.loop.turn()
    loading.loader.slices.clear()
    loading.runtime.stop()
    loading.loop.settle()
    assert loading.phases == {Phase.STOPPED}
    assert not caplog.records


@pytest.mark.usefixtures("slices")
def test_a_shard_with_requests_is_loaded_next() -> None:
    world = World(shard_count=4)
    for at in range(80):
        world.call(commit_request(f"g{at}", at), f"g{at}")
    loading = world.reopened(starts=False)
    loading.start()
    last = loading.runtime.shards[-1]
    group_id = next(f"g{at}" for at in range(80) if loading.driven(f"g{at}") is last)
    answers = loading.submit(commit_request(group_id, 1), group_id)
    assert commit_error(answers[0]) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    while last.phase is Phase.LOADING:
        loading.loop.turn()
    others = {each.phase for each in loading.runtime.shards[:-1]}
    assert others == {Phase.LOADING}


@pytest.mark.fact("H-154a", "E30-04a")
def test_a_record_of_an_unknown_type_is_skipped_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(shard_count=1)
    append(world, [LogRecord(0, 1_000, b"\0\x63what", b"value")])
    world.call(commit_request("g", 5), "g")
    reloaded = World(log=world.log.reopen(), loop=world.loop, shard_count=1)
    assert "unknown type at offset 0" in caplog.text
    assert reloaded.offset("g") == 5


@pytest.mark.fact("H-154b")
def test_a_record_of_a_known_type_that_does_not_decode_fails_the_load(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(shard_count=1)
    key, _ = encode_record(epoch_record("g", 1, 0))
    append(world, [LogRecord(0, 1_000, key, b"\0\0")])
    reloaded = World(log=world.log.reopen(), loop=world.loop, shard_count=1)
    assert reloaded.phases == {Phase.STOPPED}
    assert "record of type 3" in caplog.text


def test_a_batch_with_a_wrong_checksum_fails_the_load(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(shard_count=1)
    world.call(commit_request("g", 5), "g")
    broken = world.reopened(starts=False)
    read = broken.log.read

    def flipped(partition: LogPartition, offset: int, bytes_max: int) -> Any:
        batches = read(partition, offset, bytes_max)
        return [batch[:-1] + bytes([batch[-1] ^ 1]) for batch in batches]

    skip_if_compiled(broken.log)
    broken.log.read = flipped  # type: ignore[method-assign]
    broken.start()
    broken.loop.settle()
    assert broken.phases == {Phase.STOPPED}
    assert "wrong checksum" in caplog.text


def test_bytes_that_are_not_a_batch_fail_the_load(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(shard_count=1)
    world.call(commit_request("g", 5), "g")
    broken = world.reopened(starts=False)
    skip_if_compiled(broken.log)
    broken.log.read = lambda *_: [b"nonsense"]  # type: ignore[method-assign]
    broken.start()
    broken.loop.settle()
    assert broken.phases == {Phase.STOPPED}
    assert "could not be loaded" in caplog.text


def test_a_truncated_log_is_loaded_from_its_start_offset() -> None:
    world = World(shard_count=1)
    for offset in range(5):
        world.call(commit_request("g", offset), "g")
    world.log.truncate(FIRST, 5)
    world.flusher.flush()
    reloaded = world.reopened()
    assert reloaded.phases == {Phase.ACTIVE}
    assert reloaded.offset("g") == -1
    reloaded.call(commit_request("g", 7), "g")
    assert reloaded.reopened().offset("g") == 7


def test_groups_loaded_from_a_snapshot_do_not_count_as_changed() -> None:
    world = World(shard_count=1)
    world.call(join_and_sync(world, "settled"), "settled", 2)
    world.call(commit_request("old", 1), "old")
    write(world)
    world.call(commit_request("new", 2), "new")
    assert world.reopened().driven("new").shard.changed == {"new"}


def join_and_sync(world: World, group_id: str) -> m.SyncGroupRequest:
    """Join a group of one member; return its SyncGroup, which writes group metadata."""
    joined = world.submit(join_request(group_id), group_id, 3)
    world.loop.advance(4)
    plan = m.SyncGroupRequestAssignment(
        member_id=joined[0].member_id, assignment=b"a" * 200
    )
    return m.SyncGroupRequest(
        group_id=group_id,
        generation_id=1,
        member_id=joined[0].member_id,
        assignments=[plan],
    )


def test_a_sync_group_whose_record_is_too_large_gets_one_error_response() -> None:
    world = World(shard_count=1, settings=Settings(message_max_bytes=200))
    answers = world.submit(join_and_sync(world, "g"), "g", 2)
    world.loop.settle()
    assert [answer.error_code for answer in answers] == [-1]
    world.runtime.stop()
    assert len(answers) == 1
