"""What each group committed, by hand-made rows and by the truth of a generated log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from coterie.pipeline.gold.current_offsets import GOLD as CURRENT
from coterie.pipeline.gold.offset_commit_history import GOLD
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.tables.classic_group_records import CLASSIC_GROUP_RECORDS
from coterie.pipeline.tables.consumer_group_records import CONSUMER_GROUP_RECORDS
from coterie.pipeline.tables.log_gaps import LOG_GAPS
from coterie.pipeline.tables.offset_commits import OFFSET_COMMITS
from coterie.pipeline.tables.partition_ownership_history import (
    PARTITION_OWNERSHIP_HISTORY,
)
from coterie.pipeline.tables.table import Table
from coterie.pipeline.tables.tombstones import TOMBSTONES
from tests.pipeline.gold.hand_made import arrow, at
from tests.pipeline.gold.looks import Lakeful, parts_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
OLD, NEW = "a" * 32, "b" * 32
RETENTION_S = 1000
Rows = dict[str, list[dict[str, Any]]]


class Log:
    """Records of groups, one a second and batch; each call gives its log offset."""

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
        """Since the last record, until that offset."""
        about = {
            "group_id": group_id,
            "topic": topic,
            "from_log_offset": self._next - 1,
            "to_log_offset": until,
            "member_id": "m-1",
            "client_id": "c-1",
            "client_host": "/10.0.0.1",
        }
        self.rows.setdefault(PARTITION_OWNERSHIP_HISTORY.name, []).append(about | more)

    def gap(self, offsets: int = 1) -> None:
        """Nobody knows what stood here."""
        until = self._next + offsets
        row = {"from_offset": self._next, "until_offset": until, "reason": "missing"}
        self.rows.setdefault(LOG_GAPS.name, []).append(row)
        self._next = until

    def pause(self, seconds: int) -> None:
        self._next += seconds

    def batch(self) -> None:
        """What follows is of one batch, until the next call."""
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
    PARTITION_OWNERSHIP_HISTORY,
)


Told = dict[int, dict[str, Any]]
"""What is expected of rows, by log offset."""


def commits(log: Log) -> Told:
    """A commit is told by the one before."""
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
        log.commit("g", "t", -5): (2**63 - 1, None, "rewind", 1000),
    }
    return {at: dict(zip(names, row, strict=True)) for at, row in rows.items()}


def actors(log: Log) -> Told:
    """Who may have committed is told by the group as it was."""
    rows: dict[int, tuple[str | None, str | None]]
    rows = {log.commit("a", "t", 0): ("simple", None)}
    log.classic("a", 1)
    rows[log.commit("a", "t", 1)] = ("member", None)
    log.owned("a", "t", log.classic("a", 2) + 3)
    rows[log.commit("a", "t", 2)] = ("owner", "m-1")
    rows[log.commit("a", "t", 2, partition=1)] = ("member", None)
    log.classic("a", 0)
    rows[log.commit("a", "t", 3)] = ("admin", None)
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


def topic_lives(log: Log) -> Told:
    """An owner owns one life of a topic."""
    log.member("by-id", "one")
    log.owned("by-id", None, None, topic_id=OLD)
    rows = {
        log.commit("by-id", "t", 1, topic_id=OLD): "owner",
        log.commit("by-id", "t", 1): "member",  # its id is not told
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


def causes(log: Log) -> Told:
    """Why an offset was taken away is told by rules."""
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
    # It was empty for a short time only, however old its commits are.
    rows[log.tombstone("young", "t")] = "offsets_deleted"
    rows[log.tombstone("young", "t", partition=1)] = "unknown"
    log.commit("asked", "t", 1)
    log.commit("all", "t", 1)
    log.batch()
    rows[log.tombstone("asked", "t")] = "topic_deleted"
    rows[log.tombstone("all", "t")] = "topic_deleted"
    log.single()
    # An owner's offsets do not expire, and nobody may delete them.
    rows[log.tombstone("owned", "t")] = "topic_deleted"
    return {at: {"tombstone_cause": cause} for at, cause in rows.items()}


def gaps(log: Log) -> Told:
    """Behind a gap what is said is a lower bound."""
    rows = {log.commit("gap", "t", 1): False}
    log.gap()
    rows[log.commit("gap", "u", 1)] = True
    rows[log.commit("gap", "t", 2)] = True
    rows[log.commit("gap", "t", 3)] = False
    rows[log.tombstone("gap", "t")] = False
    rows[log.commit("gap", "t", 3)] = True
    return {at: {"is_lower_bound": is_bound} for at, is_bound in rows.items()}


TALES = (commits, actors, topic_lives, causes, gaps)


class Built(NamedTuple):
    """The rows by log offset, and what they are to be, by tale."""

    whole: Told
    in_parts: Told
    expected: dict[str, Told]


@pytest.fixture(scope="module")
def built(spark: SparkSession) -> Built:
    """All tales in one log, as building takes longer than telling."""
    log = Log()
    expected = {tale.__name__: tale(log) for tale in TALES}
    settings = GoldSettings(retention_ms=RETENTION_S * 1000)
    parts = parts_of(log.tables(), [{0: 8}, {0: log.length * 2 // 3}])
    whole, in_parts = (
        Lakeful(spark, [CURRENT, GOLD], settings) for _ in ("whole", "in parts")
    )
    whole.run(log.tables())
    for part in parts:
        in_parts.run(part)
    return Built(_by_offset(whole), _by_offset(in_parts), expected)


def _by_offset(lake: Lakeful) -> Told:
    rows = lake.tables[GOLD.table.name].to_pylist()
    return {row["log_offset"]: row for row in rows}


@pytest.mark.parametrize("tale", [tale.__name__ for tale in TALES])
def test_a_tale_is_told_as_it_was(built: Built, tale: str) -> None:
    found = {
        at: {name: built.whole[at][name] for name in row}
        for at, row in built.expected[tale].items()
    }
    assert found == built.expected[tale]


def test_several_runs_tell_what_one_tells(built: Built) -> None:
    assert built.in_parts == built.whole
