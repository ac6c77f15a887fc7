"""What polls learn about the records of logs, so that few are read again.

A lag in time has the definition of `operations.time_lag`, and the record at each
position is fetched, up to `FETCHES_MAX` of a poll. Its timestamp is kept: a group that
stands still is read once. Of more positions, those are estimated from the log ends of
polls, if the log has shown that its timestamps follow them: a record that was fetched
lay between the polls around it. Mirrored records, with older times, do not. Other logs
are searched by time.

A point of a log is an offset with bounds of timestamps (ms):

- `before`: no record below the offset is later,
- `after`: no record from the offset on is earlier,
- `own_high`: the record at the offset is not later; -1 for a log end, whose record did
  not exist yet.

Estimates assume that timestamps grow with offsets, as `operations.time_lag` does.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Final

from coterie import client
from coterie.operations.time_lag import (
    FETCHES_MAX,
    NO_LAG,
    LagPosition,
    TimeLag,
    TimeLagMethod,
    time_lags,
)
from coterie.operations.topic_ids import TopicIds
from coterie.types import LogOffset, TopicPartition

POINTS_MAX: Final = 64
"""Points of a log; above it, every second one of the older half is dropped."""
REFUSED_MS: Final = 600_000
"""The time until a partition without timestamps is queried again."""
_NO_RECORD: Final = -1
_NEVER: Final = -1
_UNKNOWN: Final = TimeLag()


class LogTimes:
    """The times of all logs. `interval_ms` is the time between polls: a record that is
    off the log ends of polls by more shows that the log does not follow them."""

    def __init__(self, interval_ms: int, *, committed_only: bool = False) -> None:
        self._interval_ms = interval_ms
        self._committed_only = committed_only
        self._logs: dict[TopicPartition, _Log] = {}
        self._topic_ids: TopicIds = {}

    def add_ends(
        self,
        ends: Mapping[TopicPartition, LogOffset],
        topic_ids: TopicIds,
        from_ms: int,
        to_ms: int,
    ) -> None:
        """Add log ends that were listed between two times, and the ids of their topics,
        which were read afterwards. Logs that are not among them are forgotten, and so
        are those of a topic that was created again: it may have outgrown its old end.
        """
        logs, known_ids = self._logs, self._topic_ids
        self._logs, self._topic_ids = {}, topic_ids
        for at, end in ends.items():
            log = logs.get(at)
            if log is not None and topic_ids.get(at.topic) != known_ids.get(at.topic):
                # Whose end this is, the old topic's or the new one's, is not known.
                self._logs[at] = _Log()
                continue
            if log is None or log.points.end > end:
                log = _Log()  # brokers before 2.8 have no topic ids
            self._logs[at] = log
            log.points.add_end(end, from_ms, to_ms)

    async def time_lags(
        self, admin: client.AdminClient, positions: Iterable[LagPosition], now_ms: int
    ) -> dict[LagPosition, TimeLag]:
        """Return the time lag of each position."""
        lags: dict[LagPosition, TimeLag] = {}
        open_positions: list[LagPosition] = []
        for each in positions:
            log = self._logs.setdefault(each.partition, _Log())
            lags[each] = lag = log.time_lag(each, now_ms)
            if lag.method is not TimeLagMethod.EXACT and log.refused_until_ms <= now_ms:
                open_positions.append(each)
        wanted = self._most_useful(open_positions, lags)
        found = await time_lags(
            admin, wanted, now_ms=now_ms, committed_only=self._committed_only
        )
        for position, lag in found.items():
            self._logs[position.partition].learn(
                position, lag, now_ms, self._interval_ms
            )
        # What was read may make an estimate of another position better, or impossible.
        lags.update(
            (each, self._logs[each.partition].time_lag(each, now_ms))
            for each in open_positions
        )
        return lags | found

    def _most_useful(
        self, positions: list[LagPosition], lags: Mapping[LagPosition, TimeLag]
    ) -> list[LagPosition]:
        """Return the positions to fetch: half of them the least accurate, half those of
        the logs that were checked longest ago. Behind them come positions to search by
        time, one of each other log without estimates."""
        if len(positions) <= FETCHES_MAX:
            return positions

        def inaccuracy(each: LagPosition) -> tuple[bool, int, LogOffset]:
            error_ms = lags[each].error_ms
            return error_ms is not None, -(error_ms or 0), each.next_offset

        def last_check_ms(each: LagPosition) -> int:
            return self._logs[each.partition].checked_ms

        positions = sorted(positions, key=inaccuracy)
        half = FETCHES_MAX // 2
        others = sorted(positions[half:], key=last_check_ms)
        fetched = positions[:half] + others[: FETCHES_MAX - half]
        seen = {each.partition for each in fetched}
        searched: dict[TopicPartition, LagPosition] = {}
        for each in others[FETCHES_MAX - half :]:
            if lags[each].ms is None and each.partition not in seen:
                searched.setdefault(each.partition, each)
        return fetched + list(searched.values())


class _Log:
    """What is known about the records of one log."""

    def __init__(self) -> None:
        self.points = _Points()
        self.checked_ms = _NEVER
        """The time of the last query."""
        self.refused_until_ms = _NEVER
        self._follows_polls: bool | None = None
        """Whether the records that were fetched lay between the polls around them;
        None before the first such record."""
        self._empty: tuple[LogOffset, LogOffset] = (0, 0)
        """Offsets without a record, such as those of markers."""

    def time_lag(self, position: LagPosition, now_ms: int) -> TimeLag:
        """Return the age of the first record from a position on."""
        offset = position.next_offset
        if offset >= position.end:
            return NO_LAG
        if self._empty[0] <= offset and position.end <= self._empty[1]:
            return NO_LAG
        bounds = self.points.bounds(offset)
        if bounds is None:
            return _UNKNOWN
        low_ms, guess_ms, high_ms = bounds
        if low_ms == high_ms and self.points.has_record(offset):
            return TimeLag.since(guess_ms, now_ms, TimeLagMethod.EXACT)
        if not self._follows_polls:
            return _UNKNOWN
        error_ms = max(guess_ms - low_ms, high_ms - guess_ms)
        return TimeLag.since(guess_ms, now_ms, TimeLagMethod.INTERPOLATED, error_ms)

    def learn(
        self, position: LagPosition, lag: TimeLag, now_ms: int, tolerance_ms: int
    ) -> None:
        """Add the result of a query."""
        self.checked_ms = now_ms
        if lag.ms is None:
            self.refused_until_ms = now_ms + REFUSED_MS
            return
        if (time_ms := lag.record_time_ms) is None:
            self._empty = (position.next_offset, position.end)
            return
        error_ms = lag.error_ms or 0
        bounds = self.points.bounds(position.next_offset)
        if bounds is not None:
            low_ms, _, high_ms = bounds
            fits = (
                time_ms + error_ms >= low_ms - tolerance_ms
                and time_ms - error_ms <= high_ms + tolerance_ms
            )
            self._follows_polls = fits and self._follows_polls is not False
        self.points.add_record(
            position.next_offset, time_ms - error_ms, time_ms + error_ms
        )


class _Points:
    """The points of one log, in the order of their offsets, as columns: four numbers of
    eight bytes each."""

    __slots__ = ("after", "before", "offsets", "own_high")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.before = array("q")
        self.after = array("q")
        self.own_high = array("q")

    @property
    def end(self) -> LogOffset:
        """The last offset: that of the newest log end, as records lie below it."""
        return self.offsets[-1] if self.offsets else 0

    def add_end(self, end: LogOffset, from_ms: int, to_ms: int) -> None:
        """Add the log end, which is not below an earlier one."""
        if self.offsets and end == self.end:
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
