"""Lag in milliseconds: the age of the first record that a group has not read.

This is the one definition of it: of `describe`, `lag`, the exporter and the live page.

- A record is what a consumer returns. A transaction marker is none, and neither are the
  records of an aborted transaction where only committed ones count.
- Without an unread record the lag is 0, whatever the difference of offsets: only a
  marker may be left.
- The age counts from the record's timestamp, which its producer may set: a mirrored
  record is as old as its original. A record from the future has age 0.

Each result names its method:

- exact: the timestamp of the record was read, or there is no unread record.
- interpolated: the timestamp lies between two known times and is interpolated as if
  records were evenly distributed. `error_ms` bounds the error while timestamps grow
  with offsets; where producers' clocks differ, the difference adds to it.
- unknown: the broker could not provide it; the value is null.

Reading a timestamp takes a Fetch of its batch, with READ on the topic and one request
per record. Without that permission, and for many records, the offset is searched by
time: ListOffsets returns the first record at or after a time, until that is the wanted
record or the times around it are close. A search needs DESCRIBE only, and one request
for each broker and round, whatever the number of partitions. It takes a marker for a
record.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from math import isqrt
from typing import Final, NamedTuple, TypeVar

from coterie import client
from coterie.types import LogOffset, TopicPartition

T = TypeVar("T")

FETCHES_MAX: Final = 800
"""The most records whose timestamps are fetched; others are searched by time."""
ROUNDS_MAX: Final = 12
"""The most rounds of a search."""
_CLOSE_MS: Final = 1_000
"""Bounds this close end a search ..."""
_CLOSE_SHARE: Final = 50
"""... and so do bounds within this fraction of the lag."""


class TimeLagMethod(Enum):
    """The method of a time lag."""

    EXACT = "exact"
    INTERPOLATED = "interpolated"
    UNKNOWN = "unknown"


class LagPosition(NamedTuple):
    """The next offset that a group reads of a partition, and the log end."""

    partition: TopicPartition
    next_offset: LogOffset
    end: LogOffset


@dataclass(frozen=True, slots=True)
class TimeLag:
    """A lag in milliseconds. `error_ms` bounds the error of an interpolated one."""

    ms: int | None = None
    method: TimeLagMethod = TimeLagMethod.UNKNOWN
    error_ms: int | None = None
    record_time_ms: int | None = field(default=None, compare=False)
    """The timestamp of the record, which may be in the future; None without an unread
    record and where it is unknown."""

    @classmethod
    def since(
        cls, record_time_ms: int, now_ms: int, method: TimeLagMethod, error_ms: int = 0
    ) -> TimeLag:
        """Return the lag at `now_ms` of a group whose first unread record has this
        timestamp."""
        age_ms = max(0, now_ms - record_time_ms)
        return cls(age_ms, method, error_ms, record_time_ms)


NO_LAG: Final = TimeLag(0, TimeLagMethod.EXACT, 0)
"""The lag of a group without an unread record."""


async def time_lags(
    admin: client.AdminClient,
    positions: Iterable[LagPosition],
    *,
    now_ms: int,
    committed_only: bool = False,
) -> dict[LagPosition, TimeLag]:
    """Return the age at `now_ms` of the first record from each position on.

    The records of the first `FETCHES_MAX` positions that are not at the end are
    fetched. With `committed_only` records of aborted transactions do not count.
    """
    lags: dict[LagPosition, TimeLag] = {}
    behind: list[LagPosition] = []
    for each in dict.fromkeys(positions):
        if each.next_offset >= each.end:
            lags[each] = NO_LAG
        else:
            behind.append(each)
    offsets: dict[TopicPartition, list[LogOffset]] = defaultdict(list)
    for each in behind[:FETCHES_MAX]:
        offsets[each.partition].append(each.next_offset)
    fetched = await admin.records.first(offsets, committed_only=committed_only)
    for each in behind[:FETCHES_MAX]:
        if (records := fetched.values.get(each.partition)) is not None:
            lags[each] = _age(each, records[each.next_offset], now_ms)
    searches = [_Search(each, now_ms) for each in behind if each not in lags]
    for _ in range(ROUNDS_MAX):
        if not (running := [each for each in searches if not each.is_done]):
            break
        await _run_round(admin, running)
    return lags | {each.position: each.result() for each in searches}


def _age(
    position: LagPosition, first: client.FirstRecord | None, now_ms: int
) -> TimeLag:
    if first is None or first.offset >= position.end:
        return NO_LAG
    if first.timestamp_ms < 0:
        return TimeLag()
    return TimeLag.since(first.timestamp_ms, now_ms, TimeLagMethod.EXACT)


async def _run_round(admin: client.AdminClient, searches: Iterable[_Search]) -> None:
    # Two positions of one partition take two requests.
    for batch in _one_a_partition(searches, lambda each: each.position.partition):
        guesses = {at: client.AtTime(each.guess_ms()) for at, each in batch.items()}
        listed = await admin.logs.list_offsets(guesses)
        for at, search in batch.items():
            search.narrow(guesses[at].timestamp_ms, listed.values.get(at))


def _one_a_partition(
    items: Iterable[T], partition: Callable[[T], TopicPartition]
) -> list[dict[TopicPartition, T]]:
    """Split items into rounds, each with at most one item per partition."""
    rounds: list[dict[TopicPartition, T]] = []
    rounds_of: Counter[TopicPartition] = Counter()
    for item in items:
        at = partition(item)
        if rounds_of[at] == len(rounds):
            rounds.append({})
        rounds[rounds_of[at]][at] = item
        rounds_of[at] += 1
    return rounds


class _Search:
    """A search for the timestamp of one record, between a lower and an upper bound."""

    def __init__(self, position: LagPosition, now_ms: int) -> None:
        self.position = position
        self._now_ms = now_ms
        self._low: tuple[LogOffset, int] | None = None
        self._high = (position.end, now_ms + 1)
        self._exact_ms: int | None = None
        self._is_lost = False
        self._rounds = 0

    @property
    def is_done(self) -> bool:
        """Whether another round cannot narrow the bounds."""
        if self._is_lost or self._exact_ms is not None:
            return True
        if self._low is None:
            return False
        low_ms, high_ms = self._low[1], self._high[1]
        close_ms = max(_CLOSE_MS, (self._now_ms - low_ms) // _CLOSE_SHARE)
        return high_ms - low_ms <= close_ms

    def guess_ms(self) -> int:
        """Return the next time to try: by interpolation and, every other round, in the
        middle, which bounds the number of rounds for logs with gaps."""
        self._rounds += 1
        if self._low is None:
            return 0
        low_ms, high_ms = self._low[1], self._high[1]
        guess = self._middle_ms() if self._rounds % 2 else self._even_ms()
        return min(max(guess, low_ms + 1), high_ms - 1)

    def narrow(self, tried_ms: int, info: client.LogOffsetInfo | None) -> None:
        """Narrow the bounds by the first record at or after `tried_ms`; None is an
        error of the broker."""
        wanted = self.position.next_offset
        if info is None:
            self._is_lost = True
        elif info.offset == wanted:
            self._exact_ms = info.timestamp_ms
        elif 0 <= info.offset < wanted:
            self._low = (info.offset, info.timestamp_ms)
            self._is_lost = info.timestamp_ms < 0  # records without timestamps
            if info.timestamp_ms >= self._high[1]:
                # The timestamp reaches the upper bound, which is `now` at first: the
                # timestamp is in the future.
                self._exact_ms = info.timestamp_ms
        elif self._low is None:
            # The first record of the log is beyond the offset: the record at the offset
            # was compacted away, and the group reads the returned one next.
            self._exact_ms = info.timestamp_ms if info.offset >= 0 else None
            self._is_lost = info.offset < 0
        else:
            end = self.position.end if info.offset < 0 else info.offset
            self._high = (end, tried_ms)

    def result(self) -> TimeLag:
        """Return the lag by the current bounds."""
        if self._exact_ms is not None and self._exact_ms >= 0:
            return TimeLag.since(self._exact_ms, self._now_ms, TimeLagMethod.EXACT)
        if self._is_lost or self._low is None:
            return TimeLag()
        guess, low_ms, high_ms = self._even_ms(), self._low[1], self._high[1]
        error_ms = max(guess - low_ms, high_ms - guess)
        return TimeLag.since(guess, self._now_ms, TimeLagMethod.INTERPOLATED, error_ms)

    def _ago(self, timestamp_ms: int) -> int:
        return max(0, self._now_ms - timestamp_ms)

    def _middle_ms(self) -> int:
        """Return the time at the geometric mean of the ages of both bounds: one minute
        for an hour and a second."""
        assert self._low is not None
        longest, shortest = self._ago(self._low[1]), self._ago(self._high[1])
        return self._now_ms - isqrt(max(longest, 1) * max(shortest, _CLOSE_MS))

    def _even_ms(self) -> int:
        assert self._low is not None
        low, low_ms = self._low
        high, high_ms = self._high
        share = (self.position.next_offset - low) / (high - low)
        return low_ms + int(share * (high_ms - low_ms))
