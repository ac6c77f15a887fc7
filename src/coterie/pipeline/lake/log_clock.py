"""The time that the records of a log show, whatever single records say.

The current time of a lake is that of its newest records. Brokers write the times, and a
record of a broker with a wrong clock may be a month ahead: every other group would seem
to be idle since then, and its offsets expired. So a record more than a day from those
before it counts only once the next record of its log partition confirms it. A group is
never proposed for deletion within a day of its last activity, which covers smaller
errors. A record that is more than a day ahead of the computer that reads it never
counts, however many there are: no clock passes it later.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np

JUMP_US: Final = 24 * 60 * 60 * 1_000_000


class LogClock(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The time of a log partition, or of a range of it, after records in their order.
    Times are in microseconds since 1970."""

    log_partition: int
    from_offset: int = 0
    """The first offset of the range."""
    time_us: int | None = None
    """The newest time that is not in doubt; None before the first record."""
    before_us: int | None = None
    """The time before the last jump ahead, which might be one of a wrong clock."""
    doubt_us: int | None = None
    """The time of the last record, if it is far from `time_us`."""
    is_single: bool = True
    """Whether `time_us` is the time of one record only."""
    wrong: int = 0
    """The number of records whose time the next records or the reading computer's
    clock contradicted."""
    oldest_us: int | None = None
    """The oldest time that is within a day of another record's."""
    ahead_us: int | None = None
    """The newest time that the reading computer's clock contradicted."""

    @property
    def off_clock(self) -> int:
        """The number of records whose time is contradicted or in doubt."""
        return self.wrong + (self.doubt_us is not None)

    def add(self, times_us: Any, wall_us: int) -> None:
        """Add the times of records in their order, a numpy array; `wall_us` is the time
        of the computer that reads them."""
        is_ahead = times_us > wall_us + JUMP_US
        if is_ahead.any():
            ahead = times_us[is_ahead]
            self.wrong += len(ahead)
            self._add_ahead(int(ahead.max()))
            times_us = times_us[~is_ahead]
        if not len(times_us):
            return
        first = int(times_us[0]) if self.time_us is None else self.time_us
        if self.doubt_us is None and np.abs(times_us - first).max() <= JUMP_US:
            self.is_single = self.time_us is None and len(times_us) == 1
            if not self.is_single:
                self._add_oldest(min(first, int(times_us.min())))
            self.time_us = max(first, int(times_us.max()))
            return
        for each in times_us.tolist():
            self._add(each)

    def add_range(self, later: LogClock) -> None:
        """Add the records of a range that follows."""
        for time_us, is_single in (
            (later.before_us, False),
            (later.time_us, later.is_single),
            (later.doubt_us, True),
        ):
            if time_us is not None:
                self._add(time_us)
                if not is_single:
                    oldest_us = self.oldest_us
                    self._add(time_us)
                    self.oldest_us = oldest_us  # the same record does not confirm it
        self.wrong += later.wrong
        if later.oldest_us is not None:
            self._add_oldest(later.oldest_us)
        if later.ahead_us is not None:
            self._add_ahead(later.ahead_us)

    def _add_oldest(self, time_us: int) -> None:
        self.oldest_us = (
            time_us if self.oldest_us is None else min(self.oldest_us, time_us)
        )

    def _add_ahead(self, time_us: int) -> None:
        self.ahead_us = max(time_us, self.ahead_us or time_us)

    def _add(self, time_us: int) -> None:
        if self.time_us is None:
            self.time_us = time_us
            return
        if abs(time_us - self.time_us) <= JUMP_US:
            self._add_oldest(min(self.time_us, time_us))
            self.time_us = max(self.time_us, time_us)
            self.is_single = False
            self._drop_doubt()
            return
        doubt_us, is_ahead = self.doubt_us, time_us > self.time_us
        if doubt_us is None or (doubt_us > self.time_us) != is_ahead:
            self._drop_doubt()
            self.doubt_us = time_us
            return
        if is_ahead and time_us < doubt_us - JUMP_US:
            self._drop_doubt()
            self.doubt_us = time_us
            return
        # Two records in a row are later, or two are earlier: then the time was wrong.
        self.wrong += not is_ahead
        self.before_us = self.time_us if is_ahead else None
        self.time_us, self.is_single, self.doubt_us = doubt_us, True, None
        self._add(time_us)

    def _drop_doubt(self) -> None:
        self.wrong += self.doubt_us is not None
        self.doubt_us = None


def current_time_us(clocks: Iterable[LogClock]) -> int | None:
    """Return the current time of a lake; None without a record that has a time.

    Times ahead of the computer that read them count only if all were: then its clock is
    more likely to be wrong.
    """
    clocks = tuple(clocks)
    times = [
        each
        for clock in clocks
        for each in (clock.time_us, clock.before_us)
        if each is not None
    ]
    if not times:
        return max((each.ahead_us for each in clocks if each.ahead_us), default=None)
    doubts = sorted(
        each.doubt_us
        for each in clocks
        if each.doubt_us is not None and each.doubt_us > (each.time_us or 0)
    )
    # Records of two log partitions confirm each other.
    times += [
        later for earlier, later in pairwise(doubts) if later - earlier <= JUMP_US
    ]
    return max(times)


def first_time_us(clocks: Iterable[LogClock]) -> int | None:
    """Return the time at which the history of a lake begins; None without a record that
    has a time. A single record may have any time, by a wrong clock."""
    times = (
        each.time_us if each.oldest_us is None else each.oldest_us for each in clocks
    )
    return min((each for each in times if each is not None), default=None)
