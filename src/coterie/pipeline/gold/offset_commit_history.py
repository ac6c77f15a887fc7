"""Each commit and each tombstone of an offset: what it changed, who may have done it,
and why an offset was taken away.

A row is final when it is made: it needs what stands before it in the log, and of its own
batch. So new rows are added, and those that are there are never touched.

The log does not say who committed: members are not in records of offsets. What it does
say is who owned the partition then, and what else the group had.

Why a tombstone was written is not in the log either. It is told by these rules, the
first that fits:

| cause | when |
|---|---|
| expired | its offset was older than the retention, by Kafka's rules (E17-18) |
| unknown | the commit before it is not in the log, so nobody knows how old it was |
| group_deleted | the group's own tombstones are in the same batch (E22-29) |
| topic_deleted | offsets of the topic go in two groups at once, or the partition had an owner, from whom Kafka would not let it be deleted |
| offsets_deleted | other offsets of the group on that topic stay |
| unknown | none of these: the topic or its offsets were deleted |
"""  # noqa: E501 - a table

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from coterie.pipeline.gold.current_offsets import OF
from coterie.pipeline.gold.look import Gold, Look, conform
from coterie.pipeline.gold.presence import CLASSIC, GROUP_TYPES, presence
from coterie.pipeline.tables.offset_commit_history import OFFSET_COMMIT_HISTORY

_KEPT: Final = (
    "topic_id",
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_ts",
    "expire_ts",
    "append_ts",
    "is_transactional",
)
_BATCH: Final = ("log_partition", "base_offset")


@dataclass(frozen=True, kw_only=True)
class Known:
    """What new rows are seen in the light of."""

    held: DataFrame
    """current_offsets before the new rows."""
    ownership: DataFrame
    """partition_ownership_history, the new rows' time with it."""
    presence: DataFrame
    """What each group was, the new rows' time with it."""
    gaps: DataFrame
    """log_gaps, all."""
    retention_ms: int
    """How long offsets are kept (offsets.retention.minutes)."""


def history(commits: DataFrame, tombstones: DataFrame, known: Known) -> DataFrame:
    """The rows of new commits and tombstones.

    All that is asked of the past is one line of events, divided by log partition once
    and sorted there as each question wants it.
    """
    line = (
        _commits(commits)
        .unionByName(_tombstones(tombstones), allowMissingColumns=True)
        .unionByName(_held(known.held), allowMissingColumns=True)
        .unionByName(_owners(known.ownership, commits), allowMissingColumns=True)
        .unionByName(_presence(known.presence), allowMissingColumns=True)
        .unionByName(_gaps(known.gaps), allowMissingColumns=True)
    )
    seen = _look_back(line)
    return _told(seen, known.retention_ms)


def _commits(commits: DataFrame) -> DataFrame:
    return commits.select(
        *_BATCH, "log_offset", *OF, *_KEPT, F.lit(True).alias("is_new"), _mark()
    )


def _tombstones(tombstones: DataFrame) -> DataFrame:
    """Those of offsets, and what their batch tells."""
    of_group = Window.partitionBy(*_BATCH, "group_id")
    of_topic = Window.partitionBy(*_BATCH, "topic")
    takes_group = F.col("record_type").isin(*GROUP_TYPES)
    groups_differ = F.min("group_id").over(of_topic) != F.max("group_id").over(of_topic)
    return (
        tombstones.withColumn("with_group", F.max(takes_group).over(of_group))
        .where(F.col("topic").isNotNull())
        .withColumn("with_others", groups_differ)
        .withColumn("committed_offset", F.lit(None).cast("bigint"))
        .withColumn("commit_ts", F.col("append_ts"))
        .withColumn("expire_ts", F.lit(None).cast("timestamp"))
        .select(
            *_BATCH,
            "log_offset",
            *OF,
            "commit_ts",
            "append_ts",
            "with_group",
            "with_others",
            F.lit(False).alias("is_transactional"),
            F.lit(True).alias("is_new"),
            _mark(),
        )
    )


def _held(held: DataFrame) -> DataFrame:
    return held.select(
        "log_partition",
        "log_offset",
        F.col("log_offset").alias("base_offset"),
        *OF,
        F.lit(False).alias("is_new"),
        _mark(),
    )


def _mark() -> Column:
    """What the next record of the partition wants to know of this one."""
    names = ("log_offset", "committed_offset", "commit_ts", "expire_ts")
    return F.struct(*names).alias("mark")


def _owners(ownership: DataFrame, commits: DataFrame) -> DataFrame:
    """When somebody begins to own a partition. A topic that has no name there may have
    one in the commits themselves."""
    names = (
        commits.where(F.col("topic_id").isNotNull())
        .groupBy("topic_id")
        .agg(F.max("topic").alias("name"))
    )
    owner = F.struct(
        "to_log_offset",
        "member_id",
        "client_id",
        "client_host",
        "topic_id",
        F.col("topic").isNull().alias("by_id"),
    )
    return (
        ownership.withColumn("owner", owner)
        .join(names, on="topic_id", how="left")
        .select(
            "log_partition",
            F.col("from_log_offset").alias("log_offset"),
            "group_id",
            F.coalesce("topic", "name").alias("topic"),
            "partition",
            "owner",
        )
        .where(F.col("topic").isNotNull())
    )


def _presence(presence: DataFrame) -> DataFrame:
    group = F.struct("kind", "members", "state_ts").alias("group")
    return presence.select("log_partition", "log_offset", "group_id", group)


def _gaps(gaps: DataFrame) -> DataFrame:
    at = F.col("from_offset")
    return gaps.select("log_partition", at.alias("log_offset"), at.alias("gap"))


def _look_back(line: DataFrame) -> DataFrame:
    """For each row what stood before it: `prev`, `owner`, `group`, `gap`, and of its
    topic `live`, the partitions that have an offset after its batch."""
    is_offset = F.col("mark").isNotNull()
    change = F.when(_is_first() & ~_is_tombstone(), 1).when(
        ~_is_first() & _is_tombstone(), -1
    )
    topic = Window.partitionBy("log_partition", "group_id", "topic")
    to_its_batch = topic.orderBy("base_offset").rangeBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    before = _so_far(*OF).rowsBetween(Window.unboundedPreceding, -1)
    return (
        line.withColumn("gap", _latest("gap", _so_far()))
        .where(is_offset | F.col("owner").isNotNull() | F.col("group").isNotNull())
        .withColumn("group", _latest("group", _so_far("group_id")))
        .where(is_offset | F.col("owner").isNotNull())
        .withColumns(
            {
                "owner": _latest("owner", _so_far(*OF)),
                "prev": _latest("mark", before),
            }
        )
        .where(is_offset)
        .withColumn("live", F.sum(change).over(to_its_batch))
        .where("is_new")
    )


def _so_far(*of: str) -> WindowSpec:
    return (
        Window.partitionBy("log_partition", *of)
        .orderBy("log_offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )


def _latest(name: str, window: WindowSpec) -> Column:
    return F.last(name, ignorenulls=True).over(window)


def _is_tombstone() -> Column:
    return F.col("mark.committed_offset").isNull()


def _is_first() -> Column:
    """No commit before, or one that was taken away."""
    return F.col("prev.committed_offset").isNull()


def _told(seen: DataFrame, retention_ms: int) -> DataFrame:
    """The questions answered."""
    prev = F.col("prev.committed_offset")
    gap_since = F.when(_is_first(), -1).otherwise(F.col("prev.log_offset"))
    millis = F.unix_millis("commit_ts") - F.unix_millis("prev.commit_ts")
    return _with_owner(seen).withColumns(
        {
            "prev_offset": prev,
            "delta": F.try_subtract("committed_offset", prev),
            "direction": _direction(),
            "gap_ms": F.when(~_is_first(), millis),
            "actor": F.when(~_is_tombstone(), _actor()),
            "tombstone_cause": F.when(_is_tombstone(), _cause(retention_ms)),
            "is_lower_bound": F.coalesce(F.col("gap") > gap_since, F.lit(False)),
        }
    )


def _direction() -> Column:
    prev = F.col("prev.committed_offset")
    return (
        F.when(_is_tombstone(), "tombstone")
        .when(_is_first(), "first")
        .when(F.col("committed_offset") > prev, "forward")
        .when(F.col("committed_offset") < prev, "rewind")
        .otherwise("same")
    )


def _with_owner(seen: DataFrame) -> DataFrame:
    """An owner that still owns it, and this very topic: not another of its name."""
    owner = F.col("owner")
    is_open = owner["to_log_offset"].isNull()
    is_now = is_open | (F.col("log_offset") < owner["to_log_offset"])
    same_id = F.col("topic_id") == owner["topic_id"]
    is_it = is_now & F.coalesce(same_id, ~owner["by_id"])
    return seen.withColumn("owner", F.when(is_it, owner)).withColumns(
        {
            "owner_member_id": F.col("owner.member_id"),
            "owner_client_id": F.col("owner.client_id"),
            "owner_host": F.col("owner.client_host"),
        }
    )


def _actor() -> Column:
    return (
        F.when(F.col("owner_member_id").isNotNull(), "owner")
        .when(F.col("group.members") > 0, "member")
        .when(F.col("group.kind").isNotNull(), "admin")
        .otherwise("simple")
    )


def _cause(retention_ms: int) -> Column:
    is_owned = F.col("owner_member_id").isNotNull()
    return (
        F.when(_is_first(), "unknown")
        .when(_is_expired(retention_ms), "expired")
        .when(F.col("with_group"), "group_deleted")
        .when(F.col("with_others") | is_owned, "topic_deleted")
        .when(F.col("live") > 0, "offsets_deleted")
        .otherwise("unknown")
    )


def _is_expired(retention_ms: int) -> Column:
    """Whether the coordinator's rules let it go at that time (E17-18)."""
    emptied = (F.col("group.kind") == CLASSIC) & (F.col("group.members") == 0)
    base = F.when(
        F.coalesce(emptied, F.lit(False)),
        F.coalesce("group.state_ts", "prev.commit_ts"),
    ).otherwise(F.col("prev.commit_ts"))
    age_ms = F.unix_millis("append_ts") - F.unix_millis(base)
    own_time = F.col("prev.expire_ts")
    by_age = F.col("owner_member_id").isNull() & (age_ms >= retention_ms)
    expired = F.when(own_time.isNotNull(), F.col("append_ts") >= own_time)
    return F.coalesce(expired.otherwise(by_age), F.lit(False))


def build(look: Look) -> DataFrame:
    """The rows to add."""
    known = Known(
        held=look.before("current_offsets"),
        ownership=look.all("partition_ownership_history"),
        presence=presence(
            look.all("classic_group_records"),
            look.all("consumer_group_records"),
            look.all("tombstones"),
        ),
        gaps=look.all("log_gaps"),
        retention_ms=look.settings.retention_ms,
    )
    rows = history(look.new("offset_commits"), look.new("tombstones"), known)
    return conform(rows, OFFSET_COMMIT_HISTORY)


GOLD: Final = Gold(
    OFFSET_COMMIT_HISTORY,
    (
        "offset_commits",
        "tombstones",
        "classic_group_records",
        "consumer_group_records",
        "log_gaps",
        "current_offsets",
        "partition_ownership_history",
    ),
    build,
    adds=True,
)
