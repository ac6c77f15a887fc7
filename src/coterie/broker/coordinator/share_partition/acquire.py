"""Acquisition of records that a fetch has read (Kafka's SharePartition.acquire).

Records that are known and available are acquired first, batch by batch, then those that
were never read. Records that failed before are delivered in ever smaller parts, and
alone at their last attempt, so that one bad record does not take the others with it to
the delivery limit (KAFKA-19903).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from coterie.broker.coordinator.share_partition.partition import (
    UNREAD,
    Range,
    ShareLimits,
    SharePartition,
)
from coterie.broker.coordinator.share_partition.state import ACQUIRED, ARCHIVED
from coterie.types import LogOffset, MemberId

_FIRST: Final = itemgetter(0)


class OffsetRange(NamedTuple):
    """The offsets of a record batch in the log."""

    first: LogOffset
    last: LogOffset


class Acquired(NamedTuple):
    """A range of acquired offsets and the number of its deliveries, this included."""

    first: LogOffset
    last: LogOffset
    delivery_count: int


class Acquisition(NamedTuple):
    """The parameters of a fetch.

    `is_exact` is the acquire mode record_limit (KIP-1206): without it the last record
    batch is acquired whole. `batch_size` is the number of records from which on new
    records are divided into batches.
    """

    member: MemberId
    records_max: int
    batch_size: int
    is_exact: bool
    now_ms: int


def acquire(
    partition: SharePartition,
    fetch_offset: LogOffset,
    read: Sequence[OffsetRange],
    acquisition: Acquisition,
    limits: ShareLimits,
) -> list[Acquired]:
    """Acquire records of the batches that were read at a fetch offset."""
    if not read:
        return []
    assert fetch_offset >= partition.start_offset
    return _Acquirer(partition, read, acquisition, limits).acquire(fetch_offset)


def archive_aborted(
    partition: SharePartition,
    acquired: Sequence[Acquired],
    aborted: Sequence[OffsetRange],
) -> list[Acquired]:
    """Archive the acquired offsets of aborted transactions; return the others."""
    left: list[Acquired] = []
    for begin, last, count in acquired:
        first = begin
        at = max(bisect_right(aborted, first, key=_FIRST) - 1, 0)
        while at < len(aborted) and aborted[at].first <= last:
            low, high = max(aborted[at].first, first), min(aborted[at].last, last)
            if low <= high:
                partition.change(low, high, _archived)
                if first < low:
                    left.append(Acquired(first, low - 1, count))
                first = high + 1
            at += 1
        if first <= last:
            left.append(Acquired(first, last, count))
    partition.advance()
    return left


def _archived(acquired: Range) -> Range:
    assert acquired.state == ACQUIRED
    return acquired._replace(state=ARCHIVED, member="", deadline_ms=0)


class _Group(NamedTuple):
    """The ranges of a batch that lie in the read offsets, and the whole batch."""

    ranges: list[Range]
    first: LogOffset
    last: LogOffset


class _Acquirer:
    def __init__(
        self,
        partition: SharePartition,
        read: Sequence[OffsetRange],
        acquisition: Acquisition,
        limits: ShareLimits,
    ) -> None:
        self._partition = partition
        self._read = read
        self._acquisition = acquisition
        self._limit = limits.delivery_count_limit
        self._throttled_from = max(2, (self._limit + 1) // 2)
        self._locks_max = limits.record_locks_max
        self._lock = Range(
            0,
            0,
            0,
            ACQUIRED,
            member=acquisition.member,
            deadline_ms=acquisition.now_ms + limits.record_lock_duration_ms,
        )
        self._acquired: list[Acquired] = []
        self._count = 0
        """The number of offsets acquired so far."""
        self._count_max = 0

    def acquire(self, fetch_offset: LogOffset) -> list[Acquired]:
        partition = self._partition
        first, last = self._read[0].first, self._read[-1].last
        records_max = self._acquisition.records_max
        free = self._locks_max - partition.in_flight_count
        self._count_max = min(records_max, free)
        if self._count_max <= 0:
            # Only known records are acquired at the limit of record locks.
            known = partition.end_offset - fetch_offset + 1
            self._count_max = min(records_max, known)
            last = min(last, partition.end_offset)
        if self._count_max <= 0:
            return []
        if first > fetch_offset:
            partition.archive_available(fetch_offset, first - 1)
        first = max(first, partition.start_offset)
        if first > last:
            return []
        for group in self._groups(first, last):
            if self._count >= self._count_max:
                break
            self._acquire_group(group)
        new = max(first, partition.end_offset + 1)
        if self._count < self._count_max and new <= last:
            self._acquire_new(new, last, is_unread=False)
        return self._acquired

    def _groups(self, first: LogOffset, last: LogOffset) -> list[_Group]:
        ranges = self._partition.ranges
        low, high = self._partition.overlapping(first, last)
        groups: list[_Group] = []
        for index in range(low, high):
            each = ranges[index]
            inside = each._replace(
                first=max(each.first, first), last=min(each.last, last)
            )
            if index > low and each.batch == ranges[index - 1].batch != UNREAD:
                groups[-1].ranges.append(inside)
                groups[-1] = groups[-1]._replace(last=each.last)
            else:
                batch = each.first if each.batch == UNREAD else each.batch
                groups.append(_Group([inside], batch, each.last))
        if groups:
            while high < len(ranges) and ranges[high].batch == ranges[high - 1].batch:
                groups[-1] = groups[-1]._replace(last=ranges[high].last)
                high += 1
        return groups

    def _acquire_group(self, group: _Group) -> None:
        available = [each for each in group.ranges if each.is_available]
        if not available:
            return
        if available[0].batch == UNREAD:
            self._acquire_new(available[0].first, available[0].last, is_unread=True)
            return
        is_throttled = any(
            each.delivery_count >= self._throttled_from for each in available
        )
        if is_throttled and self._count:
            self._count_max = 0
            return
        self._acquire_known(available, group.last - group.first + 1)
        if is_throttled:
            self._count_max = 0

    def _acquire_known(self, available: Sequence[Range], batch_size: int) -> None:
        """Acquire available ranges of one batch (SharePartition's
        acquireSubsetBatchRecords)."""
        is_exact, left = self._acquisition.is_exact, self._count_max - self._count
        taken, throttled_max = 0, 0
        acquired: list[Acquired] = []
        for each in available:
            is_last_attempt = self._limit > 2 and each.delivery_count == self._limit - 1
            if is_last_attempt and taken:
                break
            size = each.last - each.first + 1
            if each.delivery_count >= self._throttled_from and not throttled_max:
                shift = each.delivery_count - self._throttled_from + 1
                throttled_max = max(1, batch_size >> shift)
            if is_exact:
                size = min(size, left - taken)
            if throttled_max > taken:
                size = min(size, throttled_max - taken)
            if is_last_attempt:
                size = 1
            self._lock_range(each, each.first + size - 1, acquired)
            taken += size
            if (
                is_last_attempt
                or taken == throttled_max
                or (is_exact and taken == left)
            ):
                break
        assert taken > 0
        self._acquired += acquired
        self._count += taken

    def _lock_range(
        self, available: Range, last: LogOffset, acquired: list[Acquired]
    ) -> None:
        first, count = available.first, available.delivery_count + 1
        assert available.is_available
        assert first <= last <= available.last
        lock = self._lock._replace(
            first=first, last=last, batch=available.batch, delivery_count=count
        )
        self._partition.change(first, last, lambda _: lock)
        before = acquired[-1] if acquired else None
        if before is not None and before[1:] == (first - 1, count):
            acquired[-1] = before._replace(last=last)
        else:
            acquired.append(Acquired(first, last, count))

    def _acquire_new(
        self, first: LogOffset, last: LogOffset, *, is_unread: bool
    ) -> None:
        """Acquire offsets that were never read, or not since the share partition was
        loaded (SharePartition's acquireNewBatchRecords)."""
        left = self._count_max - self._count
        assert left > 0
        if left < last - first + 1:
            last = min(last, max(self._batch_end(first + left - 1), first + left - 1))
        partition = self._partition
        if not partition.ranges:
            partition.start_offset = first
        acquired_last = last
        if self._acquisition.is_exact:
            acquired_last = min(last, first + left - 1)
            cuts = [OffsetRange(first, acquired_last)]
        else:
            cuts = self._cut(first, last)
        for cut in cuts:
            self._put_new(cut, cut.first, is_unread=is_unread)
            self._acquired.append(Acquired(*cut, 1))
        if acquired_last < last and not is_unread:
            partition.append(Range(acquired_last + 1, last, first))
        self._count += acquired_last - first + 1

    def _put_new(self, cut: OffsetRange, batch: LogOffset, *, is_unread: bool) -> None:
        first, last = cut
        new = self._lock._replace(first=first, last=last, batch=batch, delivery_count=1)
        if is_unread:
            self._partition.change(first, last, lambda _: new)
        else:
            self._partition.append(new)

    def _batch_end(self, offset: LogOffset) -> LogOffset:
        """Return the last offset of the record batch that contains an offset."""
        at = bisect_right(self._read, offset, key=_FIRST) - 1
        return self._read[max(at, 0)].last

    def _cut(self, first: LogOffset, last: LogOffset) -> list[OffsetRange]:
        """Divide new offsets at the record batches after each `batch_size` records."""
        size = self._acquisition.batch_size
        assert first <= last
        cuts: list[OffsetRange] = []
        if last - first + 1 > size:
            for batch in self._read:
                if batch.first > last:
                    break
                if batch.first - first >= size and batch.first > first:
                    cuts.append(OffsetRange(first, batch.first - 1))
                    first = batch.first
        cuts.append(OffsetRange(first, last))
        return cuts
