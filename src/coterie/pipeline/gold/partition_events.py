"""What happened on each partition of each group, in the order of time.

Three things happen: an offset is committed (or taken away), the partition gets another
owner (or none), somebody looks at where it ends. `events` has them all as rows of one
shape, so that "what held then" is one window over them and never a range join:

| column | of |
|---|---|
| group_id, topic, partition | all |
| at_ts, rank, seq | all: their order. At the same time a sample comes last: it sees what was written in that moment |
| commit | a commit or tombstone: at_ts, topic_id, committed_offset (null: taken away), commit_ts, is_reset |
| owner | a change of owner: at_ts, topic_id, member_id (null: nobody) |
| sample | a sample: the row of `with_lives` |

Times of commits are those of the log, and never go back: an offset holds from when all
before it in the log were written (K-03).
"""  # noqa: E501 - a table

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.pipeline.gold.partition_end_samples import topic_names

PLACE: Final = ("group_id", "topic", "partition")
ORDER: Final = ("at_ts", "rank", "seq")
_AT_A_CHANGE: Final = 1
_AT_A_SAMPLE: Final = 2


def events(ends: DataFrame, history: DataFrame, ownership: DataFrame) -> DataFrame:
    """All events of partitions that a group committed for or owned, from
    `with_lives(of_minutes(partition_end_samples))`, `offset_commit_history` and
    `partition_ownership_history`."""
    owned = named(ownership, ends)
    places = history.select(*PLACE).union(owned.select(*PLACE)).distinct()
    return (
        _commits(history)
        .unionByName(_owners(owned), allowMissingColumns=True)
        .unionByName(_samples(ends, places), allowMissingColumns=True)
    )


def named(ownership: DataFrame, ends: DataFrame) -> DataFrame:
    """Intervals of ownership with the names of topics, where they can be known."""
    return (
        ownership.join(F.broadcast(topic_names(ends)), "topic_id", "left")
        .withColumn("topic", F.coalesce("topic", "known_topic"))
        .where(F.col("topic").isNotNull())
        .drop("known_topic")
    )


def in_force(name: str) -> Column:
    """The last `commit` or `owner` before or at each event."""
    until_now = (
        Window.partitionBy(*PLACE)
        .orderBy(*ORDER)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return F.last(name, ignorenulls=True).over(until_now)


def is_of_this_life(of: str) -> Column:
    """Whether what is in force is about the topic that the sample is about, and not
    one of the same name that was there before."""
    own, sampled = F.col(f"{of}.topic_id"), F.col("sample.topic_id")
    before_ts = F.col("sample.previous_life_ts")
    is_same = F.when(own.isNotNull() & sampled.isNotNull(), own == sampled)
    is_later = before_ts.isNull() | (F.col(f"{of}.at_ts") > before_ts)
    return F.coalesce(is_same, is_later)


def _commits(history: DataFrame) -> DataFrame:
    in_log = (
        Window.partitionBy(*PLACE)
        .orderBy("log_offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    at_ts = F.max(F.coalesce("append_ts", "commit_ts")).over(in_log)
    is_reset = F.coalesce(F.col("actor") == "admin", F.lit(False))
    return history.withColumn("at_ts", at_ts).select(
        *PLACE,
        *_order(F.col("at_ts"), _AT_A_CHANGE, F.col("log_offset") * 2),
        F.struct(
            "at_ts",
            "topic_id",
            "committed_offset",
            F.coalesce("commit_ts", "at_ts").alias("commit_ts"),
            is_reset.alias("is_reset"),
        ).alias("commit"),
    )


def _owners(ownership: DataFrame) -> DataFrame:
    """An interval is two events. Where one begins with the record that ended another,
    the end comes first."""
    over = ownership.where(F.col("valid_to").isNotNull())
    nobody = F.lit(None).cast("string")
    return _owner(
        ownership, "valid_from", F.col("from_log_offset") * 2 + 1, F.col("member_id")
    ).unionByName(_owner(over, "valid_to", F.col("to_log_offset") * 2, nobody))


def _owner(intervals: DataFrame, at_ts: str, seq: Column, who: Column) -> DataFrame:
    what = F.struct(F.col(at_ts).alias("at_ts"), "topic_id", who.alias("member_id"))
    order = _order(F.col(at_ts), _AT_A_CHANGE, seq)
    return intervals.select(*PLACE, *order, what.alias("owner"))


def _samples(ends: DataFrame, places: DataFrame) -> DataFrame:
    """Each sample, for each group that has to do with the partition."""
    columns = [name for name in ends.columns if name not in PLACE]
    looked = ends.select("topic", "partition", F.struct(*columns).alias("sample"))
    return places.join(looked, ["topic", "partition"]).select(
        *PLACE, *_order(F.col("sample.sample_ts"), _AT_A_SAMPLE, F.lit(0)), "sample"
    )


def _order(at_ts: Column, rank: int, seq: Column) -> list[Column]:
    return [
        at_ts.alias("at_ts"),
        F.lit(rank).alias("rank"),
        seq.cast("bigint").alias("seq"),
    ]
