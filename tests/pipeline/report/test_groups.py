"""The groups that exist, their lag and their verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.pipeline.report import groups
from coterie.pipeline.report.groups import GroupRow
from tests.pipeline.lakes import ago
from tests.pipeline.report.memory_reader import memory_reader

Row = dict[str, Any]


def partition(number: int, **values: Any) -> Row:
    """Return the key of a partition of the group, with further columns."""
    return {"group_id": "g", "topic": "orders", "partition": number, **values}


def read_group(lags: list[Row], offsets: int = 2, **tables: list[Row]) -> GroupRow:
    """Return the only group, from its lag samples and its other rows."""
    reader = memory_reader(
        {
            "current_groups": [{"group_id": "g"}],
            "current_offsets": [
                partition(each, committed_offset=5) for each in range(offsets)
            ],
            "lag_history": lags,
            **tables,
        }
    )
    found = groups.existing_groups(reader)
    groups.add_lags(found, groups.newest_lags(reader))
    return found["g"]


def test_a_group_that_is_gone_is_not_counted() -> None:
    gone = {"group_id": "gone", "topic": "orders", "partition": 0}
    tables = {
        "current_groups": [{"group_id": "g"}],
        "current_offsets": [partition(0, committed_offset=5)],
        "lag_history": [{**gone, "lag": 144_000_000, "sample_ts": ago(days=19)}],
        "group_status": [{"group_id": "gone", "verdict": "ERR"}],
        "rebalance_timeline": [{"group_id": "older"}],
    }
    reader = memory_reader(tables)
    found = groups.existing_groups(reader)
    lags = groups.newest_lags(reader)
    groups.add_lags(found, lags)
    assert list(found) == ["g"]
    assert lags == []
    assert found["g"].lag is None
    assert groups.gone_groups(reader, found) == ["gone", "older"]


def test_a_partition_without_a_committed_offset_is_not_counted() -> None:
    # Its offset expired or was deleted, and its samples remain.
    lags = [partition(0, lag=5, time_lag_ms=7), partition(9, lag=1_000_000)]
    group = read_group(lags, offsets=1)
    assert (group.lag, group.time_lag, group.unsampled) == (5, "7 ms", 0)


def test_a_commit_of_a_negative_offset_is_not_counted() -> None:
    negative = [partition(0, committed_offset=5), partition(9)]
    group = read_group([partition(0, lag=5)], current_offsets=negative)
    assert (group.partitions, group.lag, group.unsampled) == (1, 5, 0)


def test_only_the_newest_sample_of_each_partition_counts() -> None:
    lags = [
        partition(0, lag=900, sample_ts=ago(minutes=5)),
        partition(0, lag=10, sample_ts=ago(minutes=1)),
        partition(1, lag=4, sample_ts=ago(minutes=9)),
    ]
    assert read_group(lags).lag == 14


def test_a_lag_without_samples_of_all_partitions_is_a_lower_bound() -> None:
    group = read_group([partition(0, lag=10)], offsets=3)
    assert (group.lag_text, group.unsampled) == ("≥ 10", 2)
    assert read_group([]).lag_text == "unknown"
    assert read_group([partition(0, lag=None)]).lag_text == "unknown"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"lag": 0, "time_lag_ms": 0}, {"lag": 0, "time_lag_ms": 0}, "0 ms"),
        # Only the partition without lag has a known time lag.
        ({"lag": 0, "time_lag_ms": 0}, {"lag": 50}, "unknown"),
        ({"lag": 50}, {"lag": 50}, "unknown"),
        ({"lag": 50, "time_lag_ms": 9}, {"lag": 50}, "≥ 9 ms"),
        ({"lag": 50, "time_lag_ms": 9}, {"lag": 0, "time_lag_ms": 0}, "9 ms"),
        (
            {"lag": 50, "time_lag_ms": 9, "time_lag_method": "extrapolated"},
            {},
            "≥ 9 ms",
        ),
    ],
)
def test_a_time_lag_is_known_only_when_that_of_each_partition_with_lag_is(
    first: Row, second: Row, expected: str
) -> None:
    group = read_group([partition(0, **first), partition(1, **second)])
    assert group.time_lag == expected


def test_the_worst_time_lag_is_unknown_when_nothing_is_known() -> None:
    # 0 ms would be that of the groups without lag.
    head = GroupRow("head", lag=0, time_lag_ms=0)
    late = GroupRow("late", lag=10, time_lag_ms=60_000)
    behind = GroupRow("behind", lag=10)
    unsampled = GroupRow("unsampled")
    assert groups.worst_time_lag([]) == (None, 0)
    assert groups.worst_time_lag([behind, unsampled]) == (None, 2)
    assert groups.worst_time_lag([head, behind]) == (None, 1)
    assert groups.worst_time_lag([head]) == (head, 0)
    assert groups.worst_time_lag([head, late, behind]) == (late, 1)


def test_only_the_newest_verdicts_count() -> None:
    def status(minutes: int, verdict: str, **values: Any) -> Row:
        end = ago(minutes=minutes)
        return {"group_id": "g", "window_end_ts": end, "verdict": verdict, **values}

    older = {"topic": "orders", "partition": 0}
    newer = {"topic": "orders", "partition": 1}
    group = read_group(
        [],
        group_status=[
            status(9, "ERR"),
            status(9, "STOP", **older),
            status(1, "WARN", rule="the newest"),
            status(1, "WARN", **newer),
            status(1, "OK", topic="orders", partition=2),
        ],
    )
    assert (group.verdict, group.rule) == ("WARN", "the newest")
    assert [row["partition"] for row in group.troubles] == [1]
