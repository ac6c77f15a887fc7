"""Periods in which groups committed, and the pauses between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.pipeline.gold.group_periods import GOLD, longest_pauses
from coterie.pipeline.tables.gold_groups import GROUP_PERIODS, MEMBER_SESSIONS
from coterie.pipeline.tables.gold_offsets import OFFSET_COMMIT_HISTORY
from tests.pipeline.gold.memory_lake import MemoryLake
from tests.pipeline.gold.rows import arrow, at, frame

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
    lake = MemoryLake(spark, [GOLD])
    rows = arrow(OFFSET_COMMIT_HISTORY, COMMITS)
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
    session = {"group_id": "g", "joined_ts": at(5), "left_ts": at(20)}
    [row] = longest_pauses(
        frame(spark, GROUP_PERIODS, periods), frame(spark, MEMBER_SESSIONS, [session])
    ).collect()
    assert (row["usual_gap_ms"], row["commits"]) == (30_000, 4)
