"""Produce: edge answers about batches, as Kafka gives them."""

from __future__ import annotations

import pytest

from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    CONTROL,
    LOG_APPEND_TIME,
    Producer,
    crc_matches,
    read_header,
)
from tests.broker.server.apis.fake_broker import FakeBroker, batch_of

from .test_produce import corrupted, kept, send, with_count


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.create("a")
    return made


@pytest.mark.parametrize("rest", [b"\0", bytes(11), batch_of(b"y")[:-1]])
def test_what_is_no_whole_batch_is_ignored_after_one(
    broker: FakeBroker, rest: bytes
) -> None:
    batch = batch_of(b"x")
    assert send(broker, batch + rest).error_code == 0
    assert kept(broker) == [batch]


def test_a_refused_batch_has_the_log_start_offset_after_the_log_was_read(
    broker: FakeBroker,
) -> None:
    send(broker, batch_of(b"x"))
    partition = broker.data.partition("a", 0)
    assert partition is not None
    broker.data.delete_records(partition, 1)
    batch = batch_of(b"x", producer=Producer(5, 0, 0))
    for refused, log_start in [
        (batch[:-1], -1),
        (corrupted(batch), -1),
        (with_count(batch, 2), 1),
        (batch_of(b"x", attributes=CONTROL), 1),
    ]:
        assert send(broker, refused).log_start_offset == log_start
    assert send(broker, batch).error_code == 0
    out_of_order = batch_of(b"x", producer=Producer(5, 0, 9))
    part = send(broker, out_of_order)
    assert (part.error_code, part.log_start_offset) == (45, 1)


def test_a_producer_without_an_epoch_has_no_sequence(broker: FakeBroker) -> None:
    for sequence, base_offset in [(0, 0), (7, 1), (0, 0), (3, 2)]:
        part = send(broker, batch_of(b"x", producer=Producer(5, -1, sequence)))
        assert (part.error_code, part.base_offset) == (0, base_offset)
    assert send(broker, batch_of(b"x", producer=Producer(5, 0, 4))).error_code == 0
    code = send(broker, batch_of(b"x", producer=Producer(5, -1, 0))).error_code
    assert code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_duplicate_has_the_time_of_the_first_batch(broker: FakeBroker) -> None:
    batch = batch_of(b"x", producer=Producer(5, 0, 0))
    newest_ms = read_header(batch).max_timestamp_ms
    times = [send(broker, batch).log_append_time_ms for _ in range(2)]
    assert times == [-1, newest_ms]


def test_the_attribute_of_append_times_belongs_to_the_broker() -> None:
    broker = FakeBroker()
    broker.create("a", configs={"message.timestamp.type": "LogAppendTime"})
    part = send(broker, batch_of(b"x", b"y", attributes=LOG_APPEND_TIME))
    assert part.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in part.record_errors] == [0, 1]
    broker = FakeBroker()
    broker.create("a")
    timed = batch_of(b"x", attributes=LOG_APPEND_TIME, timestamp_ms=broker.clock())
    assert send(broker, timed).error_code == 0
    [batch] = kept(broker)
    assert not read_header(batch).is_log_append_time
    assert crc_matches(batch)
