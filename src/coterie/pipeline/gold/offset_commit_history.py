"""Gold table offset_commit_history: every commit and tombstone of an offset, with the
change, the likely committer, and the cause of a tombstone. A commit of a negative offset
is no committed offset: the partition has none after it, as after a tombstone.

A row is final when it is written: it depends only on earlier records and on its own
batch. New rows are appended, and existing ones never change.

The log does not record which member made a commit. It does record which member owned the
partition then, and whether the group had members.

It does not record why a tombstone was written either. The first rule that fits decides;
deleted_offsets revises the cause `unknown` when later records or samples show more:

| cause | condition |
|---|---|
| unknown | the commit before it is not in the log, so the age of the offset is unknown |
| expired | the offset was older than the retention time, by Kafka's rules (E17-18) |
| group_deleted | tombstones of the group itself are in the same batch (E22-29) |
| topic_deleted | offsets of the topic are deleted for two groups in one batch, or the partition had an owner, for which Kafka rejects a deletion of offsets |
| offsets_deleted | other offsets of the group on that topic remain |
| unknown | none of these: the topic or its offsets were deleted |
"""  # noqa: E501 - a table

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from coterie.pipeline.gold.current_offsets import PARTITION, known_offset
from coterie.pipeline.gold.table_inputs import GoldTable, TableInputs
from coterie.pipeline.tables.gold_offsets import OFFSET_COMMIT_HISTORY

_COMMIT_COLUMNS: Final = (
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
_CLASSIC: Final = "classic"
_CONSUMER: Final = "consumer"
_CLASSIC_GROUP_TYPE: Final = 2
_CONSUMER_GROUP_TYPE: Final = 3
_CONSUMER_MEMBER_TYPE: Final = 5
_GROUP_TYPES: Final = (_CLASSIC_GROUP_TYPE, _CONSUMER_GROUP_TYPE)
"""Types of records whose tombstone deletes a group."""


def offset_commit_history(
    commits: DataFrame,
    tombstones: DataFrame,
    context: Mapping[str, DataFrame],
    retention_ms: int,
) -> DataFrame:
    """Return the rows of new commits and tombstones.

    `context` has the other inputs by name: all rows of the group records, tombstones,
    log_gaps and partition_ownership_history, and current_offsets before the new rows.
    `retention_ms` is `offsets.retention.minutes` of the cluster.

    Commits, tombstones, owners, group sizes and gaps become rows of one frame. It is
    partitioned by log partition once, and each lookup of earlier records is one window
    over it.
    """
    sizes = group_sizes(
        context["classic_group_records"],
        context["consumer_group_records"],
        context["tombstones"],
    )
    group = F.struct("kind", "members", "state_ts").alias("group")
    gap_start = F.col("from_offset")
    is_new, is_old = F.lit(True).alias("is_new"), F.lit(False).alias("is_new")
    # The columns of a commit or tombstone that later rows compare with.
    offset = F.struct("log_offset", "committed_offset", "commit_ts", "expire_ts").alias(
        "offset"
    )
    commits = commits.withColumn("committed_offset", known_offset())
    records = commits.select(
        *_BATCH, "log_offset", *PARTITION, *_COMMIT_COLUMNS, is_new, offset
    )
    for rows in (
        _deletions(tombstones).select("*", is_new, offset),
        context["current_offsets"].select(
            "log_partition",
            "log_offset",
            F.col("log_offset").alias("base_offset"),
            *PARTITION,
            is_old,
            offset,
        ),
        _owners(context["partition_ownership_history"], commits),
        sizes.select("log_partition", "log_offset", "group_id", group),
        context["log_gaps"].select(
            "log_partition", gap_start.alias("log_offset"), gap_start.alias("gap")
        ),
    ):
        records = records.unionByName(rows, allowMissingColumns=True)
    return _with_answers(_with_earlier(records), retention_ms)


def group_sizes(
    classic: DataFrame, consumer: DataFrame, tombstones: DataFrame
) -> DataFrame:
    """Return a row for each record that changes the existence, protocol or size of a
    group, valid from its log offset on.

    Columns: kind (classic, consumer; null for a deleted or simple group), members, and
    state_ts (the time of the last state change; classic groups only).
    """
    no_state_ts = F.lit(None).cast("timestamp").alias("state_ts")
    record = ("log_partition", "log_offset", "group_id")
    # Kafka writes an empty protocol type for a group without members since its
    # creation.
    is_simple = F.col("protocol_type") == ""
    classic_sizes = classic.select(
        *record,
        F.when(~is_simple, F.lit(_CLASSIC)).alias("kind"),
        F.size("members").cast("bigint").alias("members"),
        "state_ts",
    )
    # The members of a consumer group are those with a record of type 5; type 3 shows
    # that an empty group exists.
    is_member = F.col("record_type") == _CONSUMER_MEMBER_TYPE
    is_group = F.col("record_type") == _CONSUMER_GROUP_TYPE
    added = consumer.where(is_member | is_group).select(
        *record, "member_id", F.when(is_member, 1).alias("exists")
    )
    removed = tombstones.where(is_member).select(
        *record, "member_id", F.lit(0).alias("exists")
    )
    of_member = Window.partitionBy("group_id", "member_id").orderBy("log_offset")
    of_group = Window.partitionBy("group_id").orderBy("log_offset")
    before = F.coalesce(F.lag("exists").over(of_member), F.lit(0))
    changes = added.unionByName(removed).withColumn("change", F.col("exists") - before)
    consumer_sizes = changes.select(
        *record,
        F.lit(_CONSUMER).alias("kind"),
        F.coalesce(F.sum("change").over(of_group), F.lit(0)).alias("members"),
        no_state_ts,
    )
    deleted = tombstones.where(F.col("record_type").isin(*_GROUP_TYPES)).select(
        *record,
        F.lit(None).cast("string").alias("kind"),
        F.lit(0).cast("bigint").alias("members"),
        no_state_ts,
    )
    return classic_sizes.unionByName(consumer_sizes).unionByName(deleted)


# Rows of the common frame.


def _deletions(tombstones: DataFrame) -> DataFrame:
    """Return the tombstones of offsets, with flags derived from their batch:
    `with_group`, whether the batch also deletes the group; `with_others`, whether it
    also deletes another group's offsets of the topic.
    """
    of_group = Window.partitionBy(*_BATCH, "group_id")
    of_topic = Window.partitionBy(*_BATCH, "topic")
    deletes_group = F.col("record_type").isin(*_GROUP_TYPES)
    groups_differ = F.min("group_id").over(of_topic) != F.max("group_id").over(of_topic)
    return (
        tombstones.withColumn("with_group", F.max(deletes_group).over(of_group))
        .where(F.col("topic").isNotNull())
        .withColumn("with_others", groups_differ)
        .withColumn("committed_offset", F.lit(None).cast("bigint"))
        .withColumn("commit_ts", F.col("append_ts"))
        .withColumn("expire_ts", F.lit(None).cast("timestamp"))
        .select(
            *_BATCH,
            "log_offset",
            *PARTITION,
            "commit_ts",
            "append_ts",
            "with_group",
            "with_others",
            "committed_offset",
            "expire_ts",
            F.lit(False).alias("is_transactional"),
        )
    )


def _owners(ownership: DataFrame, commits: DataFrame) -> DataFrame:
    """Return a row for the start of each ownership interval. A missing topic name is
    taken from the commits.
    """
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
        F.col("topic").isNull().alias("is_by_id"),
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


# Windows over earlier rows.


def _with_earlier(records: DataFrame) -> DataFrame:
    """Return the new commits and tombstones with the state before them: `prev`,
    `owner`, `group`, `gap`; and `live`, the number of partitions of the topic with a
    committed offset after their batch."""
    is_offset = F.col("offset").isNotNull()
    is_deletion = F.col("offset.committed_offset").isNull()
    change = F.when(_is_first() & ~is_deletion, 1).when(~_is_first() & is_deletion, -1)
    topic = Window.partitionBy("log_partition", "group_id", "topic")
    through_batch = topic.orderBy("base_offset").rangeBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    before = _up_to_row(*PARTITION).rowsBetween(Window.unboundedPreceding, -1)
    # Rows that later windows do not need are dropped after each step.
    return (
        records.withColumn("gap", _last("gap", _up_to_row()))
        .where(is_offset | F.col("owner").isNotNull() | F.col("group").isNotNull())
        .withColumn("group", _last("group", _up_to_row("group_id")))
        .where(is_offset | F.col("owner").isNotNull())
        .withColumns(
            {
                "owner": _last("owner", _up_to_row(*PARTITION)),
                "prev": _last("offset", before),
            }
        )
        .where(is_offset)
        .withColumn("live", F.sum(change).over(through_batch))
        .where("is_new")
    )


def _up_to_row(*columns: str) -> WindowSpec:
    return (
        Window.partitionBy("log_partition", *columns)
        .orderBy("log_offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )


def _last(name: str, window: WindowSpec) -> Column:
    return F.last(name, ignorenulls=True).over(window)


def _is_first() -> Column:
    """Return whether the partition has no committed offset before this record."""
    return F.col("prev.committed_offset").isNull()


# Output columns.


def _with_answers(rows: DataFrame, retention_ms: int) -> DataFrame:
    prev = F.col("prev.committed_offset")
    is_tombstone = _is_tombstone()
    known_from = F.when(_is_first(), -1).otherwise(F.col("prev.log_offset"))
    gap_ms = F.unix_millis("commit_ts") - F.unix_millis("prev.commit_ts")
    # The last owner counts only while it still owns the partition, and only if its
    # topic has this id: an earlier topic may have had the same name.
    owner = F.col("owner")
    is_current = owner["to_log_offset"].isNull() | (
        F.col("log_offset") < owner["to_log_offset"]
    )
    is_same_topic = F.coalesce(
        F.col("topic_id") == owner["topic_id"], ~owner["is_by_id"]
    )
    with_owner = rows.withColumn(
        "owner", F.when(is_current & is_same_topic, owner)
    ).withColumns(
        {
            "owner_member_id": F.col("owner.member_id"),
            "owner_client_id": F.col("owner.client_id"),
            "owner_host": F.col("owner.client_host"),
        }
    )
    return with_owner.withColumns(
        {
            "prev_offset": prev,
            "delta": F.col("committed_offset") - prev,
            "direction": _direction(),
            "gap_ms": F.when(~_is_first(), gap_ms),
            "actor": F.when(~is_tombstone, _actor()),
            "tombstone_cause": F.when(is_tombstone, _cause(retention_ms)),
            "is_lower_bound": F.coalesce(F.col("gap") > known_from, F.lit(False)),
        }
    )


def _is_tombstone() -> Column:
    return F.col("with_group").isNotNull()  # a flag of tombstones


def _direction() -> Column:
    prev = F.col("prev.committed_offset")
    return (
        F.when(_is_tombstone(), "tombstone")
        .when(F.col("committed_offset").isNull(), "no_offset")
        .when(_is_first(), "first")
        .when(F.col("committed_offset") > prev, "forward")
        .when(F.col("committed_offset") < prev, "rewind")
        .otherwise("same")
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
    """Return whether the offset could expire at the tombstone's time (E17-18)."""
    is_empty_classic = (F.col("group.kind") == _CLASSIC) & (F.col("group.members") == 0)
    base_ts = F.when(
        F.coalesce(is_empty_classic, F.lit(False)),
        F.coalesce("group.state_ts", "prev.commit_ts"),
    ).otherwise(F.col("prev.commit_ts"))
    age_ms = F.unix_millis("append_ts") - F.unix_millis(base_ts)
    explicit_ts = F.col("prev.expire_ts")
    # Kafka does not expire offsets on subscribed topics. A partition with an owner is
    # subscribed.
    by_age = F.col("owner_member_id").isNull() & (age_ms >= retention_ms)
    expired = F.when(explicit_ts.isNotNull(), F.col("append_ts") >= explicit_ts)
    return F.coalesce(expired.otherwise(by_age), F.lit(False))


_CONTEXT: Final = (
    "tombstones",
    "classic_group_records",
    "consumer_group_records",
    "log_gaps",
    "partition_ownership_history",
)


def _build(inputs: TableInputs) -> DataFrame:
    context = {name: inputs.all(name) for name in _CONTEXT}
    context["current_offsets"] = inputs.before("current_offsets")
    return offset_commit_history(
        inputs.new("offset_commits"),
        inputs.new("tombstones"),
        context,
        inputs.settings.retention_ms,
    )


GOLD: Final = GoldTable(
    OFFSET_COMMIT_HISTORY,
    ("offset_commits", "current_offsets", *_CONTEXT),
    _build,
    appends=True,
)
