"""Compaction: of each key only the last record stays.

It goes over a partition twice. The first time it reads what is new since the last
compaction and learns the last offset of each key; the second time it goes over
everything up to there and takes out records that a later one replaces.

Rules of this file: offsets never move; the records of a batch stay in that batch, whose
first and last offset stay too; nothing at or above `end` is touched, nor anything from
the first transaction on that is not over before `end`. What an aborted transaction
wrote replaces nothing and goes. A tombstone stays until `tombstones_before_ms`, so that
a reader who is behind still learns of the deletion. Markers stay.

Each step of the iterators is one batch, so a caller can let others work in between.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from coterie.log.log import BatchInfo, Log, LogPartition
from coterie.types import LogOffset, ProducerId
from coterie.wire.record_batch import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    LogRecord,
    Producer,
    decode_marker,
    decode_records,
    encode_batch,
    read_header,
)


@dataclass(slots=True)
class Survey:
    """What stays: the last offset of each key, and where aborted data lies."""

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
) -> Generator[None, None, LogOffset]:
    """Compact a partition, staging what changes; a step a batch. Returns the end of
    what is compact now: `end`, or the base offset of a transaction that spans it.

    `start` is what the last compaction of this partition returned, 0 at the first.
    """
    assert 0 <= start <= end <= log.bounds(partition).flushed_offset
    survey = Survey(start, end)
    yield from _survey(log, partition, survey)
    first = log.bounds(partition).log_start_offset
    for info, batch in _up_to(log, partition, first, survey.end):
        kept = _compacted(info, batch, survey, tombstones_before_ms)
        if kept != batch:
            log.replace(partition, info.base_offset, kept)
        yield
    return survey.end


def _up_to(
    log: Log, partition: LogPartition, start: LogOffset, end: LogOffset
) -> Iterator[tuple[BatchInfo, bytes]]:
    """The batches that end before `end`. Looked up one at a time: a caller may flush
    in between, and a batch may then have gone."""
    at = start
    while at < end:
        info = next(log.infos(partition, at), None)
        if info is None or info.last_offset >= end:
            return
        at = info.last_offset + 1
        for batch in log.read(partition, info.base_offset, 1)[:1]:
            # A write under way may just have truncated it: then this is a later one.
            if read_header(batch).base_offset == info.base_offset:
                yield info, batch


def _survey(log: Log, partition: LogPartition, survey: Survey) -> Iterator[None]:
    transactions: dict[ProducerId, _OpenTransaction] = {}
    limit = survey.end
    for info, batch in _up_to(log, partition, survey.start, limit):
        records = decode_records(batch)
        if info.is_control:
            _end_transaction(survey, transactions, info, records)
        elif info.is_transactional:
            opened = transactions.setdefault(info.producer_id, _OpenTransaction())
            opened.batches.append(info.base_offset)
            opened.keys.update(_keys(records))
        else:
            _learn(survey, _keys(records))
        yield
    # What replaces may lie above the new end: it stays, so nothing is lost.
    still_open = (opened.batches[0] for opened in transactions.values())
    survey.end = min(still_open, default=survey.end)
    assert survey.end <= limit


def _end_transaction(
    survey: Survey,
    transactions: dict[ProducerId, _OpenTransaction],
    info: BatchInfo,
    records: list[LogRecord],
) -> None:
    opened = transactions.pop(info.producer_id, None)
    if opened is None:
        return
    assert len(records) == 1
    marker = decode_marker(records[0])
    if marker is not None and marker.commit:
        _learn(survey, opened.keys)
    else:
        survey.aborted.update(opened.batches)


def _keys(records: list[LogRecord]) -> dict[bytes, LogOffset]:
    return {each.key: each.offset for each in records if each.key is not None}


def _learn(survey: Survey, keys: dict[bytes, LogOffset]) -> None:
    """The greater offset wins: a transaction commits after what others wrote."""
    last = survey.last_offsets
    for key, offset in keys.items():
        if offset > last.get(key, -1):
            last[key] = offset


def _compacted(
    info: BatchInfo, batch: bytes, survey: Survey, tombstones_before_ms: int
) -> bytes | None:
    """What stays of a batch; None when nothing does."""
    if info.is_control:
        return batch
    if info.base_offset in survey.aborted:
        return None
    records = decode_records(batch)
    assert info.last_offset < survey.end
    kept = [
        record
        for record in records
        if record.key is None  # cannot be replaced; a client may yet want it
        or (
            record.offset >= survey.last_offsets.get(record.key, 0)
            and (record.value is not None or record.timestamp_ms > tombstones_before_ms)
        )
    ]
    if len(kept) == len(records):
        return batch
    return _rewrite(batch, kept) if kept else None


def _rewrite(batch: bytes, kept: list[LogRecord]) -> bytes:
    """The batch with fewer records; its offsets, producer and codec stay."""
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
