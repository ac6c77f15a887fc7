"""ListOffsets, DeleteRecords, OffsetForLeaderEpoch and retention."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.errors import LogError
from coterie.runtime.housekeeping import Housekeeping
from coterie.server.apis import (
    delete_records,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from coterie.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from coterie.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.data.test_fetch import parts_of, request_of
from tests.data.world import World, batch_of, produce_request

LATEST = 11


def ask(
    world: World,
    timestamp: int,
    version: int = LATEST,
    *,
    topic: str = "a",
    index: int = 0,
    **part: Any,
) -> Any:
    wanted = ListOffsetsPartition(partition_index=index, timestamp=timestamp, **part)
    request = ListOffsetsRequest(
        topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
    )
    return world.call(list_offsets, request, version).topics[0].partitions[0]


def send(world: World, *timestamps_ms: int, topic: str = "a") -> None:
    """One batch for each time, of two records."""
    for timestamp_ms in timestamps_ms:
        batch = batch_of(b"x", b"y", timestamp_ms=timestamp_ms)
        world.call(produce, produce_request(batch, topic=topic), 12)


@pytest.fixture
def world() -> World:
    made = World()
    made.create("a")
    send(made, 100, 300, 200)
    return made


@pytest.mark.parametrize(
    ("timestamp", "offset", "found_ms"),
    [
        (-1, 6, -1),
        (-2, 0, -1),
        (-3, 2, 300),
        (-4, 0, -1),
        (-5, -1, -1),
        (0, 0, 100),
        (100, 0, 100),
        (101, 2, 300),
        (300, 2, 300),
        (301, -1, -1),
    ],
)
def test_a_time_is_looked_up(
    world: World, timestamp: int, offset: int, found_ms: int
) -> None:
    part = ask(world, timestamp)
    assert (part.error_code, part.offset, part.timestamp) == (0, offset, found_ms)


def test_a_time_inside_a_batch_finds_its_record() -> None:
    world = World()
    world.create("a")
    records = [LogRecord(at, 10 * at, b"k", b"v") for at in range(5)]
    world.call(produce, produce_request(encode_batch(records)), 12)
    assert ask(world, 25).offset == 3


def test_an_empty_partition_has_no_times() -> None:
    world = World()
    world.create("a")
    assert ask(world, 0).offset == -1
    assert ask(world, -3).offset == -1
    assert ask(world, -1).offset == 0


@pytest.mark.parametrize(
    ("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)]
)
def test_a_special_time_before_its_version_is_refused(
    world: World, timestamp: int, version: int
) -> None:
    code = ask(world, timestamp, version).error_code
    assert code == ErrorCode.UNSUPPORTED_VERSION


def test_refusals(world: World) -> None:
    assert ask(world, -1, topic="b").error_code == 3
    assert ask(world, -1, index=1).error_code == 3
    code = ask(world, -1, current_leader_epoch=1).error_code
    assert code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(world, -1, current_leader_epoch=0).error_code == 0


def test_a_partition_asked_for_twice_is_refused(world: World) -> None:
    part = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        topics=[ListOffsetsTopic(name="a", partitions=[part, part])]
    )
    [topic] = world.call(list_offsets, request, LATEST).topics
    codes = [found.error_code for found in topic.partitions]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]


def delete(world: World, offset: int, topic: str = "a") -> Any:
    part = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[part])]
    )
    return world.call(delete_records, request, 2).topics[0].partitions[0]


@pytest.mark.parametrize(("offset", "start"), [(-1, 6), (3, 3), (0, 0), (6, 6)])
def test_deleted_records_are_out_of_range(
    world: World, offset: int, start: int
) -> None:
    part = delete(world, offset)
    assert (part.error_code, part.low_watermark) == (0, start)
    assert ask(world, -2).offset == start
    if start > 0:
        [found] = parts_of(world.call(fetch, request_of(start - 1), 12)).values()
        assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_deleted_records_stay_deleted_after_a_restart(world: World) -> None:
    delete(world, 3)
    world.restart()
    assert ask(world, -2).offset == 3


def test_a_time_before_the_log_start_finds_what_is_left(world: World) -> None:
    delete(world, 1)
    assert ask(world, 0).offset == 1


def test_records_beyond_the_end_cannot_be_deleted(world: World) -> None:
    part = delete(world, 7)
    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert part.low_watermark == -1
    assert delete(world, 0, topic="b").error_code == 3


def test_a_compacted_topics_records_cannot_be_deleted() -> None:
    world = World()
    world.create("a", configs={"cleanup.policy": "compact"})
    assert delete(world, -1).error_code == ErrorCode.POLICY_VIOLATION


class Nobody:
    """An authorizer that refuses everything."""

    def authorize(self, *_: object) -> bool:
        return False


def test_offsets_need_permission(world: World) -> None:
    world.authorizer = Nobody()
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert ask(world, -1).error_code == refused
    assert delete(world, -1).error_code == refused
    assert epoch_end(world, 0).error_code == refused


def test_a_full_disk_deletes_nothing(world: World) -> None:
    world.fail_next_write()
    part = delete(world, -1)
    assert part.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert part.low_watermark == -1
    assert ask(world, -2).offset == 0


def test_a_disk_that_cannot_be_read_is_an_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise LogError("unreadable")

    monkeypatch.setattr(world.log, "find_timestamp", fail)
    assert ask(world, 5).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def epoch_end(world: World, leader_epoch: int, current: int = -1) -> Any:
    part = OffsetForLeaderPartition(
        partition=0, leader_epoch=leader_epoch, current_leader_epoch=current
    )
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="a", partitions=[part])]
    )
    return world.call(offset_for_leader_epoch, request, 4).topics[0].partitions[0]


def test_the_only_epoch_ends_where_the_log_does(world: World) -> None:
    part = epoch_end(world, 0)
    assert (part.error_code, part.leader_epoch, part.end_offset) == (0, 0, 6)


def test_an_epoch_that_never_was_has_no_end(world: World) -> None:
    part = epoch_end(world, 1)
    assert (part.error_code, part.leader_epoch, part.end_offset) == (0, -1, -1)
    assert epoch_end(world, 0, 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def tidy(world: World) -> None:
    housekeeping = Housekeeping(world.data, world.transactions)
    housekeeping.start()
    interval_ms = world.settings.log_retention_check_interval_ms
    world.scheduler.advance(interval_ms / 1_000)
    housekeeping.stop()


def test_batches_older_than_retention_go() -> None:
    world = World()
    world.create("a", configs={"retention.ms": "1000"})
    now_ms = world.clock() + world.settings.log_retention_check_interval_ms
    send(world, now_ms - 2_000, now_ms - 1_001, now_ms - 1_000, now_ms - 3_000)
    tidy(world)
    assert ask(world, -2).offset == 4


def test_batches_over_the_size_go() -> None:
    world = World()
    size = len(batch_of(b"x", b"y", timestamp_ms=1))
    configs = {"retention.bytes": str(2 * size), "retention.ms": "-1"}
    world.create("a", configs=configs)
    send(world, 1, 1, 1, 1)
    tidy(world)
    assert ask(world, -2).offset == 4


def test_a_compacted_topic_keeps_its_age() -> None:
    world = World()
    configs = {"retention.ms": "1", "cleanup.policy": "compact"}
    world.create("a", configs=configs)
    send(world, 1)
    tidy(world)
    assert ask(world, -2).offset == 0


def test_housekeeping_comes_round() -> None:
    world = World(log_retention_check_interval_ms=1_000)
    world.create("a", configs={"retention.ms": "1000"}, partition_count=120)
    send(world, world.clock())
    Housekeeping(world.data, world.transactions).start()
    world.scheduler.advance(1)
    assert ask(world, -2).offset == 0
    world.scheduler.advance(1.1)
    assert ask(world, -2).offset == 2


def test_a_time_whose_record_is_deleted_finds_the_next() -> None:
    world = World()
    world.create("a")
    records = [LogRecord(0, 900, b"k", b"v"), LogRecord(1, 100, b"k", b"v")]
    world.call(produce, produce_request(encode_batch(records)), 12)
    send(world, 100, 700)
    assert delete(world, 1).error_code == 0
    part = ask(world, 600)
    assert (part.offset, part.timestamp) == (4, 700)
    assert ask(world, 800).offset == -1


def test_a_topic_deleted_with_its_records_is_no_trouble(world: World) -> None:
    partition = world.data.partition("a", 0)
    assert partition is not None
    world.data.delete_records(partition, 3)
    world.data.stage([world.catalog.delete_topic("a")])
    world.loop.end_turn()
    assert ask(world, -2).error_code == 3
