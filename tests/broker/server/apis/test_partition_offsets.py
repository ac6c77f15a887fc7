"""ListOffsets, DeleteRecords, OffsetForLeaderEpoch and retention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.broker.runtime.decoding import LOOP_BATCH_BYTES
from coterie.broker.runtime.log_cleaner import LogCleaner
from coterie.broker.server.apis import partition_offsets
from coterie.errors import LogError
from coterie.wire import messages as m
from coterie.wire.compression import Codec
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import LogRecord, encode_batch, record_times
from tests.broker.server.apis.fake_broker import (
    FakeBroker,
    FakeWorker,
    allow_only,
    batch_of,
    produce_request,
)
from tests.broker.server.apis.test_fetch import parts_of, request_of

LATEST = 11


def list_offset(
    broker: FakeBroker,
    timestamp: int,
    version: int = LATEST,
    *,
    topic: str = "a",
    index: int = 0,
    **part: Any,
) -> Any:
    partition_request = m.ListOffsetsPartition(
        partition_index=index, timestamp=timestamp, **part
    )
    request = m.ListOffsetsRequest(
        topics=[m.ListOffsetsTopic(name=topic, partitions=[partition_request])]
    )
    return broker.call(request, version).topics[0].partitions[0]


def send(broker: FakeBroker, *timestamps_ms: int, topic: str = "a") -> None:
    """Produce one batch of two records for each timestamp."""
    for timestamp_ms in timestamps_ms:
        batch = batch_of(b"x", b"y", timestamp_ms=timestamp_ms)
        broker.call(produce_request(batch, topic=topic), 12)


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
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
def test_the_offset_of_a_timestamp_is_listed(
    broker: FakeBroker, timestamp: int, offset: int, found_ms: int
) -> None:
    part = list_offset(broker, timestamp)
    assert (part.error_code, part.offset, part.timestamp) == (0, offset, found_ms)


def test_a_timestamp_inside_a_batch_returns_its_record() -> None:
    broker = FakeBroker()
    broker.create("a")
    records = [LogRecord(at, 10 * at, b"k", b"v") for at in range(5)]
    broker.call(produce_request(encode_batch(records)), 12)
    assert list_offset(broker, 25).offset == 3


def test_an_empty_partition_has_no_timestamps() -> None:
    broker = FakeBroker()
    broker.create("a")
    assert list_offset(broker, 0).offset == -1
    assert list_offset(broker, -3).offset == -1
    assert list_offset(broker, -1).offset == 0


@pytest.mark.parametrize(
    ("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)]
)
def test_a_special_timestamp_is_refused_before_the_version_that_adds_it(
    broker: FakeBroker, timestamp: int, version: int
) -> None:
    code = list_offset(broker, timestamp, version).error_code
    assert code == ErrorCode.UNSUPPORTED_VERSION


def test_list_offsets_refuses_unknown_partitions_and_leader_epochs(
    broker: FakeBroker,
) -> None:
    assert list_offset(broker, -1, topic="b").error_code == 3
    assert list_offset(broker, -1, index=1).error_code == 3
    code = list_offset(broker, -1, current_leader_epoch=1).error_code
    assert code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert list_offset(broker, -1, current_leader_epoch=0).error_code == 0


@pytest.mark.parametrize("version", [4, 11])
def test_an_earlier_leader_epoch_is_fenced(broker: FakeBroker, version: int) -> None:
    code = list_offset(broker, -1, version, current_leader_epoch=-2).error_code
    assert code == ErrorCode.FENCED_LEADER_EPOCH
    assert epoch_end(broker, 0, -2).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_an_unknown_special_timestamp_is_refused_before_the_partition_is_found(
    broker: FakeBroker,
) -> None:
    assert list_offset(broker, -7, topic="b").error_code == 35


@pytest.mark.parametrize("level", [-1, 2])
def test_list_offsets_fails_for_an_unknown_isolation_level(
    broker: FakeBroker, level: int
) -> None:
    part = m.ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = m.ListOffsetsRequest(
        isolation_level=level, topics=[m.ListOffsetsTopic(name="a", partitions=[part])]
    )
    [topic] = broker.call(request, LATEST).topics
    assert [part.error_code for part in topic.partitions] == [-1]


def test_a_repeated_partition_is_refused(broker: FakeBroker) -> None:
    part = m.ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = m.ListOffsetsRequest(
        topics=[m.ListOffsetsTopic(name="a", partitions=[part, part])]
    )
    [topic] = broker.call(request, LATEST).topics
    codes = [found.error_code for found in topic.partitions]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]


def delete(broker: FakeBroker, offset: int, topic: str = "a") -> Any:
    part = m.DeleteRecordsPartition(partition_index=0, offset=offset)
    request = m.DeleteRecordsRequest(
        topics=[m.DeleteRecordsTopic(name=topic, partitions=[part])]
    )
    return broker.call(request, 2).topics[0].partitions[0]


@pytest.mark.parametrize(("offset", "start"), [(-1, 6), (3, 3), (0, 0), (6, 6)])
def test_deleted_records_are_out_of_range(
    broker: FakeBroker, offset: int, start: int
) -> None:
    part = delete(broker, offset)
    assert (part.error_code, part.low_watermark) == (0, start)
    assert list_offset(broker, -2).offset == start
    if start > 0:
        [found] = parts_of(broker.call(request_of(start - 1), 12)).values()
        assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_deleted_records_stay_deleted_after_a_restart(broker: FakeBroker) -> None:
    delete(broker, 3)
    broker.restart()
    assert list_offset(broker, -2).offset == 3


def test_a_timestamp_before_the_log_start_returns_the_first_record(
    broker: FakeBroker,
) -> None:
    delete(broker, 1)
    assert list_offset(broker, 0).offset == 1


def test_records_beyond_the_end_cannot_be_deleted(broker: FakeBroker) -> None:
    part = delete(broker, 7)
    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert part.low_watermark == -1
    assert delete(broker, 0, topic="b").error_code == 3


def test_a_compacted_topics_records_cannot_be_deleted() -> None:
    broker = FakeBroker()
    broker.create("a", configs={"cleanup.policy": "compact"})
    assert delete(broker, -1).error_code == ErrorCode.POLICY_VIOLATION


def test_list_offsets_and_delete_records_need_operations_on_the_topic(
    broker: FakeBroker,
) -> None:
    broker.authorizer = allow_only()
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert list_offset(broker, -1).error_code == refused
    assert delete(broker, -1).error_code == refused
    assert epoch_end(broker, 0).error_code == refused


def test_a_full_disk_deletes_nothing(broker: FakeBroker) -> None:
    broker.fail_next_write()
    part = delete(broker, -1)
    assert part.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert part.low_watermark == -1
    assert list_offset(broker, -2).offset == 0


def test_a_read_error_of_the_disk_is_kafka_storage_error(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise LogError("unreadable")

    monkeypatch.setattr(broker.log, "find_timestamp", fail)
    assert list_offset(broker, 5).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def epoch_end(broker: FakeBroker, leader_epoch: int, current: int = -1) -> Any:
    part = m.OffsetForLeaderPartition(
        partition=0, leader_epoch=leader_epoch, current_leader_epoch=current
    )
    request = m.OffsetForLeaderEpochRequest(
        topics=[m.OffsetForLeaderTopic(topic="a", partitions=[part])]
    )
    return broker.call(request, 4).topics[0].partitions[0]


def test_the_current_epoch_ends_at_the_end_of_the_log(broker: FakeBroker) -> None:
    part = epoch_end(broker, 0)
    assert (part.error_code, part.leader_epoch, part.end_offset) == (0, 0, 6)


def test_an_unknown_epoch_has_no_end_offset(broker: FakeBroker) -> None:
    part = epoch_end(broker, 1)
    assert (part.error_code, part.leader_epoch, part.end_offset) == (0, -1, -1)
    assert epoch_end(broker, 0, 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_an_epoch_before_the_first_ends_at_the_log_start(broker: FakeBroker) -> None:
    partition = broker.data.partition("a", 0)
    assert partition is not None
    broker.data.delete_records(partition, 2)
    broker.loop.end_turn()
    part = epoch_end(broker, -2)
    assert (part.error_code, part.leader_epoch, part.end_offset) == (0, -2, 2)


def tidy(broker: FakeBroker) -> None:
    housekeeping = LogCleaner(broker.data, broker.transactions)
    housekeeping.start()
    interval_ms = broker.settings.log_retention_check_interval_ms
    broker.scheduler.advance(interval_ms / 1_000)
    housekeeping.stop()


def test_batches_older_than_retention_are_deleted() -> None:
    broker = FakeBroker()
    broker.create("a", configs={"retention.ms": "1000"})
    now_ms = broker.clock() + broker.settings.log_retention_check_interval_ms
    send(broker, now_ms - 2_000, now_ms - 1_001, now_ms - 1_000, now_ms - 3_000)
    tidy(broker)
    assert list_offset(broker, -2).offset == 4


def test_batches_over_retention_bytes_are_deleted() -> None:
    broker = FakeBroker()
    size = len(batch_of(b"x", b"y", timestamp_ms=1))
    configs = {"retention.bytes": str(2 * size), "retention.ms": "-1"}
    broker.create("a", configs=configs)
    send(broker, 1, 1, 1, 1)
    tidy(broker)
    assert list_offset(broker, -2).offset == 4


@pytest.mark.parametrize(
    ("kept_bytes", "start"), [(-1, 4), (0, 4), (1, 2), (2, 2)], ids=str
)
def test_a_batch_is_kept_when_less_than_retention_bytes_would_be_left(
    kept_bytes: int, start: int
) -> None:
    broker = FakeBroker()
    size = len(batch_of(b"x", b"y", timestamp_ms=1))
    configs = {"retention.bytes": str(2 * size + kept_bytes), "retention.ms": "-1"}
    broker.create("a", configs=configs)
    send(broker, 1, 1, 1, 1)
    tidy(broker)
    assert list_offset(broker, -2).offset == start


def test_retention_does_not_delete_batches_of_a_compacted_topic() -> None:
    broker = FakeBroker()
    configs = {"retention.ms": "1", "cleanup.policy": "compact"}
    broker.create("a", configs=configs)
    send(broker, 1)
    tidy(broker)
    assert list_offset(broker, -2).offset == 0


def test_the_log_cleaner_runs_periodically() -> None:
    broker = FakeBroker(log_retention_check_interval_ms=1_000)
    broker.create("a", configs={"retention.ms": "1000"}, partition_count=120)
    send(broker, broker.clock())
    LogCleaner(broker.data, broker.transactions).start()
    broker.scheduler.advance(1)
    assert list_offset(broker, -2).offset == 0
    broker.scheduler.advance(1.1)
    assert list_offset(broker, -2).offset == 2


def test_a_timestamp_of_a_deleted_record_returns_the_next() -> None:
    broker = FakeBroker()
    broker.create("a")
    records = [LogRecord(0, 900, b"k", b"v"), LogRecord(1, 100, b"k", b"v")]
    broker.call(produce_request(encode_batch(records)), 12)
    send(broker, 100, 700)
    assert delete(broker, 1).error_code == 0
    part = list_offset(broker, 600)
    assert (part.offset, part.timestamp) == (4, 700)
    assert list_offset(broker, 800).offset == -1


def test_deleting_a_topic_after_its_records_succeeds(broker: FakeBroker) -> None:
    partition = broker.data.partition("a", 0)
    assert partition is not None
    broker.data.delete_records(partition, 3)
    broker.data.stage([broker.catalog.delete_topic("a")])
    broker.loop.end_turn()
    assert list_offset(broker, -2).error_code == 3


# Large batches.


def new_broker() -> FakeBroker:
    broker = FakeBroker()
    broker.create("a")
    return broker


def start_list(broker: FakeBroker, timestamp: int) -> Any:
    request = m.ListOffsetsRequest(
        topics=[
            m.ListOffsetsTopic(
                name="a",
                partitions=[
                    m.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
                ],
            )
        ]
    )
    return broker.start_call(request, LATEST)


def produce(broker: FakeBroker, batch: bytes) -> None:
    response = broker.call(produce_request(batch), 12)
    assert response.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_search_by_timestamp_ends_at_the_first_match(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = new_broker()
    now_ms = broker.clock()
    batch = encode_batch(
        [LogRecord(at, now_ms + at, None, b"v") for at in range(1_000)], codec=codec
    )
    produce(broker, batch)
    decoded = 0

    def counted(*arguments: Any) -> Iterator[tuple[int, int]]:
        nonlocal decoded
        for each in record_times(*arguments):
            decoded += 1
            yield each

    monkeypatch.setattr(partition_offsets, "record_times", counted)
    assert list_offset(broker, now_ms + 9).offset == 9
    assert decoded == 10


def test_a_large_batch_is_searched_in_the_worker() -> None:
    broker = new_broker()
    now_ms = broker.clock()
    produce(
        broker,
        encode_batch(
            [
                LogRecord(0, now_ms, None, bytes(LOOP_BATCH_BYTES)),
                LogRecord(1, now_ms + 5, None, b"v"),
            ],
            codec=Codec.LZ4,
        ),
    )
    worker = FakeWorker()
    broker.data.run_in_worker = worker.run
    call = start_list(broker, now_ms + 1)
    assert call.responses == []
    assert list_offset(broker, -1).offset == 2
    worker.work()
    part = call.response.topics[0].partitions[0]
    assert (part.offset, part.timestamp) == (1, now_ms + 5)


@pytest.mark.parametrize("large", [False, True])
def test_a_batch_that_cannot_be_decoded_is_kafka_storage_error(
    large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = new_broker()
    now_ms = broker.clock()
    value = bytes(LOOP_BATCH_BYTES if large else 1)
    batch = encode_batch([LogRecord(0, now_ms, None, value)], codec=Codec.ZSTD)
    produce(broker, batch)
    broken = batch[:61] + bytes(len(batch) - 61)
    monkeypatch.setattr(broker.log, "read", lambda *_: [broken])
    part = list_offset(broker, now_ms)
    assert part.error_code == ErrorCode.KAFKA_STORAGE_ERROR
