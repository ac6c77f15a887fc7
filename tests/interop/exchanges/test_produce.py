"""Produce: edge answers about batches, as Kafka gives them."""

from __future__ import annotations

import struct
from typing import Any, Final

import pytest
from crc32c import crc32c

from coterie.wire import messages as m
from coterie.wire.record_batch import LogRecord, Producer, encode_batch
from tests.broker.server.harness import WireClient

from .test_fetch import create

BY_NAME: Final = 12
TIMESTAMP_MS: Final = 1_700_000_000_000
RECORD: Final = LogRecord(0, TIMESTAMP_MS, b"k", b"v")
BATCH: Final = encode_batch([RECORD])
UNKNOWN, CORRUPT = -1, 2
OUT_OF_ORDER, INVALID_EPOCH, INVALID_RECORD = 45, 47, 87


def produce(wire: WireClient, topic: str, batch: bytes) -> Any:
    part = m.PartitionProduceData(index=0, records=batch)
    topics = [m.TopicProduceData(name=topic, partition_data=[part])]
    request = m.ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics)
    (found,) = wire.call(request, BY_NAME).responses
    (response,) = found.partition_responses
    return response


def of_producer(epoch: int, sequence: int) -> bytes:
    return encode_batch([RECORD], producer=Producer(4_711, epoch, sequence))


def replaced(batch: bytes, at: int, data: bytes) -> bytes:
    """Return the batch with other bytes at a position."""
    return batch[:at] + data + batch[at + len(data) :]


def with_count(count: int) -> bytes:
    return with_checksum(replaced(BATCH, 57, struct.pack(">i", count)))


def with_codec(codec: int) -> bytes:
    return with_checksum(replaced(BATCH, 21, struct.pack(">h", codec)))


def with_checksum(batch: bytes) -> bytes:
    return replaced(batch, 17, struct.pack(">I", crc32c(batch[21:])))


@pytest.mark.parametrize(
    ("batch", "code", "log_start"),
    [
        (b"", INVALID_RECORD, -1),
        (BATCH[:16], INVALID_RECORD, -1),
        (BATCH[:30], INVALID_RECORD, -1),
        (BATCH[:-1], INVALID_RECORD, -1),
        (BATCH + BATCH, INVALID_RECORD, -1),
        (BATCH + bytes(12), CORRUPT, -1),
        (replaced(BATCH, 8, struct.pack(">i", 13)), CORRUPT, -1),
        (replaced(BATCH, 16, b"\1"), INVALID_RECORD, -1),
        (replaced(BATCH, 16, b"\3"), CORRUPT, -1),
        (replaced(BATCH, 17, b"oops"), CORRUPT, -1),
        (replaced(BATCH, 0, struct.pack(">q", 5)), INVALID_RECORD, 0),
        (with_count(2), INVALID_RECORD, 0),
        (of_producer(0, -1), INVALID_RECORD, 0),
        (of_producer(-2, 0), INVALID_EPOCH, 0),
        (replaced(BATCH, 8, struct.pack(">i", 2**31 - 1)), UNKNOWN, -1),
        *((with_codec(each), UNKNOWN, 0) for each in (1, 2, 3, 4, 7)),
    ],
)
def test_a_refused_batch(
    wire: WireClient, name: str, batch: bytes, code: int, log_start: int
) -> None:
    create(wire, name)
    response = produce(wire, name, batch)
    assert (response.error_code, response.log_start_offset) == (code, log_start)
    assert response.base_offset == -1


@pytest.mark.parametrize("rest", [b"", b"\0", bytes(11), BATCH[:-1]])
def test_what_is_no_whole_batch_is_ignored_after_one(
    wire: WireClient, name: str, rest: bytes
) -> None:
    create(wire, name)
    response = produce(wire, name, BATCH + rest)
    assert (response.error_code, response.base_offset) == (0, 0)
    assert produce(wire, name, BATCH).base_offset == 1


def test_a_producer_without_an_epoch_has_no_sequence(
    wire: WireClient, name: str
) -> None:
    create(wire, name)
    found = []
    for epoch, sequence in [(-1, 0), (-1, 7), (-1, 0), (0, 4), (0, 9), (-1, 0)]:
        response = produce(wire, name, of_producer(epoch, sequence))
        found.append((response.error_code, response.base_offset))
    assert found == [
        (0, 0),
        (0, 1),
        (0, 0),
        (0, 2),
        (OUT_OF_ORDER, -1),
        (INVALID_EPOCH, -1),
    ]


def test_a_duplicate_has_the_time_of_the_first_batch(
    wire: WireClient, name: str
) -> None:
    create(wire, name)
    times = [
        produce(wire, name, of_producer(0, 0)).log_append_time_ms for _ in range(2)
    ]
    assert times == [-1, TIMESTAMP_MS]
