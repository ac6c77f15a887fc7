"""The newest sample of each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.pipeline.tables.ingested import PARTITION_END_SAMPLES
from tests.pipeline.gold.memory_lake import MemoryLake
from tests.pipeline.gold.rows import START, arrow, at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

DAY_S = 86_400


def _sample(seconds: float, end: int, **more: Any) -> dict[str, Any]:
    row = {"topic": "t", "topic_id": "a", "sample_ts": at(seconds)}
    return row | {"high_watermark": end} | more


SAMPLES = [
    _sample(1, 5),
    _sample(DAY_S + 1, 6),
    _sample(DAY_S + 9, 9, round_trip_ms=3),
    _sample(2 * DAY_S, 9),
    _sample(3, 70, topic_id="b"),
    _sample(4, 80, topic_id=None, leader_id=2),
]


def test_the_last_two_days_of_each_topic_id_are_kept(spark: SparkSession) -> None:
    rows = arrow(PARTITION_END_SAMPLES, SAMPLES)
    lake = MemoryLake(spark, ["newest_partition_ends"]).run(
        {"partition_end_samples": rows}
    )
    names = ("topic_id", "day_number", "high_watermark", "lowest_end", "queried_ts")
    first = int(START.timestamp()) // DAY_S
    assert [
        tuple(row[name] for name in names)
        for row in lake.tables["newest_partition_ends"].to_pylist()
    ] == [
        ("a", first + 1, 9, 6, at(DAY_S + 9)),
        ("a", first + 2, 9, 9, None),
        ("b", first, 70, 70, None),
        (None, first, 80, 80, None),
    ]


@pytest.mark.parametrize("order", [range(6), reversed(range(6)), (3, 0, 5, 1, 4, 2)])
def test_samples_may_arrive_one_by_one_in_any_order(
    spark: SparkSession, order: Any
) -> None:
    rows = arrow(PARTITION_END_SAMPLES, SAMPLES)
    whole = MemoryLake(spark, ["newest_partition_ends"]).run(
        {"partition_end_samples": rows}
    )
    lake = MemoryLake(spark, ["newest_partition_ends"])
    for number in order:
        lake.run({"partition_end_samples": rows.slice(number, 1)})
    name = "newest_partition_ends"
    assert lake.tables[name].equals(whole.tables[name])
