"""Causes of tombstones, by later records and samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.ingested import PARTITION_END_SAMPLES
from tests.pipeline.gold.memory_lake import MemoryLake
from tests.pipeline.gold.rows import arrow, at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

HOUR_S = 3_600


def _tombstone(
    offset: int, topic: str, hours: float, cause: str = "unknown", **more: Any
) -> dict[str, Any]:
    return {
        "log_offset": offset,
        "group_id": "g",
        "topic": topic,
        "direction": "tombstone",
        "append_ts": at(hours * HOUR_S),
        "prev_offset": 7,
        "tombstone_cause": cause,
    } | more


def _sample(topic: str, hours: float, **more: Any) -> dict[str, Any]:
    row = {"topic": topic, "topic_id": topic, "sample_ts": at(hours * HOUR_S)}
    return row | {"round_trip_ms": 1} | more


FIRST = {
    "offset_commit_history": [
        _tombstone(0, "gone", 5),
        _tombstone(1, "kept", 5),
        _tombstone(2, "kept", 5, prev_offset=None),
        _tombstone(3, "kept", 5, "expired"),
        _tombstone(4, "again", 5),
        _tombstone(5, "never-sampled", 5),
        _tombstone(6, "two-groups", 5),
        _tombstone(7, "two-times", 5),
        _tombstone(8, "file", 5),
    ],
    "partition_end_samples": [
        _sample("gone", 1),
        _sample("kept", 1),
        _sample("again", 1),
        _sample("file", 1, round_trip_ms=None),
    ],
}
LATER = {
    "offset_commit_history": [
        _tombstone(0, "two-groups", 5.0001, group_id="h", log_partition=1),
        _tombstone(1, "two-times", 5.1, group_id="h", log_partition=1),
    ],
    "partition_end_samples": [
        _sample("kept", 6),
        _sample("again", 6, topic_id="another"),
    ],
}


def _run(lake: MemoryLake, rows: dict[str, list[dict[str, Any]]]) -> dict[Any, str]:
    tables = (TABLES["offset_commit_history"], PARTITION_END_SAMPLES)
    lake.run({table.name: arrow(table, rows[table.name]) for table in tables})
    return {
        (row["topic"], row["log_partition"], row["log_offset"]): row["cause"]
        for row in lake.tables["deleted_offsets"].to_pylist()
    }


def test_a_later_run_finds_the_cause_of_earlier_tombstones(spark: SparkSession) -> None:
    golds = ["newest_partition_ends", "deleted_offsets"]
    lake = MemoryLake(spark, golds)
    early = _run(lake, FIRST)
    assert {cause for (topic, *_), cause in early.items() if topic != "kept"} == {
        "unknown"
    }
    expected = {
        ("gone", 0, 0): "topic_deleted",
        ("kept", 0, 1): "offsets_deleted",
        ("kept", 0, 2): "unknown",
        ("kept", 0, 3): "expired",
        ("again", 0, 4): "topic_deleted",
        ("never-sampled", 0, 5): "unknown",
        ("two-groups", 0, 6): "topic_deleted",
        ("two-times", 0, 7): "unknown",
        ("file", 0, 8): "topic_deleted",
        ("two-groups", 1, 0): "topic_deleted",
        ("two-times", 1, 1): "unknown",
    }
    assert _run(lake, LATER) == expected
    whole = {name: FIRST[name] + LATER[name] for name in FIRST}
    assert _run(MemoryLake(spark, golds), whole) == expected
