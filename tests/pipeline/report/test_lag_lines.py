"""The lag of groups over time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from coterie.pipeline.report import lag_lines
from coterie.pipeline.report.lag_lines import LagSeries, carry_forward, time_grid
from tests.pipeline.lakes import ago
from tests.pipeline.report.memory_reader import memory_reader

Row = dict[str, Any]


def sample(partition: int, seconds: float, end: int | None, lag: int = 0) -> Row:
    return {
        "group_id": "g",
        "topic": "orders",
        "partition": partition,
        "sample_ts": ago(seconds=seconds),
        "log_end_offset": end,
        "committed_offset": None if end is None else end - lag,
        "lag": lag,
    }


def read_series(rows: list[Row]) -> LagSeries:
    offsets = [{"group_id": "g", "topic": "orders", "partition": at} for at in range(9)]
    reader = memory_reader({"lag_history": rows, "current_offsets": offsets})
    ((series,),) = lag_lines.lag_series(reader, ["g"]).values()
    return series


def test_the_newest_value_is_carried_forward() -> None:
    times, values = np.array([10, 20, 30]), np.array([1.0, 2.0, 3.0])
    grid = np.array([0, 10, 15, 20, 99])
    assert carry_forward(times, values, grid).tolist() == [1, 1, 1, 2, 3]


def test_the_sum_of_the_ends_of_logs_never_falls() -> None:
    # Partitions are sampled at different times, and some rounds miss partitions.
    rows = [
        sample(part, 600 - 10 * at - part / 3, 1_000 * part + 5 * at, lag=part)
        for at in range(60)
        for part in range(6)
        if (at + part) % 4
    ]
    series = read_series(rows)
    assert len(series.times) > 50
    assert all(before <= after for before, after in pairwise(series.end))
    assert set(series.lag) == {sum(range(6))}
    assert series.end[-1] == sum(
        max(row["log_end_offset"] for row in rows if row["partition"] == part)
        for part in range(6)
    )


def test_a_partition_that_is_no_longer_sampled_stays_in_the_sum() -> None:
    rows = [
        sample(0, 300, 70, 7),
        *(sample(1, each, 50, 5) for each in (300, 200, 100)),
    ]
    series = read_series(rows)
    assert series.lag == [12, 12, 12]
    assert series.end == [120, 120, 120]


def test_a_sample_without_a_committed_offset_is_left_out() -> None:
    rows = [sample(0, 300, 70, 7), {**sample(0, 200, 80), "committed_offset": None}]
    rows[1]["lag"] = None
    assert read_series(rows).lag == [7]


def test_an_unknown_time_lag_is_a_gap() -> None:
    rows = [
        {**sample(0, 300, 70), "time_lag_ms": None},
        {**sample(0, 200, 70), "time_lag_ms": 40},
        {**sample(1, 200, 70), "time_lag_ms": 90},
    ]
    assert read_series(rows).late[-1] == 90
    unknown = read_series(rows[:1])
    assert unknown.late == [None]
    assert [each.title for each in lag_lines.lag_charts([unknown])] == [
        "Lag in records",
        "Offsets of orders",
    ]


@pytest.mark.parametrize("number", [1, 2, 119, 120, 121, 5_000])
def test_a_line_has_few_points_and_ends_with_the_newest(number: int) -> None:
    grid = time_grid(np.arange(number) * 60_000)
    assert len(grid) <= 120
    assert len(grid) == number or len(grid) > 50
    assert grid[-1] == (number - 1) * 60_000


def test_a_round_of_samples_is_one_point() -> None:
    rounds = np.array([base + ms for base in (0, 300_000, 600_000) for ms in range(9)])
    assert time_grid(rounds).tolist() == [8, 300_008, 600_008]


def test_the_lag_of_a_group_is_the_sum_of_its_topics() -> None:
    def series(times: list[int], lag: list[float]) -> LagSeries:
        return LagSeries("t", times, lag, lag, lag, [None] * len(lag))

    times, lags = lag_lines.total_lag(
        [series([0, 100_000], [5, 6]), series([50_000], [10])]
    )
    assert (times, lags) == ([0, 50_000, 100_000], [15, 15, 16])
    points, text = lag_lines.trend([series([0, 100_000], [5, 6])])
    assert points
    assert text == "lag 5 → 6 in 1 min 40 s"
    assert lag_lines.trend([series([0], [5])]) == ("", "")


def test_rewinds_are_marked_and_described() -> None:
    moved = {
        "group_id": "g",
        "topic": "orders",
        "direction": "rewind",
        "commit_ts": ago(seconds=150),
        "delta": -1_000,
        "actor": "admin",
    }
    reader = memory_reader({"offset_commit_history": [moved, {"group_id": "g"}]})
    found = lag_lines.rewinds(reader, ["g"])["g"]
    assert len(found) == 1
    assert found[0].text.endswith("orders-0 moved back by 1\u202f000 (by an operator)")
    series = read_series([sample(0, each, 70, 7) for each in (200, 100)])
    first, *_ = lag_lines.lag_charts([series], found)
    assert first.marks == ((50, found[0].text),)


def test_an_axis_of_large_offsets_has_distinct_labels() -> None:
    rows = [sample(0, each, 144_000_000_000, 3) for each in (200, 100)]
    *_, offsets = lag_lines.lag_charts([read_series(rows)])
    assert len(set(offsets.labels)) == 3
