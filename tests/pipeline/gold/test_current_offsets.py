"""Which offsets hold, by hand-made rows and by the truth of a generated log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.pipeline.gold.current_offsets import GOLD
from coterie.pipeline.tables.offset_commits import OFFSET_COMMITS
from coterie.pipeline.tables.tombstones import TOMBSTONES
from tests.pipeline.gold.generated import Story
from tests.pipeline.gold.hand_made import arrow, at
from tests.pipeline.gold.looks import Lakeful
from tests.pipeline.gold.offset_truths import check_current_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def _commit(log_offset: int, topic: str, offset: int, **more: Any) -> dict[str, Any]:
    place = {"log_partition": 1, "log_offset": log_offset, "group_id": "g"}
    return {**place, "topic": topic, "committed_offset": offset, **more}


def _tombstone(log_offset: int, topic: str | None, **more: Any) -> dict[str, Any]:
    place = {"log_partition": 1, "log_offset": log_offset, "group_id": "g"}
    return {**place, "topic": topic, "partition": 0 if topic else None, **more}


def _held(lake: Lakeful) -> list[tuple[Any, ...]]:
    names = ("topic", "committed_offset", "log_offset", "metadata")
    rows = lake.tables["current_offsets"].select(names).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_what_stands_last_in_the_log_holds(spark: SparkSession) -> None:
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
    lake = Lakeful(spark, [GOLD]).run(first)
    held = [("back", 4, 8, None), ("late", 7, 5, "by a clock that went back")]
    assert _held(lake) == held
    more = [_commit(10, "gone", 11), _commit(11, "late", 6)]
    then = {
        "offset_commits": arrow(OFFSET_COMMITS, more),
        "tombstones": arrow(TOMBSTONES, [_tombstone(12, "back")]),
    }
    assert _held(lake.run(then)) == [("gone", 11, 10, None), ("late", 6, 11, None)]


@pytest.mark.fact("K-03")
def test_the_truth_holds_in_one_run_and_in_two(
    spark: SparkSession, story: Story
) -> None:
    whole = Lakeful(spark, [GOLD]).run(story.silver)
    halves = Lakeful(spark, [GOLD])
    for part in story.parts(0.5):
        halves.run(part)
    check_current_offsets(halves.tables, story)
    assert halves.tables["current_offsets"].equals(whole.tables["current_offsets"])
