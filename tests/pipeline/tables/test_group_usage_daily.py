"""Daily activity of groups."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.ingested import OFFSET_COMMITS
from tests.pipeline.gold.memory_lake import MemoryLake
from tests.pipeline.gold.rows import arrow, at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
BUILDS = ("current_offsets", "offset_commit_history", "group_usage_daily")
TABLE = TABLES["group_usage_daily"]
HOUR = 3600
_ZONE = "spark.sql.session.timeZone"
DAY = 24 * HOUR
FIRST, SECOND = date(2026, 1, 1), date(2026, 1, 2)
Usage = dict[tuple[date, str, str], dict[str, Any]]


def _commit(seconds: float, offset: int, **more: Any) -> dict[str, Any]:
    about = {"log_offset": seconds, "group_id": "g", "topic": "t", "size_bytes": 10}
    return {**about, "commit_ts": at(seconds), "committed_offset": offset, **more}


def _session(joined: float, left: float | None, member_id: str) -> dict[str, Any]:
    times = {"joined_ts": at(joined), "left_ts": None if left is None else at(left)}
    return {"group_id": "g", "member_id": member_id, **times}


def _usage(lake: MemoryLake, *names: str) -> Usage:
    keys = ("day", "group_id", "topic")
    rows = lake.tables[TABLE.name].to_pylist()
    return {
        tuple(row[key] for key in keys): {name: row[name] for name in names}
        for row in rows
    }


@pytest.fixture
def auckland(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set a time zone half a day ahead of UTC, here and in Spark."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Pacific/Auckland")
        time.tzset()
        spark.conf.set(_ZONE, "Pacific/Auckland")
        yield
        spark.conf.set(_ZONE, "UTC")
    time.tzset()


@pytest.mark.usefixtures("auckland")
def test_a_day_with_new_rows_is_counted_again(spark: SparkSession) -> None:
    lake = MemoryLake(spark, BUILDS, GoldSettings(as_of_ts=at(DAY + HOUR)))
    first = [
        _commit(1, 100),
        _commit(2, 350, group_id="h"),
        _commit(59, 150),
        _commit(60, 120),
    ]
    lake.run(
        {
            "offset_commits": arrow(OFFSET_COMMITS, first),
            "member_sessions": arrow(
                TABLES["member_sessions"], [_session(0, None, "a")]
            ),
        }
    )
    then = [
        _commit(DAY - 1, 125),
        # The smallest and the largest bigint.
        _commit(DAY, -(2**63)),
        _commit(DAY + 1, 2**63 - 1),
        _commit(DAY + 2, 2**63 - 2),
        _commit(DAY + 3, 2**63 - 1),
        _commit(DAY + 4, 7, commit_ts=None, append_ts=None),
    ]
    sessions = [
        _session(0, None, "a"),
        _session(10, 20, "b"),
        _session(20, 30, "c"),
        _session(DAY - 5, DAY + 5, "d"),
        _session(DAY + 4, None, "e"),
    ]
    lake.run(
        {
            "offset_commits": arrow(OFFSET_COMMITS, then),
            "member_sessions": arrow(TABLES["member_sessions"], sessions),
        }
    )
    names = [each.name for each in TABLE.columns if each.name not in TABLE.key]
    found = _usage(lake, *names)
    assert found.keys() == {(FIRST, "g", "t"), (FIRST, "h", "t"), (SECOND, "g", "t")}
    assert found[FIRST, "g", "t"] == {
        "offsets_consumed": 55,
        "offsets_rewound": 30,
        "commits": 4,
        "tombstones": 0,
        "commits_per_s_max": pytest.approx(2 / 60),
        "log_bytes_written": 40,
        "active_minutes": 3,
        "members_max": 2,
        "cost_share": 0.8,
    }
    assert found[FIRST, "h", "t"]["cost_share"] == 0.2
    assert found[FIRST, "h", "t"]["members_max"] is None
    assert found[SECOND, "g", "t"]["members_max"] == 3
    assert found[SECOND, "g", "t"]["offsets_consumed"] == 1
