"""Which groups may go, told by rows made by hand; times are days, now is day 100."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest

from coterie.operations.plan import Action, item_id_of
from coterie.pipeline.gold.settings import GoldSettings, LogHead
from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.gold.hand_made import at, frame

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

NOW: Final = 100
SETTINGS: Final = GoldSettings(
    as_of_ts=at(NOW * 86_400),
    heads=(
        LogHead(0, 10, 0, 10, 10),
        LogHead(1, 10, 0, 10, 12),  # held back
        LogHead(2, 10, 5, 10, 10),  # its beginning is gone
    ),
    keep=("audit-*",),
)
Found: TypeAlias = dict[str, dict[str, Any]]


def _day(day: float) -> datetime:
    return at(day * 86_400)


class World:
    """The tables, by name."""

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
        """A group that committed on these days, and has no members since."""
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
        where = row.get("log_partition", 0)
        for offset, day in enumerate(commits):
            place = {
                "group_id": group_id,
                "topic": topic or "",
                "log_partition": where,
                "log_offset": 1000 * len(self.rows["current_groups"]) + offset,
                "committed_offset": offset,
                "append_ts": _day(day),
            }
            self._add("offset_commit_history", **place, actor="owner")
            self._add("offset_commits", **place, size_bytes=7)
        if commits and topic:
            held = {"group_id": group_id, "topic": topic}
            self._add("current_offsets", **held)
            self._add("lag_history", **held, lag=5, sample_ts=_day(NOW))
            self._add(
                "expiry_forecast", **held, basis="empty_since", expires_ts=_day(200)
            )

    def topic(self, name: str, *ends: int, until: float = NOW) -> None:
        """Samples an hour apart, the last one on that day, as a cluster told them."""
        for back, end in enumerate(reversed(ends)):
            self._add(
                "partition_end_samples",
                topic=name,
                sample_ts=_day(until - back / 24),
                high_watermark=end,
                round_trip_ms=1,
            )


def _made() -> World:
    world = World()
    world.topic("orders", 1, 2, 3)
    world.topic("quiet", 3, 3)
    world.topic("dropped", 3, 4, until=NOW - 20)
    daily = [float(day) for day in range(60)]
    world.group("abandoned", *daily)
    world.group("monthly-job", 0, 30, 60, 80)
    world.group("just-now", *daily, 99.5)
    world.group("has-members", *daily, member_count=2, state="Stable")
    world.group("held-back", *daily, log_partition=1)
    world.group("audit-trail", *daily)
    world.group("connect-x", *daily, protocol_type="connect")
    world.group("by-hand", *daily, 95, group_type="simple", protocol_type=None)
    world.group("no-beginning", 85, log_partition=2)
    world.group("long-gone", 50, log_partition=2)
    world._add("log_gaps", log_partition=2, until_offset=1, reason="log_start")
    world.group("short-history", 88, log_partition=3)
    world._add("log_gaps", log_partition=3, until_offset=1, reason="log_start")
    world.group("topic-dropped", *daily, topic="dropped")
    world.group("topic-quiet", *daily, topic="quiet")
    world.group("orders-loader", *daily, member_count=3, state="Stable")
    world.group("orders-laoder", 40)
    world.group("orders-loader-1", *daily)
    world.group("orders-loader-2", 40)
    world.group("my-test-2", *daily)
    world.group("never", topic=None, empty_since_ts=_day(10))
    for host in ("/10.0.0.1", "/10.0.0.2"):
        world._add(
            "member_sessions",
            group_id="abandoned",
            client_host=host,
            client_id="loader",
            joined_ts=_day(58.9),
            left_ts=_day(59),
        )
    world._add(
        "member_sessions",
        group_id="abandoned",
        client_host="/10.0.0.9",
        client_id="old",
        joined_ts=_day(2),
        left_ts=_day(3),
    )
    return world


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Found:
    from coterie.pipeline.gold.stale_group_candidates import (
        _RECORDS,
        Inputs,
        stale_group_candidates,
    )

    rows = _made().rows

    def table(name: str) -> Any:
        return frame(spark, TABLES[name], rows.get(name, []))

    of = Inputs(
        groups=table("current_groups"),
        offsets=table("current_offsets"),
        history=table("offset_commit_history"),
        sessions=table("member_sessions"),
        forecast=table("expiry_forecast"),
        lag=table("lag_history"),
        samples=table("partition_end_samples"),
        records=[table(name) for name in _RECORDS],
        gaps=table("log_gaps"),
    )
    told = stale_group_candidates(of, SETTINGS).toArrow().to_pylist()
    assert len(told) == len(rows["current_groups"])
    return {row["group_id"]: row for row in told}


@pytest.mark.parametrize(
    ("group_id", "because"),
    [
        ("has-members", "members: 2"),
        ("held-back", "an open transaction holds partition 1 of the log back"),
        ("just-now", "it did something 0.5 days ago"),
        ("by-hand", "it committed 5.0 days ago, and its client is not seen"),
        ("monthly-job", "it paused for 30.0 days before, or may have, and came back"),
        ("short-history", "the log tells of 12.0 days only"),
        ("connect-x", "its protocol type is connect"),
        ("audit-trail", "it is on the list of those to keep"),
    ],
)
def test_what_forbids_it(found: Found, group_id: str, because: str) -> None:
    row = found[group_id]
    assert because in row["blockers"]
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
def test_what_may_go(found: Found, group_id: str, kind: str, score: int) -> None:
    row = found[group_id]
    assert row["blockers"] == []
    assert (row["class"], row["score"]) == (kind, score)
    assert row["plan_item_id"] == item_id_of(Action.DELETE_GROUP, group_id)
    assert row["reasons"]


def test_a_pause_counts_that_it_came_back_from(found: Found) -> None:
    assert found["monthly-job"]["usual_gap_days"] == 30
    assert found["monthly-job"]["idle_days"] == 20
    assert found["abandoned"]["usual_gap_days"] == 1
    assert found["orders-laoder"]["usual_gap_days"] is None


def test_whose_beginning_is_not_known_is_given_a_week(found: Found) -> None:
    assert found["no-beginning"]["blockers"] == []  # idle for 15 days
    assert found["short-history"]["blockers"] == ["the log tells of 12.0 days only"]


def test_a_slip_is_like_the_group_that_was_meant(found: Found) -> None:
    assert found["orders-laoder"]["looks_like"] == "orders-loader"
    assert found["orders-loader-2"]["looks_like"] is None
    assert found["orders-loader"]["looks_like"] is None


def test_topics_that_a_cluster_does_not_have_any_more_are_missing(found: Found) -> None:
    row = found["topic-dropped"]
    assert row["topics_missing"] == ["dropped"]
    assert row["topics_still_written"] == []
    assert found["abandoned"]["topics_missing"] == []
    assert found["abandoned"]["topics_still_written"] == ["orders"]


def test_what_it_left_behind(found: Found) -> None:
    row = found["abandoned"]
    assert (row["offsets_count"], row["total_lag"]) == (1, 5)
    assert row["log_bytes"] == 60 * 7
    assert row["would_expire_ts"] == _day(200)
    assert row["last_hosts"] == ["/10.0.0.1", "/10.0.0.2"]
    assert row["last_client_ids"] == ["loader"]
    assert found["never"]["log_bytes"] == 0
    assert found["never"]["would_expire_ts"] is None
