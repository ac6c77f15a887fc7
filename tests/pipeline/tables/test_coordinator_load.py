"""Load of log partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.ingested import (
    OFFSET_COMMITS,
    PARTITION_END_SAMPLES,
    RECORDS,
)
from tests.pipeline.gold.memory_lake import MemoryLake
from tests.pipeline.gold.rows import arrow, at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def _sample(leader_id: int, seconds: float, topic: str) -> dict[str, Any]:
    return {"topic": topic, "leader_id": leader_id, "sample_ts": at(seconds)}


def test_load_is_counted_for_each_log_partition(spark: SparkSession) -> None:
    commits = [
        {"log_offset": each, "group_id": "b" if each in (1, 2) else "a"}
        for each in range(3)
    ]
    records = [
        {"log_offset": each, "size_bytes": 10, "append_ts": at(each * 2)}
        for each in range(4)
    ] + [{"log_partition": 1, "append_ts": at(0)}]
    log = "__consumer_offsets"
    tables = {
        "offset_commits": arrow(OFFSET_COMMITS, commits),
        "records": arrow(RECORDS, records),
        "current_groups": arrow(
            TABLES["current_groups"],
            [{"group_id": "a", "member_count": 3}, {"group_id": "b"}],
        ),
        "partition_end_samples": arrow(
            PARTITION_END_SAMPLES,
            [_sample(1, 5, log), _sample(2, 6, log), _sample(3, 7, "other")],
        ),
    }
    golds = [
        "newest_partition_ends",
        "group_activity",
        "data_quality",
        "coordinator_load",
    ]
    lake = MemoryLake(spark, golds).run(tables)
    busy, idle = lake.tables["coordinator_load"].to_pylist()
    assert busy == {
        "log_partition": 0,
        "broker_id": 2,
        "groups": 2,
        "members": 3,
        "records": 4,
        "commits": 3,
        "bytes": 40,
        "commits_per_s": 0.5,
        "top_group_id": "b",
        "top_group_share": pytest.approx(2 / 3),
    }
    unknown = dict.fromkeys(["broker_id", "top_group_id", "top_group_share"])
    quiet = {"log_partition": 1, "records": 1}
    assert idle == dict.fromkeys(idle, 0) | unknown | quiet
