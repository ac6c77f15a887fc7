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
    before = partition.ranges.copy()
    write = partition.last_write + 1
    try:
        for each in acknowledgements:
            _check_bounds(partition, each)
            for first, last, kind in _runs(each):
                _acknowledge_run(
                    partition,
                    _Run(max(first, partition.start_offset), last, kind, member, write),
                    limits,
                    now_ms,
                )
    except ApiError:
        partition.ranges = before
        raise
    update = partition.update_of_write(write)
    assert partition.last_write == write - 1
    if not update.batches:
        return None
    partition.last_write = write
    return update


class _Run(NamedTuple):
    first: LogOffset
    last: LogOffset
    kind: int
    member: MemberId
    write: int


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


def _runs(batch: Acknowledgement) -> Iterator[tuple[LogOffset, LogOffset, int]]:
    """Yield the ranges of neighbours with the same type."""
    if len(batch.types) == 1:
        yield batch.first_offset, batch.last_offset, batch.types[0]
        return
    assert len(batch.types) == batch.last_offset - batch.first_offset + 1
    first = batch.first_offset
    for kind, same in groupby(batch.types):
        after = first + sum(1 for _ in same)
        yield first, after - 1, kind
        first = after


def _acknowledge_run(
    partition: SharePartition, run: _Run, limits: ShareLimits, now_ms: int
) -> None:
    if run.last < run.first:
        return  # below the start offset
    if run.kind == RENEW and not limits.can_renew:
        raise _invalid_state("Renewal of acquisition locks is disabled for the group.")

    def changed(each: Range) -> Range:
        if each.state != ACQUIRED or each.member != run.member:
            raise _invalid_state("The records are not acquired by the member.")
        if run.kind == RENEW:
            return each._replace(deadline_ms=now_ms + limits.record_lock_duration_ms)
        if run.kind == RELEASE:
            return released_range(each, limits)._replace(write=run.write)
        state = ACKNOWLEDGED if run.kind == ACCEPT else ARCHIVED
        return each._replace(state=state, member="", deadline_ms=0, write=run.write)

    partition.change(run.first, run.last, changed)


def _invalid_state(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD_STATE, message)
