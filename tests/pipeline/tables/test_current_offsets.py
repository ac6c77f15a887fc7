"""Current offsets, from hand-written rows and from a generated log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.pipeline.tables.ingested import OFFSET_COMMITS, TOMBSTONES
from tests.pipeline.gold.generated_silver import GeneratedSilver
from tests.pipeline.gold.memory_lake import MemoryLake
from tests.pipeline.gold.offset_truth import check_current_offsets
from tests.pipeline.gold.rows import arrow, at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def _commit(log_offset: int, topic: str, offset: int, **more: Any) -> dict[str, Any]:
    place = {"log_partition": 1, "log_offset": log_offset, "group_id": "g"}
    return {**place, "topic": topic, "committed_offset": offset, **more}


def _tombstone(log_offset: int, topic: str | None, **more: Any) -> dict[str, Any]:
    place = {"log_partition": 1, "log_offset": log_offset, "group_id": "g"}
    return {**place, "topic": topic, "partition": 0 if topic else None, **more}


def _rows(lake: MemoryLake) -> list[tuple[Any, ...]]:
    names = ("topic", "committed_offset", "log_offset", "metadata")
    rows = lake.tables["current_offsets"].select(names).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_the_last_record_in_log_order_is_current(spark: SparkSession) -> None:
    commits = [
        _commit(5, "late", 7, append_ts=at(1), metadata="by a clock that went back"),
        _commit(1, "late", 9, append_ts=at(2)),
        _commit(2, "gone", 3),
        _commit(3, "back", 3),
        _commit(8, "back", 4),
    ]
    tombstones = [
        _tombstone(4, "back"),
        _tombstone(6, "gone"),
        _tombstone(7, "never there"),
        _tombstone(9, None, record_type=2),
    ]
    first = {
        "offset_commits": arrow(OFFSET_COMMITS, commits),
        "tombstones": arrow(TOMBSTONES, tombstones),
    }
    lake = MemoryLake(spark, ["current_offsets"]).run(first)
    expected = [("back", 4, 8, None), ("late", 7, 5, "by a clock that went back")]
    assert _rows(lake) == expected
    more = [_commit(10, "gone", 11), _commit(11, "late", 6)]
    then = {
        "offset_commits": arrow(OFFSET_COMMITS, more),
        "tombstones": arrow(TOMBSTONES, [_tombstone(12, "back")]),
    }
    assert _rows(lake.run(then)) == [("gone", 11, 10, None), ("late", 6, 11, None)]


def test_a_negative_offset_is_no_committed_offset(spark: SparkSession) -> None:
    commits = [_commit(1, "a", 5), _commit(2, "a", -1), _commit(3, "b", -2)]
    lake = MemoryLake(spark, ["current_offsets"])
    lake.run({"offset_commits": arrow(OFFSET_COMMITS, commits)})
    assert _rows(lake) == [("a", None, 2, None), ("b", None, 3, None)]
    lake.run({"offset_commits": arrow(OFFSET_COMMITS, [_commit(4, "a", 6)])})
    assert _rows(lake) == [("a", 6, 4, None), ("b", None, 3, None)]


@pytest.mark.fact("K-03")
def test_one_run_and_two_runs_match_the_truth(
    spark: SparkSession, story: GeneratedSilver
) -> None:
    whole = MemoryLake(spark, ["current_offsets"]).run(story.silver)
    halves = MemoryLake(spark, ["current_offsets"])
    for part in story.parts(0.5):
        halves.run(part)
    check_current_offsets(halves.tables, story)
    assert halves.tables["current_offsets"].equals(whole.tables["current_offsets"])
