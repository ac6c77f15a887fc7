"""Acknowledgement of acquired records: accept, release, reject, renew, and gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from coterie.broker.coordinator.share_partition.partition import (
    UNREAD,
    Range,
    ShareLimits,
    SharePartition,
    append_joined,
    released_range,
)
from coterie.broker.coordinator.share_partition.state import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    StateUpdate,
)
from coterie.errors import ApiError
from coterie.types import LogOffset, MemberId
from coterie.wire.error_codes import ErrorCode

GAP: Final = 0
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4


class Acknowledgement(NamedTuple):
    """A range of offsets with one type for all, or a type for each."""

    first_offset: LogOffset
    last_offset: LogOffset
    types: Sequence[int]


def acknowledge(
    partition: SharePartition,
    member: MemberId,
    acknowledgements: Sequence[Acknowledgement],
    limits: ShareLimits,
    now_ms: int,
) -> StateUpdate | None:
    """Apply all acknowledgements of a request, or none.

    Return the update to store, whose write is `partition.last_write`; None when nothing
    is stored, as for a renewal.

    Raises ApiError INVALID_RECORD_STATE for records that the member has not acquired,
    and INVALID_REQUEST for offsets behind the last one that was acquired.
    """
    runs: list[_Run] = []
    for each in acknowledgements:
        _check_bounds(partition, each)
        runs += _runs(each, partition.start_offset)
    if not runs:
        return None
    write = partition.last_write + 1
    change = _Change(member, write, limits, now_ms)
    ranges = _changed_ranges(partition, runs, change)
    partition.replace_ranges(ranges)
    if not change.stored:
        return None
    partition.last_write = write
    return partition.update(change.stored)


class _Run(NamedTuple):
    """Neighbours with the same type."""

    first: LogOffset
    last: LogOffset
    kind: int


class _Change:
    """The change of acquired ranges by a request; `stored` are those to store."""

    def __init__(
        self, member: MemberId, write: int, limits: ShareLimits, now_ms: int
    ) -> None:
        self._member = member
        self._write = write
        self._limits = limits
        self._renewed_ms = now_ms + limits.record_lock_duration_ms
        self.stored: list[Range] = []

    def of(self, each: Range, kind: int) -> Range:
        """Return a range after its acknowledgement. Raises ApiError."""
        if each.state != ACQUIRED or each.member != self._member:
            raise _invalid_state("The records are not acquired by the member.")
        if kind == RENEW:
            if not self._limits.can_renew:
                raise _invalid_state("Renewal of locks is disabled for the group.")
            return each._replace(deadline_ms=self._renewed_ms)
        if kind == RELEASE:
            changed = released_range(each, self._limits)._replace(write=self._write)
        else:
            changed = each._replace(
                state=ACKNOWLEDGED if kind == ACCEPT else ARCHIVED,
                member="",
                deadline_ms=0,
                write=self._write,
            )
        append_joined(self.stored, changed)
        return changed


def _changed_ranges(
    partition: SharePartition, runs: Sequence[_Run], change: _Change
) -> list[Range]:
    """Return the ranges after all acknowledgements, in one pass over them."""
    ranges = partition.ranges
    at, _ = partition.overlapping(runs[0].first, runs[-1].last)
    result = ranges[:at]
    current = ranges[at] if at < len(ranges) else None
    acknowledged = -1
    for first, last, kind in runs:
        if first <= acknowledged:
            raise _invalid_state("A record is acknowledged twice.")
        acknowledged = last
        while current is not None and current.first <= last:
            if current.last < first:
                append_joined(result, current)
            else:
                if current.first < first:
                    append_joined(result, current._replace(last=first - 1))
                    current = current._replace(first=first)
                inside = current._replace(last=min(current.last, last))
                append_joined(result, change.of(inside, kind))
                if current.last > last:
                    current = current._replace(first=last + 1)
                    break
            at += 1
            current = ranges[at] if at < len(ranges) else None
    if current is not None:
        append_joined(result, current)
        result += ranges[at + 1 :]
    return result


def _check_bounds(partition: SharePartition, batch: Acknowledgement) -> None:
    """Raise ApiError for offsets outside of what was acquired
    (SharePartition.fetchSubMapForAcknowledgementBatch)."""
    last, start, ranges = batch.last_offset, partition.start_offset, partition.ranges
    if last < start:
        return
    first = max(batch.first_offset, start)
    known = ranges[0] if ranges else None
    if known is None or first < (known.first if known.batch == UNREAD else known.batch):
        raise _invalid_state("The batch cannot be acknowledged: it was not acquired.")
    if partition.last_known_offset(last) < last:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "The last offset in the request is past the acquired records.",
        )


def _runs(batch: Acknowledgement, start_offset: LogOffset) -> Iterator[_Run]:
    """Yield the runs of an acknowledgement from the start offset on."""
    first = batch.first_offset
    size = batch.last_offset - first + 1
    assert len(batch.types) in {1, size}
    for kind, same in groupby(batch.types):
        count = size if len(batch.types) == 1 else sum(1 for _ in same)
        if first + count > start_offset:
            yield _Run(max(first, start_offset), first + count - 1, kind)
        first += count


def _invalid_state(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD_STATE, message)
