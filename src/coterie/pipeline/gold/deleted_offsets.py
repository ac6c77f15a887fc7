"""Gold table deleted_offsets: every tombstone of a committed offset, with its cause as
far as it is known by now.

The log alone may not show the cause (`tombstone_cause` of offset_commit_history, which
is final when it is written). Later records and samples may: the first rule that fits
replaces the cause `unknown`.

| cause | condition |
|---|---|
| topic_deleted | the topic was sampled before the tombstone and never again, and either a later query of the whole cluster did not list it, or a topic of this name with another ID was sampled |
| offsets_deleted | the same topic was sampled after the tombstone, and the commit before the tombstone is in the log |
| topic_deleted | offsets of another group on the topic were deleted within a second, perhaps in another log partition |
"""  # noqa: E501 - a table

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.pipeline.gold.table_inputs import updated
from coterie.pipeline.tables.gold_offsets import DELETED_OFFSETS

_CLOCK_MS: Final = 60_000
"""Allowed difference between the clocks of the brokers and of the sampling process."""
_TOGETHER_MS: Final = 1_000
_TOPIC_PARTITION: Final = ("topic", "partition")
_TOMBSTONE: Final = (
    "log_partition",
    "log_offset",
    "group_id",
    *_TOPIC_PARTITION,
    "deleted_ts",
    "last_offset",
    "cause_in_log",
)


def deleted_offsets(
    before: DataFrame, history: DataFrame, ends: DataFrame
) -> DataFrame:
    """Return the table updated with new rows of offset_commit_history, from the
    previous table and newest_partition_ends."""
    deletions = history.where(F.col("direction") == "tombstone").select(
        "log_partition",
        "log_offset",
        "group_id",
        *_TOPIC_PARTITION,
        F.col("append_ts").alias("deleted_ts"),
        F.col("prev_offset").alias("last_offset"),
        F.col("tombstone_cause").alias("cause_in_log"),
    )
    began = F.col("first_ts") <= F.col("deleted_ts")
    life = F.max(F.when(began, F.struct("first_ts", "last_ts", "is_gone")))
    return (
        before.select(*_TOMBSTONE)
        .unionByName(deletions)
        .join(_lives(ends), list(_TOPIC_PARTITION), "left")
        .groupBy(*_TOMBSTONE)
        .agg(life.alias("life"))
        .withColumn("with_others", _is_with_others())
        .withColumn("cause", _cause())
    )


def _lives(ends: DataFrame) -> DataFrame:
    """Return the time of each partition's first and last sample for each topic ID, and
    whether that topic is gone."""
    lives = ends.groupBy(*_TOPIC_PARTITION, "topic_id").agg(
        F.min("first_ts").alias("first_ts"),
        F.max("sample_ts").alias("last_ts"),
        F.max("queried_ts").alias("queried_ts"),
    )
    last_query_ts = F.max("queried_ts").over(Window.partitionBy(F.lit(1)))
    in_time = Window.partitionBy(*_TOPIC_PARTITION).orderBy("first_ts")
    is_unlisted = F.coalesce(F.col("last_ts") < last_query_ts, F.lit(False))
    is_replaced = F.lead("first_ts").over(in_time) > F.col("last_ts")
    return lives.select(
        *_TOPIC_PARTITION,
        "first_ts",
        "last_ts",
        (is_unlisted | F.coalesce(is_replaced, F.lit(False))).alias("is_gone"),
    )


def _is_with_others() -> Column:
    at_ms = F.unix_millis("deleted_ts")
    together = (
        Window.partitionBy("topic")
        .orderBy(at_ms)
        .rangeBetween(-_TOGETHER_MS, _TOGETHER_MS)
    )
    may_be_of_topic = F.col("cause_in_log").isin("unknown", "topic_deleted")
    group_id = F.when(may_be_of_topic & at_ms.isNotNull(), F.col("group_id"))
    groups_differ = F.min(group_id).over(together) != F.max(group_id).over(together)
    return F.coalesce(groups_differ, F.lit(False))


def _cause() -> Column:
    after_last_ms = F.unix_millis("deleted_ts") - F.unix_millis("life.last_ts")
    was_last = F.col("life.is_gone") & (after_last_ms >= -_CLOCK_MS)
    existed_later = (after_last_ms < -_CLOCK_MS) & F.col("last_offset").isNotNull()
    known = (
        F.when(was_last, "topic_deleted")
        .when(existed_later, "offsets_deleted")
        .when(F.col("with_others"), "topic_deleted")
        .otherwise("unknown")
    )
    in_log = F.col("cause_in_log")
    return F.when(in_log == "unknown", known).otherwise(in_log)


GOLD: Final = updated(
    DELETED_OFFSETS,
    deleted_offsets,
    "offset_commit_history",
    whole=("newest_partition_ends",),
)
