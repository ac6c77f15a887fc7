"""The history of commits, from a hand-written log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.ingested import (
    CLASSIC_GROUP_RECORDS,
    CONSUMER_GROUP_RECORDS,
    LOG_GAPS,
    OFFSET_COMMITS,
    TOMBSTONES,
)
from coterie.pipeline.tables.table import Table
from tests.pipeline.gold.memory_lake import MemoryLake, parts_of
from tests.pipeline.gold.rows import arrow, at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
OLD, NEW = "a" * 32, "b" * 32
RETENTION_S = 1000
Rows = dict[str, list[dict[str, Any]]]


class Log:
    """A hand-written log: one record a second and batch. Calls return the log
    offset."""

    def __init__(self) -> None:
        self.rows: Rows = {}
        self._next = 0
        self._base: int | None = None

    def commit(self, group_id: str, topic: str, offset: int, **more: Any) -> int:
        about = {"topic": topic, "committed_offset": offset, "commit_ts": self._now}
        return self._add(OFFSET_COMMITS, group_id, **(about | more))

    def tombstone(self, group_id: str, topic: str | None, **more: Any) -> int:
        partition = None if topic is None else 0
        about = {"topic": topic, "partition": partition, "record_type": 1}
        return self._add(TOMBSTONES, group_id, **(about | more))

    def classic(self, group_id: str, members: int, **more: Any) -> int:
        about = {"protocol_type": "consumer", "members": [{}] * members}
        state = {"state_ts": self._now}
        return self._add(CLASSIC_GROUP_RECORDS, group_id, **(about | state | more))

    def member(self, group_id: str, member_id: str) -> int:
        about = {"record_type": 5, "member_id": member_id}
        return self._add(CONSUMER_GROUP_RECORDS, group_id, **about)

    def owned(
        self, group_id: str, topic: str | None, until: int | None, **more: Any
    ) -> None:
        """Add an ownership interval from the last record until an offset."""
        about = {
            "group_id": group_id,
            "topic": topic,
            "from_log_offset": self._next - 1,
            "to_log_offset": until,
            "member_id": "m-1",
            "client_id": "c-1",
            "client_host": "/10.0.0.1",
        }
        self.rows.setdefault(TABLES["partition_ownership_history"].name, []).append(
            about | more
        )

    def gap(self, offsets: int = 1) -> None:
        """Add a log gap."""
        until = self._next + offsets
        row = {"from_offset": self._next, "until_offset": until, "reason": "missing"}
        self.rows.setdefault(LOG_GAPS.name, []).append(row)
        self._next = until

    def pause(self, seconds: int) -> None:
        self._next += seconds

    def batch(self) -> None:
        """Append the following records in one batch, until `single` is called."""
        self._base = self._next

    def single(self) -> None:
        self._base = None

    def tables(self) -> dict[str, Any]:
        return {
            table.name: arrow(table, self.rows.get(table.name, [])) for table in _TABLES
        }

    @property
    def length(self) -> int:
        return self._next

    @property
    def _now(self) -> Any:
        return at(self._next)

    def _add(self, table: Table, group_id: str, **more: Any) -> int:
        log_offset = self._next
        place = {
            "log_offset": log_offset,
            "base_offset": log_offset if self._base is None else self._base,
            "append_ts": self._now,
            "group_id": group_id,
        }
        self.rows.setdefault(table.name, []).append(place | more)
        self._next += 1
        return log_offset


_TABLES = (
    OFFSET_COMMITS,
    TOMBSTONES,
    CLASSIC_GROUP_RECORDS,
    CONSUMER_GROUP_RECORDS,
    LOG_GAPS,
    TABLES["partition_ownership_history"],
)


Expected = dict[int, dict[str, Any]]
"""Expected columns by log offset."""


def commits(log: Log) -> Expected:
    """Compare each commit with the previous one."""
    names = ("prev_offset", "delta", "direction", "gap_ms")
    rows = {
        log.commit("g", "t", 5): (None, None, "first", None),
        log.commit("h", "t", 9): (None, None, "first", None),
        log.commit("g", "t", 9): (5, 4, "forward", 2000),
        log.commit("g", "t", 9): (9, 0, "same", 1000),
        log.commit("g", "t", 2, commit_ts=None): (9, -7, "rewind", None),
        log.commit("g", "t", 3): (2, 1, "forward", None),
        log.commit("g", "t", 3, partition=1): (None, None, "first", None),
        log.tombstone("g", "t"): (3, None, "tombstone", 2000),
        log.tombstone("g", "t"): (None, None, "tombstone", None),
        log.commit("g", "t", 2**63 - 1): (None, None, "first", None),
        log.commit("g", "t", -1001): (2**63 - 1, None, "no_offset", 1000),
        log.commit("g", "t", -1): (None, None, "no_offset", None),
        log.commit("g", "t", 0): (None, None, "first", None),
        log.commit("g", "t", -2): (0, None, "no_offset", 1000),
        log.tombstone("g", "t"): (None, None, "tombstone", None),
    }
    return {at: dict(zip(names, row, strict=True)) for at, row in rows.items()}


def actors(log: Log) -> Expected:
    """Infer the actor from the group at that time."""
    rows: dict[int, tuple[str | None, str | None]]
    rows = {log.commit("a", "t", 0): ("simple", None)}
    log.classic("a", 1)
    rows[log.commit("a", "t", 1)] = ("member", None)
    log.owned("a", "t", log.classic("a", 2) + 3)
    rows[log.commit("a", "t", 2)] = ("owner", "m-1")
    rows[log.commit("a", "t", 2, partition=1)] = ("member", None)
    log.classic("a", 0)
    rows[log.commit("a", "t", 3)] = ("admin", None)
    rows[log.commit("a", "t", -1)] = ("admin", None)
    log.tombstone("a", None, record_type=2)
    rows[log.commit("a", "t", 4)] = ("simple", None)
    log.member("a", "one")
    log.member("a", "two")
    log.member("a", "one")
    log.tombstone("a", None, record_type=5, member_id="one")
    rows[log.commit("a", "t", 5)] = ("member", None)
    log.tombstone("a", None, record_type=5, member_id="two")
    rows[log.commit("a", "t", 6)] = ("admin", None)
    rows[log.tombstone("a", "t")] = (None, None)
    return {
        at: {"actor": actor, "owner_member_id": owner}
        for at, (actor, owner) in rows.items()
    }


def topic_lives(log: Log) -> Expected:
    """Match commits with owners of the same topic, by topic ID or by name."""
    log.member("by-id", "one")
    log.owned("by-id", None, None, topic_id=OLD)
    rows = {
        log.commit("by-id", "t", 1, topic_id=OLD): "owner",
        log.commit("by-id", "t", 1): "member",  # without a topic ID
        log.commit("by-id", "t", 1, topic_id=NEW): "member",
        log.commit("by-id", "u", 1, topic_id=NEW): "member",
    }
    log.member("by-name", "one")
    log.owned("by-name", "t", None, topic_id=OLD)
    rows |= {
        log.commit("by-name", "t", 1, topic_id=OLD): "owner",
        log.commit("by-name", "t", 1): "owner",
        log.commit("by-name", "t", 1, topic_id=NEW): "member",
    }
    return {at: {"actor": actor} for at, actor in rows.items()}


def causes(log: Log) -> Expected:
    """Infer the causes of tombstones."""
    for group_id in ("old", "gone", "asked", "owned", "all", "young"):
        log.commit(group_id, "t", 1)
        log.commit(group_id, "t", 1, partition=1)
    log.commit("own-time", "t", 1, expire_ts=at(0))
    log.classic("young", 1)
    log.owned("owned", "t", None)
    log.pause(RETENTION_S)
    log.classic("young", 0)
    rows = {
        log.tombstone("old", "t", partition=1): "expired",
        log.tombstone("own-time", "t"): "expired",
        log.tombstone("never", "t"): "unknown",
    }
    log.commit("gone", "t", 1)
    log.commit("gone", "t", 1, partition=1)
    log.batch()
    rows[log.tombstone("gone", "t")] = "group_deleted"
    rows[log.tombstone("gone", "t", partition=1)] = "group_deleted"
    log.tombstone("gone", None, record_type=2)
    log.single()
    # Retention starts when the group becomes empty, so its old offsets are not expired.
    rows[log.tombstone("young", "t")] = "offsets_deleted"
    rows[log.tombstone("young", "t", partition=1)] = "unknown"
    log.commit("asked", "t", 1)
    log.commit("all", "t", 1)
    log.batch()
    rows[log.tombstone("asked", "t")] = "topic_deleted"
    rows[log.tombstone("all", "t")] = "topic_deleted"
    log.single()
    # Offsets of owned partitions do not expire and cannot be deleted.
    rows[log.tombstone("owned", "t")] = "topic_deleted"
    return {at: {"tombstone_cause": cause} for at, cause in rows.items()}


def gaps(log: Log) -> Expected:
    """Mark rows after a gap as lower bounds."""
    rows = {log.commit("gap", "t", 1): False}
    log.gap()
    rows[log.commit("gap", "u", 1)] = True
    rows[log.commit("gap", "t", 2)] = True
    rows[log.commit("gap", "t", 3)] = False
    rows[log.tombstone("gap", "t")] = False
    rows[log.commit("gap", "t", 3)] = True
    return {at: {"is_lower_bound": is_bound} for at, is_bound in rows.items()}


SCENARIOS = (commits, actors, topic_lives, causes, gaps)


class Built(NamedTuple):
    """Rows by log offset, and the expected columns by scenario."""

    whole: Expected
    in_parts: Expected
    expected: dict[str, Expected]


@pytest.fixture(scope="module")
def built(spark: SparkSession) -> Built:
    """The rows of all scenarios, built from one log because a build takes seconds."""
    log = Log()
    expected = {scenario.__name__: scenario(log) for scenario in SCENARIOS}
    settings = GoldSettings(retention_ms=RETENTION_S * 1000)
    parts = parts_of(log.tables(), [{0: 8}, {0: log.length * 2 // 3}])
    whole, in_parts = (
        MemoryLake(spark, ["current_offsets", "offset_commit_history"], settings)
        for _ in ("whole", "in parts")
    )
    whole.run(log.tables())
    for part in parts:
        in_parts.run(part)
    return Built(_by_offset(whole), _by_offset(in_parts), expected)


def test_no_row_has_a_negative_offset(built: Built) -> None:
    assert all((row["committed_offset"] or 0) >= 0 for row in built.whole.values())


def _by_offset(lake: MemoryLake) -> Expected:
    rows = lake.tables["offset_commit_history"].to_pylist()
    return {row["log_offset"]: row for row in rows}


@pytest.mark.parametrize("scenario", [scenario.__name__ for scenario in SCENARIOS])
def test_each_scenario_has_the_expected_rows(built: Built, scenario: str) -> None:
    found = {
        at: {name: built.whole[at][name] for name in row}
        for at, row in built.expected[scenario].items()
    }
    assert found == built.expected[scenario]


def test_several_runs_build_the_rows_of_one_run(built: Built) -> None:
    assert built.in_parts == built.whole
