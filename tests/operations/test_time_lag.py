"""The lag of groups in milliseconds."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.client.admin.log_offsets import AtTime
from coterie.operations.lag import group_lag, with_time_lags
from coterie.operations.time_lag import (
    FETCHES_MAX,
    NO_LAG,
    ROUNDS_MAX,
    LagPosition,
    TimeLag,
    TimeLagMethod,
    time_lags,
)
from coterie.types import TopicPartition

from .fake_admin import FakeAdmin, FakeLog, group

T0 = TopicPartition("t", 0)
DAY = 86_400_000


def time_lag_of(log: FakeLog, next_offset: int, now_ms: int) -> TimeLag:
    place = LagPosition(T0, next_offset, log.end)
    admin = FakeAdmin(known_logs={T0: log}, cannot_read=True)
    found = asyncio.run(time_lags(admin, [place], now_ms=now_ms))
    assert len(admin.logs_asked) <= ROUNDS_MAX
    return found[place]


def test_the_time_lag_uses_the_timestamp_of_the_record() -> None:
    admin = FakeAdmin(known_logs={T0: FakeLog(5, [1_000, 2_000, 3_000])})
    place, later = LagPosition(T0, 6, 8), LagPosition(T0, 7, 8)
    found = asyncio.run(time_lags(admin, [place, later, place], now_ms=10_000))
    assert found[place] == TimeLag(8_000, TimeLagMethod.EXACT, 0)
    assert found[later] == TimeLag(7_000, TimeLagMethod.EXACT, 0)
    assert admin.calls == ["first_records"]


def test_many_records_are_searched_by_time_in_shared_rounds() -> None:
    partitions = [TopicPartition("t", number) for number in range(FETCHES_MAX + 9)]
    admin = FakeAdmin(known_logs={at: FakeLog(0, [1_000, 2_000]) for at in partitions})
    places = [LagPosition(at, 0, 2) for at in partitions]
    found = asyncio.run(time_lags(admin, places, now_ms=10_000))
    assert {each.ms for each in found.values()} == {9_000}
    assert admin.calls == ["first_records", "list_offsets"]
    assert len(admin.logs_asked[0][0]) == 9


def test_a_group_at_the_log_end_has_time_lag_zero_without_a_request() -> None:
    admin = FakeAdmin()
    place = LagPosition(T0, 9, 9)
    found = asyncio.run(time_lags(admin, [place], now_ms=DAY))
    assert found == {place: TimeLag(0, TimeLagMethod.EXACT, 0)}
    assert not admin.calls


def test_the_oldest_record_is_found_in_one_round() -> None:
    log = FakeLog(5, [1_000, 2_000, 3_000])
    assert time_lag_of(log, 5, 10_000) == TimeLag(9_000, TimeLagMethod.EXACT, 0)


def test_a_compacted_record_is_replaced_by_the_next_one() -> None:
    log = FakeLog(5, [1_000, 2_000, 3_000])
    assert time_lag_of(log, 4, 10_000) == TimeLag(9_000, TimeLagMethod.EXACT, 0)


def test_records_without_timestamps_have_an_unknown_time_lag() -> None:
    assert time_lag_of(FakeLog(0, [-1, -1]), 1, 10_000) == TimeLag()


def test_a_record_without_a_timestamp_has_an_unknown_time_lag() -> None:
    place = LagPosition(T0, 1, 3)
    admin = FakeAdmin(known_logs={T0: FakeLog(0, [1_000, -1, 3_000])})
    found = asyncio.run(time_lags(admin, [place], now_ms=10_000))
    assert found[place] == TimeLag()


def test_a_marker_at_the_end_is_no_unread_record() -> None:
    log = FakeLog(0, [1_000, 2_000, 3_000], markers=frozenset({2}))
    places = [LagPosition(T0, offset, 3) for offset in (1, 2)]
    found = asyncio.run(time_lags(FakeAdmin(known_logs={T0: log}), places, now_ms=DAY))
    assert found[places[0]] == TimeLag(DAY - 2_000, TimeLagMethod.EXACT, 0)
    assert found[places[1]] == NO_LAG


def test_a_record_written_after_the_end_was_listed_is_not_unread_yet() -> None:
    log = FakeLog(0, [1_000, 2_000, 3_000], markers=frozenset({1}))
    place = LagPosition(T0, 1, 2)
    found = asyncio.run(time_lags(FakeAdmin(known_logs={T0: log}), [place], now_ms=DAY))
    assert found[place] == NO_LAG


def test_a_position_below_a_marker_counts_from_the_record_behind_it() -> None:
    log = FakeLog(0, [1_000, 2_000, 3_000], markers=frozenset({0, 1}))
    place = LagPosition(T0, 0, 3)
    found = asyncio.run(
        time_lags(FakeAdmin(known_logs={T0: log}), [place], now_ms=10_000)
    )
    assert found[place] == TimeLag(7_000, TimeLagMethod.EXACT, 0)


def test_an_unreadable_log_has_an_unknown_time_lag() -> None:
    place = LagPosition(T0, 1, 2)
    found = asyncio.run(time_lags(FakeAdmin(), [place], now_ms=10))
    assert found[place] == TimeLag(None, TimeLagMethod.UNKNOWN, None)


def test_a_record_from_the_future_has_time_lag_zero() -> None:
    found = time_lag_of(FakeLog(0, [1_000, 90_000, 90_001]), 1, 50_000)
    assert found.ms == 0


@settings(max_examples=50)
@given(
    gaps=st.lists(st.integers(0, DAY), min_size=2, max_size=30),
    at=st.integers(0, 29),
    since_last=st.integers(0, DAY),
)
def test_the_true_lag_is_within_the_returned_error(
    gaps: list[int], at: int, since_last: int
) -> None:
    times = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    next_offset, now_ms = at % len(times), times[-1] + since_last
    found = time_lag_of(FakeLog(0, times), next_offset, now_ms)
    assert found.ms is not None
    assert found.error_ms is not None
    true_ms = now_ms - times[next_offset]
    assert abs(found.ms - true_ms) <= found.error_ms
    if found.method is TimeLagMethod.EXACT:
        assert found.error_ms == 0


@pytest.mark.parametrize("age_ms", [2_000, 60_000, DAY // 24, 6 * DAY])
def test_the_time_lag_in_a_week_of_records_is_within_a_few_percent(age_ms: int) -> None:
    now_ms = 7 * DAY
    times = list(range(0, now_ms, 1_000))
    found = time_lag_of(FakeLog(0, times), len(times) - age_ms // 1_000, now_ms)
    assert found.ms is not None
    assert found.error_ms is not None
    assert found.error_ms <= max(1_000, age_ms // 20)
    assert abs(found.ms - age_ms) <= found.error_ms


@pytest.mark.parametrize("next_offset", [1, 500, 998])
def test_evenly_spaced_records_are_found_in_two_rounds(next_offset: int) -> None:
    admin = FakeAdmin(known_logs={T0: FakeLog.of(0, 1_000)}, cannot_read=True)
    place = LagPosition(T0, next_offset, 1_000)
    found = asyncio.run(time_lags(admin, [place], now_ms=1_000_000))
    error_ms = found[place].error_ms
    assert error_ms is not None
    assert error_ms <= 1_000
    assert len(admin.logs_asked) == 2


def test_each_time_that_is_tried_lies_between_the_bounds() -> None:
    # 1 ms apart: a time at or beyond a bound would narrow nothing.
    admin = FakeAdmin(
        known_logs={T0: FakeLog.of(0, 9_000, step_ms=1)}, cannot_read=True
    )
    place = LagPosition(T0, 1, 1_000_000)
    asyncio.run(time_lags(admin, [place], now_ms=9_000))
    tried = [
        spec.timestamp_ms
        for name, wanted in admin.requests
        if name == "list_offsets" and isinstance(wanted, dict)
        for spec in wanted.values()
        if isinstance(spec, AtTime)
    ]
    assert len(tried) == len({*tried})
    assert all(0 < each <= 9_000 for each in tried[1:])


def test_groups_at_one_offset_share_a_request() -> None:
    admin = FakeAdmin(known_logs={T0: FakeLog(0, [1_000, 2_000, 3_000])})
    for name, offset in (("a", 0), ("b", 0), ("c", 2), ("d", 3)):
        admin.add(group(name), t=offset)
    found = asyncio.run(group_lag(admin, "abcd"))
    admin.requests.clear()
    timed = asyncio.run(with_time_lags(admin, found, now_ms=10_000))
    assert [row.time_lag_ms for row in timed.rows] == [9_000, 9_000, 7_000, 0]
    assert [argument for _, argument in admin.requests] == [{T0: [0, 2]}]
