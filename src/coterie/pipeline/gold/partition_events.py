"""Events on partitions in the order of time: samples, commits and changes of owner.

Runs append samples to the table partition_end_samples, as many as their source has.
`of_minutes` reduces them to one a minute for each partition, which is enough for lag. A
topic may be deleted and created again: `with_lives` numbers its lives.

`events` returns rows of one schema for all kinds of events, so that one window finds
the commit and the owner at each sample; a range join would cost far more.

| column | meaning |
|---|---|
| group_id, topic, partition | the partition, for one group |
| at_ts, rank, seq | the order. At equal times samples come last: they include everything written at that moment |
| commit | of a commit or tombstone: at_ts, topic_id, committed_offset (null for a tombstone), commit_ts, is_reset |
| owner | of a change of owner: at_ts, topic_id, member_id (null for no owner), is_lower_bound |
| sample | of a sample: its row from `with_lives` |

Times of commits never decrease: the committed offset at a time is that of the last
commit in the log, when all records up to it were written (K-03).
"""  # noqa: E501

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

PARTITION: Final = ("group_id", "topic", "partition")
ORDER: Final = ("at_ts", "rank", "seq")
_CHANGE_RANK: Final = 1
_SAMPLE_RANK: Final = 2


def of_minutes(samples: DataFrame) -> DataFrame:
    """Return the last sample of each minute, for each partition."""
    in_time = Window.partitionBy("topic", "partition").orderBy(
        "sample_ts", "high_watermark"
    )
    minute = F.date_trunc("minute", "sample_ts")
    next_minute = F.lead(minute).over(in_time)
    is_last = next_minute.isNull() | (next_minute != minute)
    return samples.withColumn("is_last", is_last).where("is_last").drop("is_last")


def with_lives(samples: DataFrame) -> DataFrame:
    """Add `life`, the number of times the topic has been created again so far, and
    `previous_life_ts`, the time of the last sample in the previous life (null in the
    first life).
    """
    in_time = Window.partitionBy("topic", "partition").orderBy("sample_ts")
    until_now = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    id_before = F.lag("topic_id").over(in_time)
    # Without topic IDs, only a lower end offset shows that the topic was created again.
    are_ids_known = id_before.isNotNull() & F.col("topic_id").isNotNull()
    went_back = F.col("high_watermark") < F.lag("high_watermark").over(in_time)
    is_new_life = F.coalesce(
        F.when(are_ids_known, F.col("topic_id") != id_before).otherwise(went_back),
        F.lit(False),
    )
    before_ts = F.lag("sample_ts").over(in_time)
    return (
        samples.withColumn("is_new_life", is_new_life)
        .withColumn("ended_ts", F.when(is_new_life, before_ts))
        .withColumn("life", F.sum(F.col("is_new_life").cast("int")).over(until_now))
        .withColumn(
            "previous_life_ts", F.last("ended_ts", ignorenulls=True).over(until_now)
        )
        .drop("is_new_life", "ended_ts")
    )


def events(ends: DataFrame, history: DataFrame, ownership: DataFrame) -> DataFrame:
    """Return all events on partitions that a group committed for or owned.

    The inputs are `with_lives(of_minutes(partition_end_samples))`,
    offset_commit_history and partition_ownership_history.
    """
    # Ownership of consumer groups may have topic IDs only. Samples have both.
    names = (
        ends.where(F.col("topic_id").isNotNull())
        .groupBy("topic_id")
        .agg(F.max("topic").alias("known_topic"))
    )
    owned = (
        ownership.join(F.broadcast(names), "topic_id", "left")
        .withColumn("topic", F.coalesce("topic", "known_topic"))
        .where(F.col("topic").isNotNull())
        .drop("known_topic")
    )
    partitions = history.select(*PARTITION).union(owned.select(*PARTITION)).distinct()
    return (
        _commits(history)
        .unionByName(_owners(owned), allowMissingColumns=True)
        .unionByName(_samples(ends, partitions), allowMissingColumns=True)
    )


def latest(name: str) -> Column:
    """Return the last non-null `commit` or `owner` up to each event."""
    until_now = (
        Window.partitionBy(*PARTITION)
        .orderBy(*ORDER)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return F.last(name, ignorenulls=True).over(until_now)


def is_of_same_life(name: str) -> Column:
    """Return whether the `commit` or `owner` belongs to the sample's topic, not to an
    earlier topic with the same name.
    """
    own_id, sampled_id = F.col(f"{name}.topic_id"), F.col("sample.topic_id")
    before_ts = F.col("sample.previous_life_ts")
    is_same = F.when(own_id.isNotNull() & sampled_id.isNotNull(), own_id == sampled_id)
    is_later = before_ts.isNull() | (F.col(f"{name}.at_ts") > before_ts)
    return F.coalesce(is_same, is_later)


def _commits(history: DataFrame) -> DataFrame:
    in_log = (
        Window.partitionBy(*PARTITION)
        .orderBy("log_offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    at_ts = F.max(F.coalesce("append_ts", "commit_ts")).over(in_log)
    is_reset = F.coalesce(F.col("actor") == "admin", F.lit(False))
    return history.withColumn("at_ts", at_ts).select(
        *PARTITION,
        *_order(F.col("at_ts"), _CHANGE_RANK, F.col("log_offset") * 2),
        F.struct(
            "at_ts",
            "topic_id",
            "committed_offset",
            F.coalesce("commit_ts", "at_ts").alias("commit_ts"),
            is_reset.alias("is_reset"),
        ).alias("commit"),
    )


def _owners(ownership: DataFrame) -> DataFrame:
    """Return two events for each interval: its start and its end. If one record ends an
    interval and starts the next, the end sorts first.
    """

    def changes(rows: DataFrame, at_ts: str, seq: Column, *values: Column) -> DataFrame:
        owner = F.struct(F.col(at_ts).alias("at_ts"), "topic_id", *values)
        order = _order(F.col(at_ts), _CHANGE_RANK, seq)
        return rows.select(*PARTITION, *order, owner.alias("owner"))

    begins = F.col("from_log_offset") * 2 + 1
    ends = F.col("to_log_offset") * 2
    member = F.col("member_id"), F.col("is_lower_bound")
    no_member = (
        F.lit(None).cast("string").alias("member_id"),
        F.lit(False).alias("is_lower_bound"),
    )
    ended = ownership.where(F.col("valid_to").isNotNull())
    return changes(ownership, "valid_from", begins, *member).unionByName(
        changes(ended, "valid_to", ends, *no_member)
    )


def _samples(ends: DataFrame, partitions: DataFrame) -> DataFrame:
    columns = [name for name in ends.columns if name not in PARTITION]
    samples = ends.select("topic", "partition", F.struct(*columns).alias("sample"))
    return partitions.join(samples, ["topic", "partition"]).select(
        *PARTITION, *_order(F.col("sample.sample_ts"), _SAMPLE_RANK, F.lit(0)), "sample"
    )


def _order(at_ts: Column, rank: int, seq: Column) -> list[Column]:
    return [
        at_ts.alias("at_ts"),
        F.lit(rank).alias("rank"),
        seq.cast("bigint").alias("seq"),
    ]
