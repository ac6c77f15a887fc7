"""The times at which logs reached their offsets, collected over many polls.

Every poll adds the log end and its time. The timestamp of the record at an offset lies
between two such points, for every group on the partition, without any request. Records
older than the points, and those between distant points, are queried: one record for
each partition and round, so that groups on the same partition share the result.

A point of a log is an offset with bounds of timestamps (ms):

- `before`: no record below the offset is later,
- `after`: no record from the offset on is earlier,
- `own_high`: the record at the offset is not later; -1 for a log end, whose record did
  not exist yet.

Timestamps are assumed to grow with offsets, as `operations.time_lag` does.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from coterie.operations.time_lag import (
    FETCHES_MAX,
    LagPosition,
    TimeLag,
    TimeLagMethod,
    time_lags,
)
from coterie.types import LogOffset, TopicPartition

if TYPE_CHECKING:
    from coterie.client.admin.admin_client import AdminClient

POINTS_MAX: Final = 64
"""Points of a log; above it, every second one of the older half is dropped."""
ROUNDS_MAX: Final = 4
"""Rounds of queries in a poll, each of at most `FETCHES_MAX` partitions."""
REFUSED_MS: Final = 600_000
"""The time until a partition without timestamps is queried again."""
_TOLERANCE_SHARE: Final = 4
"""An error up to this fraction of the lag is not worth a query."""
_NO_RECORD: Final = -1
_UNKNOWN: Final = TimeLag()
_NO_LAG: Final = TimeLag(0, TimeLagMethod.EXACT, 0)


class _Query(NamedTuple):
    position: LagPosition
    is_unknown: bool
    gain_ms: int


class LogTimes:
    """The points of all logs. `interval_ms` is the time between polls: an error of two
    of them is accepted.
    """

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._logs: dict[TopicPartition, _Points] = {}
        self._refused_until_ms: dict[TopicPartition, int] = {}

    def add_ends(
        self, ends: Mapping[TopicPartition, LogOffset], from_ms: int, to_ms: int
    ) -> None:
        """Add log ends that were listed between two times. Logs that are not among them
        are forgotten."""
        logs = self._logs
        self._logs = {at: logs.get(at) or _Points() for at in ends}
        for at, end in ends.items():
            self._logs[at].add_end(end, from_ms, to_ms)
        self._refused_until_ms = {
            at: until_ms
            for at, until_ms in self._refused_until_ms.items()
            if until_ms > to_ms and at in ends
        }

    def time_lag(self, position: LagPosition, now_ms: int) -> TimeLag:
        """Return the age of the first record from a position on."""
        if position.next_offset >= position.end:
            return _NO_LAG
        points = self._logs.get(position.partition)
        bounds = None if points is None else points.bounds(position.next_offset)
        if bounds is None:
            return _UNKNOWN
        low_ms, guess_ms, high_ms = bounds
        lag_ms = max(0, now_ms - guess_ms)
        if low_ms == high_ms and points and points.has_record(position.next_offset):
            return TimeLag(lag_ms, TimeLagMethod.EXACT, 0)
        error_ms = max(guess_ms - low_ms, high_ms - guess_ms)
        return TimeLag(lag_ms, TimeLagMethod.INTERPOLATED, error_ms)

    async def time_lags(
        self, admin: AdminClient, positions: Iterable[LagPosition], now_ms: int
    ) -> dict[LagPosition, TimeLag]:
        """Return the time lag of each position; those that are unknown or too
        inaccurate are queried before."""
        lags = {each: self.time_lag(each, now_ms) for each in positions}
        waiting: dict[TopicPartition, list[LagPosition]] = defaultdict(list)
        for each in lags:
            if each.partition not in self._refused_until_ms:
                waiting[each.partition].append(each)
        for _ in range(ROUNDS_MAX):
            queries = [
                query
                for own in waiting.values()
                if (query := self._worst(own, lags)) is not None
            ]
            if not queries:
                break
            queries.sort(key=lambda each: (not each.is_unknown, -each.gain_ms))
            wanted = [each.position for each in queries[:FETCHES_MAX]]
            found = await time_lags(admin, wanted, now_ms=now_ms)
            open_logs: dict[TopicPartition, list[LagPosition]] = {}
            for query in queries:
                at = query.position.partition
                if not self._learn(query.position, found.get(query.position), now_ms):
                    continue
                own = open_logs[at] = waiting[at]
                if query.position in found:
                    # Only positions between the points beside the new one change.
                    low, high = self._logs[at].around(query.position.next_offset)
                    lags.update(
                        (each, self.time_lag(each, now_ms))
                        for each in own
                        if low <= each.next_offset < high
                    )
            waiting = open_logs
        return lags

    def _learn(self, position: LagPosition, lag: TimeLag | None, now_ms: int) -> bool:
        """Add the result of a query, None when it was not sent; return whether further
        queries of the log make sense."""
        at = position.partition
        if lag is None:
            return True
        if lag.ms is None:
            self._refused_until_ms[at] = now_ms + REFUSED_MS
            return False
        time_ms, error_ms = now_ms - lag.ms, lag.error_ms or 0
        self._logs.setdefault(at, _Points()).add_record(
            position.next_offset, time_ms - error_ms, time_ms + error_ms
        )
        return True

    def _worst(
        self, positions: Iterable[LagPosition], lags: Mapping[LagPosition, TimeLag]
    ) -> _Query | None:
        """Return the query of the first position with an unknown time lag, or else of
        the one whose timestamp halves the largest error best; None when all are
        accurate enough."""
        unknown: LagPosition | None = None
        worst: LagPosition | None = None
        worst_ms = -1
        for each in positions:
            lag = lags[each]
            if lag.ms is None or lag.error_ms is None:
                if unknown is None or each.next_offset < unknown.next_offset:
                    unknown = each
            elif lag.error_ms > max(2 * self._interval_ms, lag.ms // _TOLERANCE_SHARE):
                # The middle of two points, not a position beside one of them, whose
                # error is greater: their distance would remain.
                low_ms, guess_ms, high_ms = self._logs[each.partition].bounds(
                    each.next_offset
                ) or (0, 0, 0)
                gain_ms = min(guess_ms - low_ms, high_ms - guess_ms)
                if gain_ms > worst_ms:
                    worst, worst_ms = each, gain_ms
        if unknown is not None:
            return _Query(unknown, True, 0)
        return None if worst is None else _Query(worst, False, worst_ms)


class _Points:
    """The points of one log, in the order of their offsets, as columns: four numbers of
    eight bytes each."""

    __slots__ = ("after", "before", "offsets", "own_high")

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.offsets = array("q")
        self.before = array("q")
        self.after = array("q")
        self.own_high = array("q")

    def add_end(self, end: LogOffset, from_ms: int, to_ms: int) -> None:
        """Add the log end. A log that has become shorter was created again."""
        if self.offsets and end < self.offsets[-1]:
            self._clear()
        if self.offsets and end == self.offsets[-1]:
            self.after[-1] = max(self.after[-1], from_ms)
        else:
            self._insert(len(self.offsets), end, (to_ms, from_ms, _NO_RECORD))

    def add_record(self, offset: LogOffset, low_ms: int, high_ms: int) -> None:
        """Add the bounds of the timestamp of the record at an offset."""
        index = bisect_left(self.offsets, offset)
        if index < len(self.offsets) and self.offsets[index] == offset:
            self.after[index] = low_ms
            self.own_high[index] = high_ms
        else:
            self._insert(index, offset, (high_ms, low_ms, high_ms))

    def _insert(
        self, index: int, offset: LogOffset, bounds: tuple[int, int, int]
    ) -> None:
        self.offsets.insert(index, offset)
        for column, value in zip(
            (self.before, self.after, self.own_high), bounds, strict=True
        ):
            column.insert(index, value)
        if len(self.offsets) > POINTS_MAX:
            self._thin()

    def _thin(self) -> None:
        """Drop every second point of the older half, but not the oldest."""
        dropped = slice(1, POINTS_MAX // 2, 2)
        for column in (self.offsets, self.before, self.after, self.own_high):
            del column[dropped]

    def around(self, offset: LogOffset) -> tuple[LogOffset, LogOffset]:
        """Return the offsets of the points before and after an offset that is one."""
        index = bisect_left(self.offsets, offset)
        low = self.offsets[max(0, index - 1)]
        return low, self.offsets[min(len(self.offsets) - 1, index + 1)]

    def has_record(self, offset: LogOffset) -> bool:
        """Return whether the record at an offset was queried."""
        index = bisect_left(self.offsets, offset)
        return (
            index < len(self.offsets)
            and self.offsets[index] == offset
            and self.own_high[index] != _NO_RECORD
        )

    def bounds(self, offset: LogOffset) -> tuple[int, int, int] | None:
        """Return the earliest, the likely and the latest timestamp of the record at an
        offset; None when it is older than the points, or not written yet."""
        index = bisect_right(self.offsets, offset) - 1
        if index < 0:
            return None
        first, low_ms = self.offsets[index], self.after[index]
        if first == offset and (own_ms := self.own_high[index]) != _NO_RECORD:
            high_ms = max(low_ms, own_ms)
            return low_ms, (low_ms + high_ms) // 2, high_ms
        if index + 1 == len(self.offsets):
            return None
        high_ms = max(low_ms, self.before[index + 1])
        # Records are assumed to be evenly distributed between two points.
        share_ms = (
            (offset - first) * (high_ms - low_ms) // (self.offsets[index + 1] - first)
        )
        return low_ms, low_ms + share_ms, high_ms
