"""A share partition: the delivery state of the records between its start offset and the
last offset that was acquired (KIP-932).

States are kept for ranges of offsets, not for records: the records that one fetch
acquires are one range, until parts of it are acknowledged differently. A range belongs
to the batch that it was acquired in, which throttled delivery needs.

Offsets between two ranges hold no records. After a load, offsets that nothing is stored
of were in use by a member or were never read; they are `UNREAD` ranges, which are
delivered again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from coterie.broker.coordinator.share_partition.state import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    StateBatch,
    StateUpdate,
)
from coterie.types import LogOffset, MemberId

UNREAD: Final = -1
"""The batch of offsets that were not read since the share partition was loaded."""
_FINAL: Final = frozenset({ACKNOWLEDGED, ARCHIVED})
_FIRST: Final = attrgetter("first")
_LAST: Final = attrgetter("last")


class Range(NamedTuple):
    """A range of offsets with one delivery state.

    `batch` is the first offset of the batch that the range was acquired in. `member`
    and `deadline_ms`, the end of its lock, are those of an acquired range. `write` is
    the number of the write that makes the state durable, 0 once it is: until then no
    member can acquire or acknowledge the range.
    """

    first: LogOffset
    last: LogOffset
    batch: LogOffset
    state: int = AVAILABLE
    delivery_count: int = 0
    member: MemberId = ""
    deadline_ms: int = 0
    write: int = 0

    @property
    def is_available(self) -> bool:
        """Whether a member can acquire the range."""
        return self.state == AVAILABLE and not self.write

    @property
    def is_final(self) -> bool:
        """Whether the records are never delivered again."""
        return self.state in _FINAL


class ShareLimits(NamedTuple):
    """The configuration of a share group's deliveries, as it is when they happen."""

    record_lock_duration_ms: int
    delivery_count_limit: int
    record_locks_max: int
    can_renew: bool


class SharePartition:
    """The ranges of a share partition, in order of offsets.

    The methods change the state at once. Those that return a `StateUpdate` with a write
    number expect `written` once the update is durable; if that fails, the object is
    discarded and made again from the stored state.
    """

    __slots__ = ("_may_be_available", "last_write", "ranges", "start_offset")

    def __init__(
        self, start_offset: LogOffset, batches: Sequence[StateBatch] = ()
    ) -> None:
        assert start_offset >= 0
        self.start_offset = start_offset
        self.ranges: list[Range] = []
        self.last_write = 0
        position = start_offset
        for batch in batches:
            assert batch.first_offset >= position
            if batch.first_offset > position:
                unread = Range(position, batch.first_offset - 1, UNREAD)
                self.ranges.append(unread)
            self.ranges.append(
                Range(
                    batch.first_offset,
                    batch.last_offset,
                    batch.first_offset,
                    # Dead letters are not written: see docs/differences-from-kafka.md.
                    ARCHIVED if batch.state == ARCHIVING else batch.state,
                    batch.delivery_count,
                )
            )
            position = batch.last_offset + 1
        self._may_be_available = True
        self.advance()

    @property
    def end_offset(self) -> LogOffset:
        """The last offset with a state; the one before `start_offset` if none has."""
        return self.ranges[-1].last if self.ranges else self.start_offset - 1

    @property
    def in_flight_count(self) -> int:
        """The number of offsets from the start offset to the end offset."""
        return self.end_offset - self.start_offset + 1

    @property
    def delivery_complete_count(self) -> int:
        """The number of records in flight that are never delivered again (KIP-1226)."""
        count = 0
        for each in self.ranges:
            if each.state in _FINAL:
                count += each.last - each.first + 1
        return count

    def next_fetch_offset(self) -> LogOffset:
        """Return the first offset that a member can acquire."""
        if self._may_be_available:
            for each in self.ranges:
                if each.is_available:
                    return each.first
            self._may_be_available = False
        return self.end_offset + 1

    def can_acquire(self, limits: ShareLimits) -> bool:
        """Return whether a fetch may acquire records: known ones, or new ones below the
        limit of record locks."""
        return (
            self.in_flight_count < limits.record_locks_max
            or self.next_fetch_offset() <= self.end_offset
        )

    def next_deadline_ms(self) -> int | None:
        """Return the time at which the first lock ends; None without locks."""
        deadlines = (each.deadline_ms for each in self.ranges if each.deadline_ms)
        return min(deadlines, default=None)

    # Changes.

    def expire(self, now_ms: int, limits: ShareLimits) -> StateUpdate | None:
        """Release the ranges whose lock has ended; they can be acquired at once.

        Return the update to store; None if no lock has ended.
        """
        expired: list[Range] = []
        joined: list[Range] = []
        for each in self.ranges:
            is_expired = 0 < each.deadline_ms <= now_ms
            if is_expired:
                expired.append(released_range(each, limits))
            append_joined(joined, expired[-1] if is_expired else each)
        if not expired:
            return None
        self.ranges = joined
        update = self.update(expired)
        self._may_be_available = True
        self.advance()
        return update

    def release(self, member: MemberId, limits: ShareLimits) -> StateUpdate | None:
        """Release what a member has acquired, once `written` is called.

        Return the update to store; None if the member has acquired nothing.
        """
        write = self.last_write + 1
        joined: list[Range] = []
        for each in self.ranges:
            is_held = each.state == ACQUIRED and each.member == member
            released = released_range(each, limits) if is_held else each
            append_joined(joined, released._replace(write=write) if is_held else each)
        self.ranges = joined
        update = self.update_of_write(write)
        if not update.batches:
            return None
        self.last_write = write
        return update

    def written(self, write: int) -> None:
        """Complete the changes of all writes up to a number, which are durable."""
        assert 0 <= write <= self.last_write
        joined: list[Range] = []
        for each in self.ranges:
            is_written = 0 < each.write <= write
            append_joined(joined, each._replace(write=0) if is_written else each)
        self.ranges = joined
        self._may_be_available = True
        self.advance()

    def move_start(self, log_start_offset: LogOffset) -> None:
        """Drop the state of records that were deleted from the log."""
        if log_start_offset <= self.start_offset:
            return
        index = bisect_left(self.ranges, log_start_offset, key=_LAST)
        assert index == len(self.ranges) or self.ranges[index].last >= log_start_offset
        del self.ranges[:index]
        if self.ranges and self.ranges[0].first < log_start_offset:
            self.ranges[0] = self.ranges[0]._replace(first=log_start_offset)
        self.start_offset = log_start_offset
        self.advance()

    def archive_available(self, first: LogOffset, last: LogOffset) -> None:
        """Archive the available offsets of a range that holds no records: compaction
        has removed them."""
        assert first <= last
        self.change(
            first,
            last,
            lambda each: each._replace(state=ARCHIVED) if each.is_available else each,
        )
        self.advance()

    def advance(self) -> None:
        """Move the start offset over all records that are never delivered again."""
        count = 0
        for each in self.ranges:
            if not each.is_final or each.write:
                break
            count += 1
        assert count <= len(self.ranges)
        if count:
            after = self.ranges[count - 1].last + 1
            del self.ranges[:count]
            self.start_offset = self.ranges[0].first if self.ranges else after

    # Ranges.

    def replace_ranges(self, ranges: list[Range]) -> None:
        """Replace all ranges by others of the same offsets."""
        assert len(ranges) >= 1
        assert ranges[-1].last == self.end_offset
        self.ranges = ranges

    def overlapping(self, first: LogOffset, last: LogOffset) -> tuple[int, int]:
        """Return the indexes, from and before, of ranges with an offset in a range."""
        assert first <= last
        low = high = bisect_left(self.ranges, first, key=_LAST)
        if low < len(self.ranges) and last >= self.ranges[low].first:
            high = bisect_left(self.ranges, last, low, key=_LAST)
            if high < len(self.ranges) and self.ranges[high].first <= last:
                high += 1
        return low, high

    def last_known_offset(self, offset: LogOffset) -> LogOffset:
        """Return the end of the last range that begins at an offset or before it; -1
        without one."""
        at = bisect_right(self.ranges, offset, key=_FIRST)
        return self.ranges[at - 1].last if at else -1

    def change(
        self, first: LogOffset, last: LogOffset, changed: Callable[[Range], Range]
    ) -> None:
        """Replace each range inside of `first` to `last` by `changed` of it; ranges
        that cross an end are split there."""
        low, high = self.overlapping(first, last)
        parts = self.ranges[max(low - 1, 0) : low]
        after = self.ranges[high : high + 1]
        for each in self.ranges[low:high]:
            if each.first < first:
                append_joined(parts, each._replace(last=first - 1))
            inside = each._replace(
                first=max(each.first, first), last=min(each.last, last)
            )
            append_joined(parts, changed(inside))
            if each.last > last:
                append_joined(parts, each._replace(first=last + 1))
        for each in after:
            append_joined(parts, each)
        self.ranges[max(low - 1, 0) : high + 1] = parts
        self._may_be_available = True

    def append(self, new: Range) -> None:
        """Append a range behind all others."""
        assert new.first > self.end_offset
        append_joined(self.ranges, new)
        self._may_be_available |= new.is_available

    def update_of_write(self, write: int) -> StateUpdate:
        """Return the update to store of the ranges that a write has changed."""
        return self.update([each for each in self.ranges if each.write == write])

    def update(self, changed: Sequence[Range]) -> StateUpdate:
        """Return the update to store of some ranges."""
        assert all(each.state != ACQUIRED for each in changed)
        return StateUpdate(
            self.start_offset,
            self.delivery_complete_count,
            tuple(
                StateBatch(each.first, each.last, each.state, each.delivery_count)
                for each in changed
            ),
        )


def released_range(acquired: Range, limits: ShareLimits) -> Range:
    """Return an acquired range as available, or archived at the delivery limit."""
    assert acquired.state == ACQUIRED
    state = (
        ARCHIVED
        if acquired.delivery_count >= limits.delivery_count_limit
        else AVAILABLE
    )
    return acquired._replace(state=state, member="", deadline_ms=0)


def append_joined(ranges: list[Range], new: Range) -> None:
    """Append a range; join it with the last one if they are neighbours that differ in
    nothing else."""
    assert new.first <= new.last
    if ranges:
        last = ranges[-1]
        assert last.last < new.first
        if last.last + 1 == new.first and last[2:] == new[2:]:
            ranges[-1] = last._replace(last=new.last)
            return
    ranges.append(new)
