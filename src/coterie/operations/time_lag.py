"""How far behind a group is in milliseconds: how long ago the first record that it has
not read was written.

Three methods, and a result always says which:

- exact: nothing is left to read (0), or the record was seen; its timestamp counts.
- interpolated: the timestamp lies between two known times; it is guessed between them
  as if records came evenly, and `error_ms` is how far off that can be.
- unknown: the broker could not say. There is no number then.

A record is seen by fetching its batch, which takes the right to read the topic and a
request for each. Where that is refused, and where records are many, times are tried
instead: a broker says which record is the first one written at or after a time
(ListOffsets), until the offset is met or the times around it lie close together. That
takes no more than the right to describe the topic, and one request a broker and round
for all partitions of it.

Timestamps are believed to grow with offsets. Where producers write them
(message.timestamp.type=CreateTime) and their clocks differ, an answer may be off by
that; a record from the future counts as just written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from math import isqrt
from typing import Final, NamedTuple, TypeVar

from coterie.client.admin.offset_values import AtTime, LogOffsetFound
from coterie.client.admin.results import Results
from coterie.operations.admin import GroupReader, RecordReader
from coterie.types import LogOffset, TopicPartition

T = TypeVar("T")

FETCHES_MAX: Final = 200
"""So many records are fetched; more are searched for by time."""
ROUNDS_MAX: Final = 12
"""How many times are tried before what is known must do."""
_CLOSE_MS: Final = 1_000
"""Times this close together need no further round ..."""
_CLOSE_SHARE: Final = 50
"""... nor those within this part of the lag itself."""


class TimeLagMethod(Enum):
    """How a time lag is known."""

    EXACT = "exact"
    INTERPOLATED = "interpolated"
    UNKNOWN = "unknown"


class Behind(NamedTuple):
    """A place in a log that somebody reads next, and where the log ends."""

    partition: TopicPartition
    next_offset: LogOffset
    end: LogOffset


@dataclass(frozen=True, slots=True)
class TimeLag:
    """How far behind. `error_ms` bounds what an interpolated one may be off."""

    ms: int | None = None
    method: TimeLagMethod = TimeLagMethod.UNKNOWN
    error_ms: int | None = None


async def time_lags(
    admin: RecordReader, places: Iterable[Behind], *, now_ms: int
) -> dict[Behind, TimeLag]:
    """How long ago the first record from each place on was written."""
    wanted = list(dict.fromkeys(places))
    found = {
        each: TimeLag(0, TimeLagMethod.EXACT, 0)
        for each in wanted
        if each.next_offset >= each.end
    }
    behind = [each for each in wanted if each not in found]
    if len(behind) <= FETCHES_MAX:
        found |= await _fetched(admin, behind, now_ms)
    searches = [_Search(each, now_ms) for each in behind if each not in found]
    for _ in range(ROUNDS_MAX):
        if not (open_ones := [each for each in searches if not each.is_done]):
            break
        await _try_times(admin, open_ones)
    return found | {each.place: each.answer() for each in searches}


async def _fetched(
    admin: RecordReader, places: Iterable[Behind], now_ms: int
) -> dict[Behind, TimeLag]:
    """What the records themselves say; nothing of those that cannot be seen."""
    found: dict[Behind, TimeLag] = {}
    for some in _one_a_partition(places, lambda each: each.partition):
        wanted = {at: each.next_offset for at, each in some.items()}
        times = await admin.record_times(wanted)
        found |= {
            some[at]: TimeLag(max(0, now_ms - time_ms), TimeLagMethod.EXACT, 0)
            for at, time_ms in times.values.items()
            if time_ms >= 0
        }
    return found


def _one_a_partition(
    items: Iterable[T], partition: Callable[[T], TopicPartition]
) -> Iterator[dict[TopicPartition, T]]:
    """Items in as few rounds as can be, in none of which a partition comes twice."""
    rounds: list[dict[TopicPartition, T]] = []
    for item in items:
        at = partition(item)
        fitting = next((each for each in rounds if at not in each), None)
        if fitting is None:
            rounds.append(fitting := {})
        fitting[at] = item
    yield from rounds


async def _try_times(admin: GroupReader, searches: Iterable[_Search]) -> None:
    """One round. Two places of one partition take two requests."""
    for some in _one_a_partition(searches, lambda each: each.place.partition):
        guesses = {at: AtTime(each.guess_ms()) for at, each in some.items()}
        _learn(some, guesses, await admin.list_offsets(guesses))


def _learn(
    searches: Mapping[TopicPartition, _Search],
    guesses: Mapping[TopicPartition, AtTime],
    answers: Results[TopicPartition, LogOffsetFound],
) -> None:
    for partition, search in searches.items():
        if (answer := answers.values.get(partition)) is None:
            search.give_up()
        else:
            search.learn(guesses[partition].timestamp_ms, answer)


class _Search:
    """Where the timestamp of one record lies: at least `_low_ms`, below `_high_ms`."""

    def __init__(self, place: Behind, now_ms: int) -> None:
        self.place = place
        self._now_ms = now_ms
        self._low: tuple[LogOffset, int] | None = None
        self._high = (place.end, now_ms + 1)
        self._exact_ms: int | None = None
        self._is_lost = False
        self._rounds = 0

    @property
    def is_done(self) -> bool:
        """Whether another round would not help."""
        if self._is_lost or self._exact_ms is not None:
            return True
        if self._low is None:
            return False
        low_ms, high_ms = self._low[1], self._high[1]
        close_ms = max(_CLOSE_MS, (self._now_ms - low_ms) // _CLOSE_SHARE)
        return high_ms - low_ms <= close_ms

    def guess_ms(self) -> int:
        """The time to try next: where an even log would have it, and in the
        middle every other time, so that a log with gaps cannot keep us long."""
        self._rounds += 1
        if self._low is None:
            return 0
        low_ms, high_ms = self._low[1], self._high[1]
        guess = self._middle_ms() if self._rounds % 2 else self._even_ms()
        return min(max(guess, low_ms + 1), high_ms - 1)

    def learn(self, asked_ms: int, answer: LogOffsetFound) -> None:
        """The first record that is no older than `asked_ms`."""
        wanted = self.place.next_offset
        is_beyond = answer.offset < 0 or answer.offset > wanted
        if answer.offset == wanted:
            self._exact_ms = answer.timestamp_ms
        elif not is_beyond:
            if answer.timestamp_ms < 0:
                self.give_up()  # records without timestamps
            else:
                self._rise(answer.offset, answer.timestamp_ms)
        elif self._low is None:
            # Even the oldest timestamp comes after: the record itself was compacted
            # away, and what is to be read next is the one we were told of.
            self._exact_ms = answer.timestamp_ms if answer.offset >= 0 else None
            self._is_lost = answer.offset < 0
        else:
            end = self.place.end if answer.offset < 0 else answer.offset
            self._high = (end, asked_ms)

    def _rise(self, offset: LogOffset, timestamp_ms: int) -> None:
        self._low = (offset, timestamp_ms)
        if timestamp_ms >= self._high[1]:
            # What is older than a known time has an earlier timestamp, so this one is
            # from the future: beyond the time at which we started.
            self._exact_ms = timestamp_ms

    def give_up(self) -> None:
        """The broker cannot say."""
        self._is_lost = True

    def answer(self) -> TimeLag:
        """What is known now."""
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
        """In the middle by ratio: of "an hour ago" and "a second ago", a minute ago."""
        assert self._low is not None
        longest, shortest = self._ago(self._low[1]), self._ago(self._high[1])
        return self._now_ms - isqrt(max(longest, 1) * max(shortest, _CLOSE_MS))

    def _even_ms(self) -> int:
        assert self._low is not None
        low, low_ms = self._low
        high, high_ms = self._high
        share = (self.place.next_offset - low) / (high - low)
        return low_ms + int(share * (high_ms - low_ms))
