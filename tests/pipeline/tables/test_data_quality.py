"""Tests for data_quality, the counts of the records that were read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

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
    heads = (LogHead(0, 9, 2, 9, 12, 3), LogHead(1, 0, 0, 0, 0))
    lake = MemoryLake(spark, ["data_quality"], GoldSettings(heads=heads))
    lake.run(
        _tables(
            records=[
                {"log_offset": 2, "append_ts": at(5), "size_bytes": 7},
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
                {"log_offset": each, "append_ts": at(each), "size_bytes": 10}
                for each in range(5, 9)
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
        "bytes": 47,
        "commits": 1,
        "group_records": 2,
        "tombstones": 1,
        "control": 1,
        "aborted": 1,
        "quarantined": 1,
        "gaps": 2,
        "missing_offsets": 12,
        "held_back": 3,
        "off_clock": 3,
        "first_ts": at(4),
        "last_ts": at(8),
        "gap_end_offset": 19,
        "history_from_ts": None,
    }
    unknown = ("from_offset", "first_ts", "last_ts", "gap_end_offset")
    nothing = dict.fromkeys([*unknown, "history_from_ts"])
    assert idle == dict.fromkeys(idle, 0) | nothing | {"log_partition": 1}


def test_the_history_begins_after_the_last_gap(spark: SparkSession) -> None:
    lake = MemoryLake(spark, ["data_quality"])

    def history_from(*offsets: int, gap_end: int | None = None) -> Any:
        gaps = [] if gap_end is None else [{"until_offset": gap_end}]
        records = [{"log_offset": each, "append_ts": at(each)} for each in offsets]
        lake.run(_tables(records=records, log_gaps=gaps))
        [row] = lake.tables["data_quality"].to_pylist()
        return row["history_from_ts"]

    assert history_from(3, 4) == at(3)
    assert history_from(5) == at(3)
    assert history_from(6, 10, 11, gap_end=10) == at(10)
    assert history_from(12) == at(10)
    assert history_from(gap_end=20) is None
    assert history_from(20) == at(20)


def test_a_record_of_a_wrong_clock_does_not_extend_the_history(
    spark: SparkSession,
) -> None:
    lake = MemoryLake(spark, ["data_quality"])
    times = {3: at(9_000_000), 4: None, 5: at(1), 6: at(9_000_005)}
    records = [{"log_offset": each, "append_ts": ts} for each, ts in times.items()]
    lake.run(_tables(records=records))
    [row] = lake.tables["data_quality"].to_pylist()
    assert row["history_from_ts"] == at(9_000_000)
