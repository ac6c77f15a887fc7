"""Tests for data_quality, the counts of the records that were read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.pipeline.gold.data_quality import GOLD
from coterie.pipeline.gold.settings import GoldSettings, LogHead
from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.gold.memory_lake import MemoryLake
from tests.pipeline.gold.rows import arrow, at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def _tables(**rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: arrow(TABLES[name], each) for name, each in rows.items()}


def test_new_rows_are_added_to_the_counts(spark: SparkSession) -> None:
    heads = (LogHead(0, 9, 2, 9, 12), LogHead(1, 0, 0, 0, 0))
    lake = MemoryLake(spark, [GOLD], GoldSettings(heads=heads))
    lake.run(
        _tables(
            records=[
                {"log_offset": 2, "append_ts": at(5)},
                {"log_offset": 3, "append_ts": at(4), "outcome": "aborted"},
                {"log_offset": 4, "append_ts": None, "is_control": True},
            ],
            offset_commits=[{"log_offset": 2}],
            log_gaps=[{"from_offset": 0, "until_offset": 2}],
        )
    )
    lake.run(
        _tables(
            records=[
                {"log_offset": each, "append_ts": at(each)} for each in range(5, 9)
            ],
            classic_group_records=[{"log_offset": 5}],
            consumer_group_records=[{"log_offset": 6}],
            tombstones=[{"log_offset": 7}],
            quarantine=[{"log_offset": 8}],
            log_gaps=[{"from_offset": 9, "until_offset": 19}],
        )
    )
    busy, idle = lake.tables["data_quality"].to_pylist()
    assert busy == {
        "log_partition": 0,
        "from_offset": 2,
        "next_offset": 9,
        "end_offset": 12,
        "records": 7,
        "commits": 1,
        "group_records": 2,
        "tombstones": 1,
        "control": 1,
        "aborted": 1,
        "quarantined": 1,
        "gaps": 2,
        "missing_offsets": 12,
        "held_back": 3,
        "first_ts": at(4),
        "last_ts": at(8),
    }
    nothing = dict.fromkeys(["from_offset", "first_ts", "last_ts"])
    assert idle == dict.fromkeys(idle, 0) | nothing | {"log_partition": 1}
