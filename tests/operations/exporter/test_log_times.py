"""The times of log offsets that polls collect."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.operations.exporter.log_times import (
    POINTS_MAX,
    REFUSED_MS,
    ROUNDS_MAX,
    LogTimes,
)
from coterie.operations.time_lag import (
    FETCHES_MAX,
    LagPosition,
    TimeLag,
    TimeLagMethod,
)
from coterie.types import TopicPartition
from tests.operations.fake_admin import FakeAdmin, FakeLog

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
INTERVAL_MS = 30_000
HOUR_MS = 3_600_000


def ends_added(*ends: tuple[int, int]) -> LogTimes:
    """Return the times of a log with polls (end, ms)."""
    times = LogTimes(INTERVAL_MS)
    for end, at_ms in ends:
        times.add_ends({T0: end}, at_ms, at_ms)
    return times


def refined(times: LogTimes, admin: FakeAdmin, now_ms: int, *offsets: int) -> None:
    positions = [LagPosition(T0, each, admin.logs[T0].end) for each in offsets]
    asyncio.run(times.time_lags(admin, positions, now_ms))


def test_a_group_at_the_log_end_has_no_time_lag() -> None:
    times = LogTimes(INTERVAL_MS)
    lag = times.time_lag(LagPosition(T0, 9, 9), HOUR_MS)
    assert lag == TimeLag(0, TimeLagMethod.EXACT, 0)


def test_a_record_between_two_polls_is_interpolated_with_the_bound_of_its_error() -> (
    None
):
    times = ends_added((100, 0), (200, 30_000))
    lag = times.time_lag(LagPosition(T0, 150, 200), 40_000)
    assert lag == TimeLag(25_000, TimeLagMethod.INTERPOLATED, 15_000)


def test_a_log_that_was_idle_bounds_its_next_record_by_the_last_poll_before() -> None:
    times = ends_added((100, 0), (100, HOUR_MS), (101, HOUR_MS + 1_000))
    lag = times.time_lag(LagPosition(T0, 100, 101), HOUR_MS + 1_000)
    assert lag == TimeLag(1_000, TimeLagMethod.INTERPOLATED, 1_000)


def test_a_record_older_than_the_polls_is_unknown_until_it_is_queried() -> None:
    admin = FakeAdmin(logs={T0: FakeLog.of(0, 100, step_ms=1_000)})
    times = ends_added((100, 100_000))
    position = LagPosition(T0, 40, 100)
    assert times.time_lag(position, 100_000) == TimeLag()
    refined(times, admin, 100_000, 40)
    assert times.time_lag(position, 100_000) == TimeLag(60_000, TimeLagMethod.EXACT, 0)


def test_one_query_a_partition_and_round_serves_all_groups_on_it() -> None:
    admin = FakeAdmin(logs={T0: FakeLog.of(0, 1_000, step_ms=10_000)})
    times = ends_added((1_000, 10_000_000))
    refined(times, admin, 10_000_000, *range(1_000))
    assert admin.calls == ["record_times"] * ROUNDS_MAX
    lag = times.time_lag(LagPosition(T0, 500, 1_000), 10_000_000)
    assert lag.ms is not None
    assert lag.error_ms is not None
    assert abs(lag.ms - 5_000_000) <= lag.error_ms


def test_queries_end_when_the_positions_are_accurate() -> None:
    admin = FakeAdmin(logs={T0: FakeLog.of(0, 1_000, step_ms=10_000)})
    times = ends_added((1_000, 10_000_000))
    for _ in range(10):
        refined(times, admin, 10_000_000, *range(990))
    admin.calls.clear()
    refined(times, admin, 10_000_000, *range(990))
    assert not admin.calls


def test_accurate_positions_are_not_queried() -> None:
    admin = FakeAdmin(logs={T0: FakeLog.of(0, 200)})
    refined(ends_added((100, 0), (200, 30_000)), admin, 40_000, 150)
    assert not admin.calls


def test_a_partition_without_timestamps_is_queried_again_after_a_while() -> None:
    admin = FakeAdmin(logs={T0: FakeLog(0, [-1, -1])}, cannot_read=True)
    times = ends_added((2, HOUR_MS))
    refined(times, admin, HOUR_MS, 1)
    queries = len(admin.calls)
    times.add_ends({T0: 2}, HOUR_MS + 1, HOUR_MS + 1)
    refined(times, admin, HOUR_MS + 1, 1)
    assert len(admin.calls) == queries
    later_ms = HOUR_MS + REFUSED_MS
    times.add_ends({T0: 2}, later_ms, later_ms)
    refined(times, admin, later_ms, 1)
    assert len(admin.calls) > queries


def test_a_round_queries_a_bounded_number_of_partitions() -> None:
    logs = {
        TopicPartition("t", number): FakeLog.of(0, 10)
        for number in range(2 * FETCHES_MAX)
    }
    admin, times = FakeAdmin(logs=logs), LogTimes(INTERVAL_MS)
    times.add_ends(dict.fromkeys(logs, 10), HOUR_MS, HOUR_MS)
    positions = [LagPosition(at, 3, 10) for at in logs]
    asyncio.run(times.time_lags(admin, positions, HOUR_MS))
    assert all(len(dict(each)) <= FETCHES_MAX for _, each in admin.requests)  # type: ignore[call-overload]
    assert {times.time_lag(each, HOUR_MS).method for each in positions} == {
        TimeLagMethod.EXACT
    }


def test_the_points_of_a_log_that_was_created_again_are_forgotten() -> None:
    times = ends_added((100, 0), (200, 30_000), (10, 60_000))
    assert times.time_lag(LagPosition(T0, 150, 200), 60_000) == TimeLag()


def test_the_points_of_a_log_without_groups_are_forgotten() -> None:
    times = ends_added((100, 0), (200, 30_000))
    times.add_ends({T1: 5}, 60_000, 60_000)
    times.add_ends({T0: 200}, 90_000, 90_000)
    assert times.time_lag(LagPosition(T0, 150, 200), 90_000) == TimeLag()


def test_old_points_are_thinned_and_the_oldest_is_kept() -> None:
    times = ends_added(*((10 * poll, 1_000 * poll) for poll in range(1_000)))
    points = times._logs[T0]
    assert len(points.offsets) <= POINTS_MAX
    assert points.offsets[0] == 0
    assert points.offsets[-20:].tolist() == [10 * poll for poll in range(980, 1_000)]


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 40_000), min_size=1, max_size=120),
    st.lists(st.integers(1, 60_000), min_size=1, max_size=60),
    st.data(),
)
def test_the_error_bounds_the_true_age(
    gaps: list[int], pauses: list[int], data: st.DataObject
) -> None:
    written = list(accumulate(gaps))
    times, now_ms, end = LogTimes(INTERVAL_MS), 0, 0
    admin = FakeAdmin(logs={T0: FakeLog(0, written)})
    for pause in pauses:
        now_ms += pause
        end = bisect_right(written, now_ms)
        times.add_ends({T0: end}, now_ms, now_ms)
        if data.draw(st.booleans()) and end:
            admin.logs = {T0: FakeLog(0, written[:end])}
            refined(times, admin, now_ms, data.draw(st.integers(0, end - 1)))
    for offset in range(end):
        lag = times.time_lag(LagPosition(T0, offset, end), now_ms)
        if lag.ms is not None and lag.error_ms is not None:
            assert abs(lag.ms - (now_ms - written[offset])) <= lag.error_ms
