"""Periods in which groups committed, and the pauses between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.gold.memory_lake import MemoryLake, build
from tests.pipeline.gold.rows import arrow, at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

HOUR_S = 3_600


def _commit(offset: int, hours: float, **more: Any) -> dict[str, Any]:
    row = {"log_offset": offset, "group_id": "g", "committed_offset": offset}
    row["direction"] = "forward"
    return row | {"append_ts": at(hours * HOUR_S)} | more


COMMITS = [
    _commit(0, 0),
    _commit(1, 0.9),
    _commit(2, 1.9),
    _commit(3, 5.5),
    _commit(4, 6.2),
    _commit(5, 30, actor="admin"),
    _commit(6, 40, committed_offset=None, direction="tombstone"),
    _commit(7, 50, committed_offset=None, direction="no_offset"),
]


@pytest.mark.parametrize("size", [1, 3, len(COMMITS)])
def test_commits_less_than_an_hour_apart_are_one_period(
    spark: SparkSession, size: int
) -> None:
    lake = MemoryLake(spark, ["group_periods"])
    rows = arrow(TABLES["offset_commit_history"], COMMITS)
    for start in range(0, len(COMMITS), size):
        lake.run({"offset_commit_history": rows.slice(start, size)})
    assert [
        (row["from_ts"], row["to_ts"], row["commits"])
        for row in lake.tables["group_periods"].to_pylist()
    ] == [
        (at(0), at(1.9 * HOUR_S), 3),
        (at(5.5 * HOUR_S), at(6.2 * HOUR_S), 2),
        (at(50 * HOUR_S), at(50 * HOUR_S), 1),
    ]


def test_members_are_activity_in_a_pause_of_commits(spark: SparkSession) -> None:
    periods = [
        {"group_id": "g", "from_ts": at(start), "to_ts": at(end), "commits": 2}
        for start, end in ((0, 10), (50, 60))
    ]
    tables: dict[str, list[dict[str, Any]]] = {
        "current_groups": [{"group_id": "g"}],
        "group_periods": periods,
        "member_sessions": [{"group_id": "g", "joined_ts": at(5), "left_ts": at(20)}],
    }
    rows = {name: arrow(TABLES[name], each) for name, each in tables.items()}
    [row] = build(spark, "stale_group_candidates", rows).to_pylist()
    assert row["usual_gap_days"] == 30 / 86_400
