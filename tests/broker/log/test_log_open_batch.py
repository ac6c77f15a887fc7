"""Records that are added to a staged batch until the write is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coterie.broker.log.log import Log, OpenBatch
from coterie.wire.record_batch import (
    HEADER_BYTES,
    LogRecord,
    decode_records,
    encode_batch,
    read_header,
)
from tests.broker.log.logs import OTHER, PARTITION, Store, journal_store, memory_store

NOW_MS, LATER_MS = 1_000, 1_001
NO_LIMIT = 1 << 30


@pytest.fixture(params=[memory_store, journal_store], ids=["memory", "journal"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    make: Callable[[Path], Store] = request.param
    made = make(tmp_path).log
    made.create(PARTITION)
    made.create(OTHER)
    made.flush()
    yield made
    made.close()


def add(log: Log, *values: bytes, at_ms: int = NOW_MS) -> None:
    """Add records to the open batch, as the runtime does."""
    batch = log.open_batch(PARTITION, NO_LIMIT)
    first = 0 if batch is None else batch.record_count
    records = [
        LogRecord(at, 0, b"key", value) for at, value in enumerate(values, first)
    ]
    # The offset deltas of these records begin at `first`.
    encoded = encode_batch(records, base_offset=0)[HEADER_BYTES:]
    log.append_records(PARTITION, encoded, len(values), at_ms)


def append(log: Log, value: bytes) -> None:
    """Append a whole batch."""
    offset = log.next_offset(PARTITION)
    batch = encode_batch([LogRecord(offset, LATER_MS, b"key", value)])
    log.append(PARTITION, batch)


def batches(log: Log) -> list[list[tuple[int, int, bytes | None]]]:
    """Return offset, timestamp and value of the records of each flushed batch."""
    return [
        [(each.offset, each.timestamp_ms, each.value) for each in decode_records(batch)]
        for batch in log.read(PARTITION, 0, NO_LIMIT)
    ]


def open_batch(log: Log, bytes_max: int = NO_LIMIT) -> OpenBatch:
    found = log.open_batch(PARTITION, bytes_max)
    assert found is not None
    return found


def test_records_of_one_write_are_one_batch(log: Log) -> None:
    add(log, b"a", b"b")
    add(log, b"c", at_ms=LATER_MS)
    assert log.next_offset(PARTITION) == 3
    assert log.bounds(PARTITION).flushed_offset == 0
    assert log.has_staged()
    log.flush()
    assert not log.has_staged()
    expected = [(0, NOW_MS, b"a"), (1, NOW_MS, b"b"), (2, NOW_MS, b"c")]
    assert batches(log) == [expected]
    [header] = log.headers(PARTITION)
    [batch] = log.read(PARTITION, 0, NO_LIMIT)
    assert header == read_header(batch)
    assert (header.last_offset, header.max_timestamp_ms) == (2, NOW_MS)


def test_the_next_write_begins_another_batch(log: Log) -> None:
    add(log, b"a")
    log.flush()
    assert log.open_batch(PARTITION, NO_LIMIT) is None
    add(log, b"b", at_ms=LATER_MS)
    log.flush()
    assert batches(log) == [[(0, NOW_MS, b"a")], [(1, LATER_MS, b"b")]]


def test_an_appended_batch_closes_the_open_one(log: Log) -> None:
    add(log, b"a")
    append(log, b"b")
    assert log.open_batch(PARTITION, NO_LIMIT) is None
    add(log, b"c")
    log.flush()
    found = [[value for _, _, value in batch] for batch in batches(log)]
    assert found == [[b"a"], [b"b"], [b"c"]]
    assert log.bounds(PARTITION).flushed_offset == 3


def test_a_batch_of_the_size_limit_is_closed(log: Log) -> None:
    add(log, b"a")
    size = open_batch(log).size_bytes
    assert open_batch(log, size + 1).record_count == 1
    assert log.open_batch(PARTITION, size) is None
    add(log, b"b")
    log.flush()
    assert [len(batch) for batch in log.read(PARTITION, 0, NO_LIMIT)] == [size, size]


def test_the_size_of_a_write_includes_open_batches(log: Log) -> None:
    add(log, b"a")
    size = open_batch(log).size_bytes
    staged = log.take()
    assert staged.size_bytes == size
    staged.write()
    log.settle(staged)
    assert log.size_bytes(PARTITION) == size


def test_open_batches_are_abandoned_with_a_failed_write(log: Log) -> None:
    staged = log.take()
    add(log, b"a")
    log.abandon(staged)
    assert not log.has_staged()
    assert log.next_offset(PARTITION) == 0
    add(log, b"b")
    log.flush()
    assert batches(log) == [[(0, NOW_MS, b"b")]]


def test_a_partition_is_deleted_with_its_open_batch(log: Log) -> None:
    add(log, b"a")
    log.delete(PARTITION)
    log.flush()
    assert log.partitions() == [OTHER]
    assert not log.has_staged()
