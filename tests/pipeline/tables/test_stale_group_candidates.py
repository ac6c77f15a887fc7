"""Stale groups, from hand-written rows. Times are days; now is day 100."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest

from coterie.operations.plan_files import Action, item_id_of
from coterie.pipeline.gold.settings import GoldSettings, LogHead
from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.gold.memory_lake import MemoryLake
from tests.pipeline.gold.rows import arrow, at

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

NOW: Final = 100
SETTINGS: Final = GoldSettings(
    as_of_ts=at(NOW * 86_400),
    heads=(
        LogHead(0, 10, 0, 10, 10),
        LogHead(1, 10, 0, 10, 12),  # open transaction
        LogHead(2, 10, 5, 10, 10),  # its first records are missing
    ),
    keep=("audit-*",),
)
Candidates: TypeAlias = dict[str, dict[str, Any]]


def _day(day: float) -> datetime:
    return at(day * 86_400)


class InputTables:
    """Rows of the input tables by name."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def _add(self, table: str, **row: Any) -> None:
        self.rows.setdefault(table, []).append(row)

    def group(
        self,
        group_id: str,
        *commits: float,
        topic: str | None = "orders",
        **about: Any,
    ) -> None:
        """Add a group that committed on the given days and has no members since."""
        last = _day(commits[-1]) if commits else None
        row = {
            "group_id": group_id,
            "group_type": "classic",
            "protocol_type": "consumer",
            "state": "Empty",
            "first_seen_ts": _day(0),
            "last_commit_ts": last,
            "empty_since_ts": last,
            "last_state_change_ts": last,
        } | about
        self._add("current_groups", **row)
        for offset, day in enumerate(commits):
            self._add(
                "offset_commit_history",
                group_id=group_id,
                log_offset=1000 * len(self.rows["current_groups"]) + offset,
                committed_offset=offset,
                append_ts=_day(day),
                actor="owner",
            )
        self._add("group_activity", group_id=group_id, log_bytes=7 * len(commits))
        if commits and topic:
            self._add(
                "expiry_forecast",
                group_id=group_id,
                topic=topic,
                basis="empty_since",
                at_risk_messages=5,
                expires_ts=_day(200),
            )

    def topic(self, name: str, *ends: int, until: float = NOW) -> None:
        """Add hourly samples of a queried cluster, the last one on a day."""
        for back, end in enumerate(reversed(ends)):
            self._add(
                "partition_end_samples",
                topic=name,
                sample_ts=_day(until - back / 24),
                high_watermark=end,
                round_trip_ms=1,
            )


def _input_tables() -> InputTables:
    tables = InputTables()
    tables.topic("orders", 1, 2, 3)
    tables.topic("quiet", 3, 3)
    tables.topic("dropped", 3, 4, until=NOW - 20)
    daily = [float(day) for day in range(60)]
    tables.group("abandoned", *daily)
    tables.group("monthly-job", 0, 30, 60, 80)
    tables.group("just-now", *daily, 99.5)
    tables.group("has-members", *daily, member_count=2, state="Stable")
    tables.group("held-back", *daily, log_partition=1)
    tables.group("audit-trail", *daily)
    tables.group("connect-x", *daily, protocol_type="connect")
    tables.group("by-hand", *daily, 95, group_type="simple", protocol_type=None)
    tables.group("no-beginning", 85, log_partition=2)
    tables.group("long-gone", 50, log_partition=2)
    tables.group("short-history", 88, log_partition=3)
    for log_partition, day, gap_end in (
        (0, 0, None),
        (1, 0, None),
        (2, 50, 1),
        (3, 88, 1),
    ):
        tables._add(
            "data_quality",
            log_partition=log_partition,
            gap_end_offset=gap_end,
            history_from_ts=_day(day),
        )
    tables.group("topic-dropped", *daily, topic="dropped")
    tables.group("topic-quiet", *daily, topic="quiet")
    tables.group("orders-loader", *daily, member_count=3, state="Stable")
    tables.group("orders-laoder", 40)
    tables.group("orders-loader-1", *daily)
    tables.group("orders-loader-2", 40)
    tables.group("my-test-2", *daily)
    tables.group("never", topic=None, empty_since_ts=_day(10))
    for host in ("/10.0.0.1", "/10.0.0.2"):
        tables._add(
            "member_sessions",
            group_id="abandoned",
            client_host=host,
            client_id="loader",
            joined_ts=_day(58.9),
            left_ts=_day(59),
        )
    tables._add(
        "member_sessions",
        group_id="abandoned",
        client_host="/10.0.0.9",
        client_id="old",
        joined_ts=_day(2),
        left_ts=_day(3),
    )
    return tables


@pytest.fixture(scope="module")
def candidates(spark: SparkSession) -> Candidates:
    rows = _input_tables().rows
    names = ("group_periods", "newest_partition_ends", "stale_group_candidates")
    lake = MemoryLake(spark, names, SETTINGS)
    lake.run({name: arrow(TABLES[name], each) for name, each in rows.items()})
    built = lake.tables["stale_group_candidates"].to_pylist()
    assert len(built) == len(rows["current_groups"])
    return {row["group_id"]: row for row in built}


@pytest.mark.parametrize(
    ("group_id", "blocker"),
    [
        ("has-members", "members: 2"),
        ("held-back", "an open transaction holds back log partition 1"),
        ("just-now", "active 0.5 days ago"),
        ("by-hand", "a simple group that committed 5.0 days ago"),
        ("monthly-job", "its longest known or assumed pause is 30.0 days"),
        ("short-history", "the log covers only 12.0 days"),
        ("connect-x", "its protocol type is connect"),
        ("audit-trail", "it is on the list of groups to keep"),
    ],
)
def test_a_group_with_a_blocker_is_kept(
    candidates: Candidates, group_id: str, blocker: str
) -> None:
    row = candidates[group_id]
    assert blocker in row["blockers"]
    assert (row["class"], row["score"]) == ("keep", 0)
    assert row["plan_item_id"] is None


@pytest.mark.parametrize(
    ("group_id", "kind", "score"),
    [
        ("abandoned", "abandoned", 40),
        ("topic-dropped", "dead", 80),
        ("topic-quiet", "abandoned", 50),
        ("orders-laoder", "typo", 50),
        ("my-test-2", "test", 55),
        ("orders-loader-2", "abandoned", 30),
        ("long-gone", "abandoned", 40),
        ("never", "abandoned", 40),
    ],
)
def test_a_candidate_has_its_class_and_score(
    candidates: Candidates, group_id: str, kind: str, score: int
) -> None:
    row = candidates[group_id]
    assert row["blockers"] == []
    assert (row["class"], row["score"]) == (kind, score)
    assert row["plan_item_id"] == item_id_of(Action.DELETE_GROUP, group_id)
    assert row["reasons"]


def test_the_usual_gap_is_the_longest_pause_before_activity(
    candidates: Candidates,
) -> None:
    assert candidates["monthly-job"]["usual_gap_days"] == 30
    assert candidates["monthly-job"]["idle_days"] == 20
    assert candidates["abandoned"]["usual_gap_days"] == 1
    assert candidates["orders-laoder"]["usual_gap_days"] is None


def test_a_group_older_than_the_log_has_an_assumed_gap_of_a_week(
    candidates: Candidates,
) -> None:
    assert candidates["no-beginning"]["blockers"] == []  # idle for 15 days
    assert candidates["short-history"]["blockers"] == ["the log covers only 12.0 days"]


def test_a_group_with_a_misspelled_name_is_similar_to_the_intended_group(
    candidates: Candidates,
) -> None:
    assert candidates["orders-laoder"]["looks_like"] == "orders-loader"
    assert candidates["orders-loader-2"]["looks_like"] is None
    assert candidates["orders-loader"]["looks_like"] is None


def test_topics_deleted_from_the_cluster_are_reported_as_missing(
    candidates: Candidates,
) -> None:
    row = candidates["topic-dropped"]
    assert row["topics_missing"] == ["dropped"]
    assert row["topics_still_written"] == []
    assert candidates["abandoned"]["topics_missing"] == []
    assert candidates["abandoned"]["topics_still_written"] == ["orders"]


def test_offsets_lag_and_log_bytes_of_a_group_are_counted(
    candidates: Candidates,
) -> None:
    row = candidates["abandoned"]
    assert (row["offsets_count"], row["total_lag"]) == (1, 5)
    assert row["log_bytes"] == 60 * 7
    assert row["would_expire_ts"] == _day(200)
    assert row["last_hosts"] == ["/10.0.0.1", "/10.0.0.2"]
    assert row["last_client_ids"] == ["loader"]
    assert candidates["never"]["log_bytes"] == 0
    assert candidates["never"]["would_expire_ts"] is None
