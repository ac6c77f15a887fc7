"""What polls learn about the records of logs."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.operations.exporter.log_times import (
    POINTS_MAX,
    REFUSED_MS,
    LogTimes,
    _Points,
)
from coterie.operations.time_lag import (
    FETCHES_MAX,
    NO_LAG,
    LagPosition,
    TimeLag,
    TimeLagMethod,
)
from coterie.types import TopicPartition
from tests.operations.fake_admin import FakeAdmin, FakeLog

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
INTERVAL_MS = 30_000
HOUR_MS = 3_600_000
ID, OTHER_ID = "topic-id", "other-id"


class Polls:
    """Polls of a log whose records come later, and the positions of groups on it."""

    def __init__(self, log: FakeLog) -> None:
        self.admin = FakeAdmin(known_logs={T0: log})
        self.times = LogTimes(INTERVAL_MS)
        self.topic_id = ID

    def poll(self, now_ms: int, *offsets: int) -> list[TimeLag]:
        """Return the time lags of groups at some offsets."""
        self.admin.calls.clear()
        ends = {at: log.end for at, log in self.admin.known_logs.items()}
        self.times.add_ends(ends, {"t": self.topic_id}, now_ms, now_ms)
        positions = [LagPosition(T0, each, ends[T0]) for each in offsets]
        found = asyncio.run(self.times.time_lags(self.admin, positions, now_ms))
        return [found[each] for each in positions]

    def append(self, *times_ms: int) -> None:
        log = self.admin.known_logs[T0]
        self.admin.known_logs[T0] = replace(log, times=[*log.times, *times_ms])

    @property
    def has_asked(self) -> bool:
        return bool(self.admin.calls)


def exact(age_ms: int) -> TimeLag:
    return TimeLag(age_ms, TimeLagMethod.EXACT, 0)


def test_a_group_at_the_log_end_has_no_time_lag() -> None:
    polls = Polls(FakeLog.of(0, 9))
    assert polls.poll(HOUR_MS, 9) == [NO_LAG]
    assert not polls.has_asked


def test_a_record_is_read_once_for_all_groups_and_polls() -> None:
    polls = Polls(FakeLog.of(0, 9, step_ms=1_000))
    assert polls.poll(HOUR_MS, 4, 4) == [exact(HOUR_MS - 4_000)] * 2
    assert polls.admin.requests == [("first_records", {T0: [4]})]
    polls.append(HOUR_MS)
    assert polls.poll(HOUR_MS + 1, 4) == [exact(HOUR_MS - 3_999)]
    assert not polls.has_asked


def test_old_times_of_mirrored_records_count_from_the_first_poll_on() -> None:
    polls = Polls(FakeLog(0, [0] * 5))
    polls.poll(2 * HOUR_MS, 5)
    for poll in range(1, 5):
        polls.append(*range(10))
        now_ms = 2 * HOUR_MS + poll * INTERVAL_MS
        assert polls.poll(now_ms, 5) == [exact(now_ms)]


def test_a_record_from_the_future_has_age_zero_until_its_time() -> None:
    polls = Polls(FakeLog(0, [HOUR_MS]))
    assert polls.poll(HOUR_MS - 10_000, 0) == [exact(0)]
    assert polls.poll(HOUR_MS + 10_000, 0) == [exact(10_000)]


def test_a_marker_that_is_left_has_no_age_and_is_read_once() -> None:
    polls = Polls(FakeLog(0, [0, 0], markers=frozenset({1})))
    assert polls.poll(HOUR_MS, 1) == [NO_LAG]
    assert polls.poll(2 * HOUR_MS, 1) == [NO_LAG]
    assert not polls.has_asked
    polls.append(2 * HOUR_MS)
    assert polls.poll(3 * HOUR_MS, 1) == [exact(HOUR_MS)]


@pytest.mark.parametrize("grown_to", [100, 300])
def test_what_was_known_of_a_topic_created_again_is_forgotten(grown_to: int) -> None:
    polls = Polls(FakeLog.of(0, 200, step_ms=1))
    assert polls.poll(HOUR_MS, 50) == [exact(HOUR_MS - 50)]
    polls.admin.known_logs[T0] = FakeLog(0, [HOUR_MS + 5_000] * grown_to)
    polls.topic_id = OTHER_ID
    assert polls.poll(HOUR_MS + 10_000, 50) == [exact(5_000)]


def test_a_log_that_became_shorter_was_created_again_on_old_brokers() -> None:
    polls = Polls(FakeLog.of(0, 200, step_ms=1))
    polls.poll(HOUR_MS, 50)
    polls.admin.known_logs[T0] = FakeLog(0, [HOUR_MS + 5_000] * 100)
    assert polls.poll(HOUR_MS + 10_000, 50) == [exact(5_000)]


def test_the_records_of_a_log_without_groups_are_forgotten() -> None:
    polls = Polls(FakeLog.of(0, 200))
    polls.poll(HOUR_MS, 50)
    polls.times.add_ends({T1: 5}, {}, HOUR_MS, HOUR_MS)
    polls.poll(HOUR_MS, 50)
    assert polls.has_asked


def test_a_partition_without_timestamps_is_queried_again_after_a_while() -> None:
    polls = Polls(FakeLog(0, [-1, -1]))
    assert polls.poll(HOUR_MS, 1) == [TimeLag()]
    assert polls.has_asked
    polls.poll(HOUR_MS + 1, 1)
    assert not polls.has_asked
    polls.poll(HOUR_MS + REFUSED_MS, 1)
    assert polls.has_asked


def many_positions(polls: Polls, now_ms: int) -> dict[LagPosition, TimeLag]:
    """Poll groups at every offset of a log that is longer than the bound of fetches."""
    end = polls.admin.known_logs[T0].end
    assert end > 2 * FETCHES_MAX
    positions = [LagPosition(T0, each, end) for each in range(end)]
    return asyncio.run(polls.times.time_lags(polls.admin, positions, now_ms))


def test_more_records_than_fetches_are_interpolated_between_polls() -> None:
    polls = Polls(FakeLog(0, []))
    polls.poll(0)
    count = 3 * FETCHES_MAX
    polls.append(*(each * INTERVAL_MS // count for each in range(count)))
    polls.poll(INTERVAL_MS)
    polls.append(*[INTERVAL_MS + 1] * 9)
    polls.poll(INTERVAL_MS + 2)
    found = many_positions(polls, INTERVAL_MS + 2)
    [asked] = [wanted for name, wanted in polls.admin.requests if wanted]
    assert isinstance(asked, dict)
    assert len(asked[T0]) == FETCHES_MAX
    assert {each.method for each in found.values()} == {
        TimeLagMethod.EXACT,
        TimeLagMethod.INTERPOLATED,
    }
    for position, lag in found.items():
        assert lag.ms is not None
        assert lag.error_ms is not None
        true_ms = (
            INTERVAL_MS + 2 - polls.admin.known_logs[T0].times[position.next_offset]
        )
        assert abs(lag.ms - true_ms) <= lag.error_ms


def test_a_log_of_mirrored_records_is_not_interpolated_between_polls() -> None:
    polls = Polls(FakeLog(0, []))
    polls.poll(9 * HOUR_MS)
    polls.append(*range(3 * FETCHES_MAX))
    polls.poll(9 * HOUR_MS + INTERVAL_MS)
    found = many_positions(polls, 9 * HOUR_MS + INTERVAL_MS)
    assert {each.method for each in found.values()} == {
        TimeLagMethod.EXACT,
        TimeLagMethod.UNKNOWN,
    }


def test_other_logs_without_estimates_are_searched_by_time_one_position_each() -> None:
    logs = {TopicPartition("t", each): FakeLog.of(0, 9) for each in range(900)}
    admin, times = FakeAdmin(known_logs=logs), LogTimes(INTERVAL_MS)
    times.add_ends(dict.fromkeys(logs, 9), {"t": ID}, HOUR_MS, HOUR_MS)
    positions = [LagPosition(at, 3, 9) for at in logs]
    found = asyncio.run(times.time_lags(admin, positions, HOUR_MS))
    for lag in found.values():
        assert lag.ms is not None
        assert lag.error_ms is not None
        assert abs(lag.ms - (HOUR_MS - 3_000)) <= lag.error_ms
    assert admin.calls[0] == "first_records"
    assert {len(asked) for asked, _ in admin.logs_asked} == {900 - FETCHES_MAX}


def test_old_points_are_thinned_and_the_oldest_is_kept() -> None:
    points = _Points()
    for poll in range(1_000):
        points.add_end(10 * poll, 1_000 * poll, 1_000 * poll)
    assert len(points.offsets) <= POINTS_MAX
    assert points.offsets[0] == 0
    assert points.offsets[-20:].tolist() == [10 * poll for poll in range(980, 1_000)]


def test_an_idle_log_bounds_its_next_record_by_the_last_poll_before_it() -> None:
    points = _Points()
    points.add_end(100, 0, 0)
    points.add_end(100, HOUR_MS, HOUR_MS)
    points.add_end(101, HOUR_MS + 1_000, HOUR_MS + 1_000)
    assert points.bounds(100) == (HOUR_MS, HOUR_MS, HOUR_MS + 1_000)


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 40_000), min_size=1, max_size=120),
    st.lists(st.integers(1, 60_000), min_size=1, max_size=60),
    st.data(),
)
def test_points_bound_the_true_time(
    gaps: list[int], pauses: list[int], data: st.DataObject
) -> None:
    written = list(accumulate(gaps))
    points, now_ms, end = _Points(), 0, 0
    for pause in pauses:
        now_ms += pause
        end = bisect_right(written, now_ms)
        points.add_end(end, now_ms, now_ms)
        if data.draw(st.booleans()) and end:
            offset = data.draw(st.integers(0, end - 1))
            points.add_record(offset, written[offset], written[offset])
    for offset in range(end):
        if (bounds := points.bounds(offset)) is not None:
            low_ms, guess_ms, high_ms = bounds
            assert low_ms <= written[offset] <= high_ms
            assert low_ms <= guess_ms <= high_ms
