"""The time of a log does not follow records of a wrong clock."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.pipeline.lake.log_clock import LogClock, current_time_us, first_time_us

DAY_US = 86_400_000_000
LATE = 10_000


def clock_of(*days: float, size: int = 1, wall: float = LATE) -> LogClock:
    """Return the clock after records at these days, added `size` at a time on the day
    `wall`."""
    clock = LogClock(log_partition=0)
    times = np.array([round(each * DAY_US) for each in days], np.int64)
    for begin in range(0, len(times), size):
        clock.add(times[begin : begin + size], round(wall * DAY_US))
    return clock


def in_ranges(*days: float, size: int, wall: float = LATE) -> LogClock:
    """Return the clock after ranges of `size` records each."""
    clock = LogClock(log_partition=0)
    for begin in range(0, len(days), size):
        clock.add_range(clock_of(*days[begin : begin + size], wall=wall))
    return clock


def now(*clocks: LogClock) -> float | None:
    time_us = current_time_us(clocks)
    return None if time_us is None else time_us / DAY_US


STORIES = [
    # the days of the records; the current time; the records of a wrong clock
    ((), None, 0),
    ((5,), 5, 0),
    ((5, 5.1, 5.2), 5.2, 0),
    ((5, 5.5, 6.4, 7.3), 7.3, 0),
    ((5, 5.1, 35, 5.2, 5.3), 5.3, 1),  # ahead
    ((5, 5.1, 35), 5.1, 1),  # the last one
    ((35, 5, 5.1, 5.2), 5.2, 1),  # the first one
    ((5, 5.1, 0, 5.2), 5.2, 1),  # in the past
    ((0, 5, 5.1, 5.2), 5.2, 0),  # or a pause
    ((5, 12, 19, 26), 19, 1),  # a job that runs once a week: the last one is in doubt
    ((5, 12, 19, 26, 26.1), 26.1, 0),
    ((5, 40, 12, 12.1), 12.1, 1),  # a wrong clock in a pause
    ((5, 40, 0, 5.1), 5.1, 2),
    ((5, 5.1, 35, 35.1, 5.2, 5.3), 5.3, 1),  # two of a wrong clock
]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(("days", "expected", "off_clock"), STORIES)
def test_single_records_do_not_move_the_time(
    days: tuple[float, ...], expected: float | None, off_clock: int, size: int
) -> None:
    clock = clock_of(*days, size=size)
    assert (now(clock), clock.off_clock) == (expected, off_clock)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(("days", "expected", "off_clock"), STORIES)
def test_ranges_give_the_time_of_all_their_records(
    days: tuple[float, ...], expected: float | None, off_clock: int, size: int
) -> None:
    assert now(in_ranges(*days, size=size)) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ((), None),
        ((5,), 5),
        ((5.2, 5.1, 5.3), 5.1),
        ((5, 5.1, 0, 5.2), 5),  # a record of a wrong clock
        ((0, 5, 5.1, 5.2), 5),  # the first one
        ((35, 5, 5.1, 5.2), 5),
        ((0, 0.1, 5, 5.1), 0),  # a pause
    ],
)
def test_the_history_begins_with_the_oldest_time_that_two_records_have(
    days: tuple[float, ...], expected: float | None, size: int
) -> None:
    for clock in (clock_of(*days, size=size), in_ranges(*days, size=size)):
        oldest_us = first_time_us([clock])
        assert (None if oldest_us is None else oldest_us / DAY_US) == expected


def test_the_newest_log_partition_has_the_current_time() -> None:
    assert now(clock_of(5, 5.1), clock_of(7, 7.1), clock_of()) == 7.1


def test_records_of_two_log_partitions_confirm_each_other() -> None:
    assert now(clock_of(5, 5.1, 8), clock_of(5, 8.2)) == 8.2
    assert now(clock_of(5, 5.1, 35), clock_of(5, 8.2)) == 5.1


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("days", "off_clock"),
    [
        ((5, 5.1, 35), 1),
        ((5, 5.1, 35, 35.1, 35.2), 3),
        ((35, 35.1, 5, 5.1, 65, 35), 4),
        ((5, 35, 5.05, 35, 5.1, 35, 35, 35), 5),
    ],
)
def test_a_time_after_that_of_the_reader_never_counts(
    days: tuple[float, ...], off_clock: int, size: int
) -> None:
    clock = clock_of(*days, size=size, wall=6)
    assert (now(clock), clock.off_clock) == (5.1, off_clock)
    clock = in_ranges(*days, size=size, wall=6)
    assert (now(clock), clock.off_clock) == (5.1, off_clock)

    clock.add_range(clock_of(36, 36.1, wall=37))  # read a month later

    assert now(clock) == 36.1


def test_a_reader_may_be_the_one_with_the_wrong_clock() -> None:
    ahead = clock_of(35, 35.1, wall=6)
    assert now(ahead) == 35.1
    assert now(clock_of(5, 5.5), ahead) == 5.5
