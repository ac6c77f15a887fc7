"""Kafka's log cleaner on the batches of one partition, by the rules of `Cleaner`,
`CleanedTransactionMetadata` and `LogCleanerManager`.

A run makes a map of the newest offset of each key, without aborted records, and then
copies the segments before `until`, which is at most the last stable offset. It drops

- records with a newer one of their key in the map, and all of aborted transactions;
- tombstones, and markers of transactions without batches, when a run before has
  stamped their batch with a delete horizon that has passed;
- batches that have become empty, except the last one of each active producer and the
  last one of the run.

Batches keep their first and last offset. The map may be full before `until`, and a
cleaner that stops has replaced only the first segments.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from crc32c import crc32c

from coterie.types import LogOffset, ProducerId
from coterie.wire.record_batch import (
    CHECKED_FROM,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    TRANSACTIONAL,
    BatchHeader,
    LogRecord,
    _append_record,
    decode_marker,
    decode_records,
    read_header,
)

DELETE_HORIZON: Final = 0x40
"""The attribute of a batch whose base timestamp is its delete horizon (KIP-534)."""
_NEVER_MS: Final = 2**62


class Stored(NamedTuple):
    """A batch in the log, with its header."""

    header: BatchHeader
    batch: bytes


class LastRecord(NamedTuple):
    """What the log knows of an active producer: Kafka's `LastRecord`."""

    data_offset: LogOffset | None
    """The last offset of its newest batch; None after a marker with a new epoch."""
    epoch: int


class CleanerRun(NamedTuple):
    """A run of the cleaner."""

    until: LogOffset
    """The end of the segments that are cleaned: the start of a batch, or the end of the
    log; at most the last stable offset."""
    mapped_until: LogOffset = _NEVER_MS
    """The offset at which the map is full."""
    stopped_at: LogOffset = _NEVER_MS
    """The first segment that is not replaced, because the cleaner stops."""
    horizon_ms: int = _NEVER_MS - 1
    """The delete horizon for batches that get one: the time of the run, and
    `delete.retention.ms`."""
    passed_ms: int = -1
    """The time up to which delete horizons have passed."""


def clean(
    stored: Sequence[Stored],
    run: CleanerRun,
    last_records: Mapping[ProducerId, LastRecord],
) -> list[Stored]:
    """Return the log after a run. `stored` is all of it: a marker may follow what is
    cleaned."""
    aborted = aborted_batches(stored)
    return _Copy(run, last_records, aborted, _mapped(stored, run, aborted)).all(stored)


def clean_at_random(
    stored: Sequence[Stored],
    stable_end: LogOffset,
    last_records: Mapping[ProducerId, LastRecord],
    rng: Random,
) -> list[Stored]:
    """Return the log after some random runs, as upstream may have it at any time."""
    left = list(stored)
    for number in range(rng.randint(1, 4)):
        ends = [each.header.base_offset for each in left] + [stable_end]
        ends = [end for end in ends if end <= stable_end]
        until = rng.choice((rng.choice(ends), stable_end))
        run = CleanerRun(
            until,
            rng.choice((rng.choice(ends), _NEVER_MS)),
            rng.choice((rng.choice(ends), _NEVER_MS, _NEVER_MS)),
            horizon_ms=number,
            passed_ms=rng.choice((-1, _NEVER_MS)),
        )
        left = clean(left, run, last_records)
    return left


def aborted_batches(stored: Sequence[Stored]) -> set[LogOffset]:
    """Return the base offsets of the batches of aborted transactions."""
    aborted: set[LogOffset] = set()
    pending: dict[ProducerId, list[LogOffset]] = {}
    for header, batch in stored:
        if header.is_control:
            ended = pending.pop(header.producer_id, [])
            if _commits(header, batch) is False:
                aborted.update(ended)
        elif header.is_transactional:
            pending.setdefault(header.producer_id, []).append(header.base_offset)
    return aborted


def _commits(header: BatchHeader, batch: bytes) -> bool | None:
    """Return whether a marker is a COMMIT; None for one whose record is gone."""
    for record in decode_records(batch, header):
        marker = decode_marker(record)
        assert marker is not None
        return marker.commit
    return None


def _mapped(
    stored: Sequence[Stored], run: CleanerRun, aborted: set[LogOffset]
) -> dict[bytes | None, LogOffset]:
    """Return the newest offset of each key."""
    newest: dict[bytes | None, LogOffset] = {}
    for header, batch in stored:
        if header.last_offset >= min(run.until, run.mapped_until):
            return newest
        if not (header.is_control or header.base_offset in aborted):
            for record in decode_records(batch, header):
                newest[record.key] = record.offset
    return newest


class _Copy:
    """The second part of a run: copy what stays."""

    def __init__(
        self,
        run: CleanerRun,
        last_records: Mapping[ProducerId, LastRecord],
        aborted: set[LogOffset],
        newest: Mapping[bytes | None, LogOffset],
    ) -> None:
        self._run = run
        self._last_records = last_records
        self._aborted = aborted
        self._newest = newest
        self._traversed: set[ProducerId] = set()
        """The producers with a batch of a transaction whose marker is to come."""

    def all(self, stored: Sequence[Stored]) -> list[Stored]:
        """Return the log after the run."""
        left: list[Stored] = []
        for each in stored:
            is_replaced = each.header.base_offset < self._run.stopped_at
            if each.header.last_offset >= self._run.until or not is_replaced:
                left.append(each)
            elif (copy := self._copy(*each)) is not None:
                left.append(copy)
        return left

    def _copy(self, header: BatchHeader, batch: bytes) -> Stored | None:
        can_be_discarded = self._can_be_discarded(header, batch)
        horizon_ms = _horizon_ms(header)
        has_passed = horizon_ms is not None and horizon_ms <= self._run.passed_ms
        records: list[LogRecord] = []
        if header.is_control:
            if not (can_be_discarded and has_passed):
                records = list(decode_records(batch, header))
        elif not can_be_discarded:
            records = [
                each
                for each in decode_records(batch, header)
                if self._stays(each, is_tombstone_kept=not has_passed)
            ]
        if not records:
            return _empty(header) if self._stays_empty(header) else None
        gets_horizon = horizon_ms is None and (
            can_be_discarded or any(each.value is None for each in records)
        )
        if gets_horizon:
            horizon_ms = self._run.horizon_ms
        elif len(records) == header.record_count:
            return Stored(header, batch)
        return _rewritten(header, records, horizon_ms)

    def _can_be_discarded(self, header: BatchHeader, batch: bytes) -> bool:
        """Return whether a batch is of an aborted transaction, or a marker of one
        without batches."""
        if not header.is_transactional:
            return False
        if not header.is_control:
            self._traversed.add(header.producer_id)
            return header.base_offset in self._aborted
        if _commits(header, batch) is None:
            return True
        is_of_batches = header.producer_id in self._traversed
        self._traversed.discard(header.producer_id)
        return not is_of_batches

    def _stays(self, record: LogRecord, *, is_tombstone_kept: bool) -> bool:
        if record.offset >= min(self._run.until, self._run.mapped_until):
            return True
        is_newest = record.offset >= self._newest.get(record.key, -1)
        return is_newest and (record.value is not None or is_tombstone_kept)

    def _stays_empty(self, header: BatchHeader) -> bool:
        if header.last_offset + 1 == self._run.until:
            return True
        last = self._last_records.get(header.producer_id)
        if last is None:
            return False
        if last.data_offset is None:
            return header.is_control and header.producer_epoch == last.epoch
        return header.last_offset == last.data_offset


def _horizon_ms(header: BatchHeader) -> int | None:
    has_horizon = header.attributes & DELETE_HORIZON
    return header.base_timestamp_ms if has_horizon else None


def _rewritten(
    header: BatchHeader, records: Sequence[LogRecord], horizon_ms: int | None
) -> Stored:
    """Return a batch with some of its records."""
    base_ms = header.base_timestamp_ms if horizon_ms is None else horizon_ms
    parts: list[bytes] = []
    for record in records:
        _append_record(parts, record, header.base_offset, base_ms)
    flag = 0 if horizon_ms is None else DELETE_HORIZON
    return _encoded(
        header._replace(
            attributes=header.attributes & (TRANSACTIONAL | CONTROL) | flag,
            base_timestamp_ms=base_ms,
            max_timestamp_ms=max(each.timestamp_ms for each in records),
            record_count=len(records),
        ),
        b"".join(parts),
    )


def _empty(header: BatchHeader) -> Stored:
    """Return a batch without records, which keeps the sequences of its producer."""
    attributes = header.attributes & (TRANSACTIONAL | CONTROL)
    return _encoded(
        header._replace(attributes=attributes, base_timestamp_ms=-1, record_count=0),
        b"",
    )


def _encoded(header: BatchHeader, records: bytes) -> Stored:
    size_bytes = HEADER_BYTES - LENGTH_END + len(records)
    data = HEADER.pack(*header._replace(size_bytes=size_bytes)) + records
    crc = struct.pack(">I", crc32c(data[CHECKED_FROM:]))
    batch = data[: CHECKED_FROM - 4] + crc + data[CHECKED_FROM:]
    return Stored(read_header(batch), batch)
