"""Lag in milliseconds: the age of the first record that a group has not read.

Each result names its method:

- exact: the lag is 0 without an unread record; otherwise the record's timestamp was
  read.
- interpolated: the timestamp lies between two known times and is interpolated as if
  records were evenly distributed; `error_ms` bounds the error.
- unknown: the broker could not provide it; the value is null.

Reading a timestamp takes a Fetch of its batch, with READ on the topic and one request
per record. Without that permission, and for many records, the offset is searched by
time: ListOffsets returns the first record at or after a time, until that is the wanted
record or the times around it are close. A search needs DESCRIBE only, and one request
for each broker and round, whatever the number of partitions.

Timestamps are assumed to grow with offsets. Where producers set them
(message.timestamp.type=CreateTime) and their clocks differ, a result may be off by that
difference. A record with a timestamp in the future has age 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from math import isqrt
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from coterie.client.admin.log_offsets import AtTime, LogOffsetInfo
from coterie.types import LogOffset, TopicPartition

if TYPE_CHECKING:
    from coterie.client.admin.admin_client import AdminClient

T = TypeVar("T")

FETCHES_MAX: Final = 200
"""The most records whose timestamps are fetched; more are searched by time."""
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


async def time_lags(
    admin: AdminClient, positions: Iterable[LagPosition], *, now_ms: int
) -> dict[LagPosition, TimeLag]:
    """Return the age at `now_ms` of the first record from each position on."""
    lags: dict[LagPosition, TimeLag] = {}
    behind: list[LagPosition] = []
    for each in dict.fromkeys(positions):
        if each.next_offset >= each.end:
            lags[each] = TimeLag(0, TimeLagMethod.EXACT, 0)
        else:
            behind.append(each)
    if len(behind) <= FETCHES_MAX:
        for batch in _one_a_partition(behind, lambda each: each.partition):
            offsets = {at: each.next_offset for at, each in batch.items()}
            for at, time_ms in (await admin.record_times(offsets)).values.items():
                if time_ms >= 0:
                    age_ms = max(0, now_ms - time_ms)
                    lags[batch[at]] = TimeLag(age_ms, TimeLagMethod.EXACT, 0)
    searches = [_Search(each, now_ms) for each in behind if each not in lags]
    for _ in range(ROUNDS_MAX):
        if not (running := [each for each in searches if not each.is_done]):
            break
        await _run_round(admin, running)
    return lags | {each.position: each.result() for each in searches}


async def _run_round(admin: AdminClient, searches: Iterable[_Search]) -> None:
    # Two positions of one partition take two requests.
    for batch in _one_a_partition(searches, lambda each: each.position.partition):
        guesses = {at: AtTime(each.guess_ms()) for at, each in batch.items()}
        listed = await admin.list_offsets(guesses)
        for at, search in batch.items():
            search.narrow(guesses[at].timestamp_ms, listed.values.get(at))


def _one_a_partition(
    items: Iterable[T], partition: Callable[[T], TopicPartition]
) -> list[dict[TopicPartition, T]]:
    """Split items into rounds, each with at most one item per partition."""
    rounds: list[dict[TopicPartition, T]] = []
    for item in items:
        at = partition(item)
        fitting = next((each for each in rounds if at not in each), None)
        if fitting is None:
            rounds.append(fitting := {})
        fitting[at] = item
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

    def narrow(self, tried_ms: int, info: LogOffsetInfo | None) -> None:
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
            return TimeLag(self._ago(self._exact_ms), TimeLagMethod.EXACT, 0)
        if self._is_lost or self._low is None:
            return TimeLag()
        guess, low_ms, high_ms = self._even_ms(), self._low[1], self._high[1]
        error_ms = max(guess - low_ms, high_ms - guess)
        return TimeLag(self._ago(guess), TimeLagMethod.INTERPOLATED, error_ms)

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
