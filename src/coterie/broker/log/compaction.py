"""Compaction: only the last record of each key is retained.

A compaction reads a partition twice. The first pass reads the batches since the last
compaction and collects the last offset of each key; the second reads all batches up to
the same end and removes the records that have a later record with the same key.

Rules of this file: offsets never change; a record stays in its batch, whose first and
last offsets stay too. Nothing at or above `end` is changed, nor anything from the start
of the first transaction that is still open at `end`. Records of aborted transactions
supersede nothing and are removed. A tombstone is retained until it is older than
`tombstones_before_ms`, so that a consumer that lags behind still reads the deletion.
Transaction markers are retained.

Each step of the generators is one batch, so that the caller can do other work between
two of them. A step yields None, or a function that decodes a batch which may be large:
the caller calls it, in any thread, and sends its result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from coterie.broker.log.log import Log, LogPartition
from coterie.types import LogOffset, ProducerId
from coterie.wire.compression import Codec
from coterie.wire.record_batch import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    LogRecord,
    Producer,
    decode_marker,
    decode_records,
    encode_batch,
    iterate_records,
    read_header,
)

T = TypeVar("T")
Steps: TypeAlias = Generator[Callable[[], Any] | None, Any, T]
RECORDS_PER_STEP: Final = 1_000
"""Records of an uncompressed batch that are decoded without asking the caller."""


@dataclass(slots=True)
class Survey:
    """The result of the first pass: last offsets by key, and aborted batches."""

    start: LogOffset
    end: LogOffset
    last_offsets: dict[bytes, LogOffset] = field(default_factory=dict)
    aborted: set[LogOffset] = field(default_factory=set)
    """Base offsets of the batches of aborted transactions."""


@dataclass(slots=True)
class _OpenTransaction:
    batches: list[LogOffset] = field(default_factory=list)
    keys: dict[bytes, LogOffset] = field(default_factory=dict)


def compact(
    log: Log,
    partition: LogPartition,
    *,
    start: LogOffset,
    end: LogOffset,
    tombstones_before_ms: int,
) -> Steps[LogOffset]:
    """Compact a partition, one batch a step; stage the batches that change.

    Returns the end of the compacted part: `end`, or the first offset of the earliest
    transaction that is open there. `start` is the result of the partition's previous
    compaction, 0 for the first.
    """
    assert 0 <= start <= end <= log.bounds(partition).flushed_offset
    survey = Survey(start, end)
    yield from _survey(log, partition, survey)
    first = log.bounds(partition).log_start_offset
    for header, batch in _up_to(log, partition, first, survey.end):
        kept = yield from _decode(
            batch, partial(_compacted, header, batch, survey, tombstones_before_ms)
        )
        if kept != batch:
            log.replace(partition, header.base_offset, kept)
        yield None
    return survey.end


def _up_to(
    log: Log, partition: LogPartition, start: LogOffset, end: LogOffset
) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield the batches that end before `end`.

    Each one is looked up separately: the caller may flush between two steps, which may
    remove batches.
    """
    at = start
    while at < end:
        header = next(log.headers(partition, at), None)
        if header is None or header.last_offset >= end:
            return
        at = header.last_offset + 1
        for batch in log.read(partition, header.base_offset, 1)[:1]:
            # If a concurrent write has removed the batch, `read` returns a later one.
            if read_header(batch).base_offset == header.base_offset:
                yield header, batch


def _decode(batch: bytes, work: Callable[[], T]) -> Steps[T]:
    """Return the result of work that decodes a batch; yield it if that may be long."""
    header = read_header(batch)
    if header.record_count <= RECORDS_PER_STEP and header.codec is Codec.NONE:
        return work()
    result: T = yield work
    return result


def _survey(log: Log, partition: LogPartition, survey: Survey) -> Steps[None]:
    transactions: dict[ProducerId, _OpenTransaction] = {}
    limit = survey.end
    for header, batch in _up_to(log, partition, survey.start, limit):
        if header.is_control:
            _end_transaction(survey, transactions, header, decode_records(batch))
            yield None
            continue
        keys = yield from _decode(batch, partial(_keys, batch))
        if header.is_transactional:
            opened = transactions.setdefault(header.producer_id, _OpenTransaction())
            opened.batches.append(header.base_offset)
            opened.keys.update(keys)
        else:
            _keep_last(survey, keys)
        yield None
    # A superseding record may lie above the new end. It is retained there, so the
    # latest value of its key is not lost.
    still_open = (opened.batches[0] for opened in transactions.values())
    survey.end = min(still_open, default=survey.end)
    assert survey.end <= limit


def _end_transaction(
    survey: Survey,
    transactions: dict[ProducerId, _OpenTransaction],
    header: BatchHeader,
    records: list[LogRecord],
) -> None:
    opened = transactions.pop(header.producer_id, None)
    if opened is None:
        return
    assert len(records) == 1
    marker = decode_marker(records[0])
    if marker is not None and marker.commit:
        _keep_last(survey, opened.keys)
    else:
        survey.aborted.update(opened.batches)


def _keys(batch: bytes) -> dict[bytes, LogOffset]:
    records = iterate_records(batch)
    return {each.key: each.offset for each in records if each.key is not None}


def _keep_last(survey: Survey, keys: dict[bytes, LogOffset]) -> None:
    last = survey.last_offsets
    # A transaction's records may have lower offsets than records of other producers
    # that were read before its marker.
    for key, offset in keys.items():
        if offset > last.get(key, -1):
            last[key] = offset


def _compacted(
    header: BatchHeader, batch: bytes, survey: Survey, tombstones_before_ms: int
) -> bytes | None:
    """Return the batch without superseded records; None when no record is left."""
    if header.is_control:
        return batch
    if header.base_offset in survey.aborted:
        return None
    records = decode_records(batch)
    assert header.last_offset < survey.end
    kept = [
        record
        for record in records
        if record.key is None  # cannot be superseded
        or (
            record.offset >= survey.last_offsets.get(record.key, 0)
            and (record.value is not None or record.timestamp_ms > tombstones_before_ms)
        )
    ]
    if len(kept) == len(records):
        return batch
    return _rewrite(batch, kept) if kept else None


def _rewrite(batch: bytes, kept: list[LogRecord]) -> bytes:
    """Encode the batch with the remaining records; its offsets, producer and codec do
    not change."""
    header = read_header(batch)
    assert len(kept) < header.record_count
    assert header.base_offset <= kept[0].offset
    assert kept[-1].offset <= header.last_offset
    return encode_batch(
        kept,
        producer=Producer(
            header.producer_id, header.producer_epoch, header.base_sequence
        ),
        attributes=header.attributes & (TRANSACTIONAL | CONTROL | LOG_APPEND_TIME),
        codec=header.codec,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
    )
