"""How long each group has paused before, and come back.

A monthly job that has been quiet for 20 days is not stale: it always comes back after
30. So what counts is not how long a group is idle, but whether it has ever been idle
for so long. A group is active while it has members, and when it commits.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def longest_pauses(history: DataFrame, sessions: DataFrame) -> DataFrame:
    """Each group's longest time between two active ones (`usual_gap_ms`; null when it
    never paused for long) and how many commits it made, from `offset_commit_history`
    and `member_sessions`. What operators set is no sign of life.

    Commits are put together by the hour first, which leaves longer pauses as they are
    and little to be sorted.
    """
    attended = sessions.select(
        "group_id",
        F.unix_millis("joined_ts").alias("from_ms"),
        F.unix_millis(F.coalesce("left_ts", "joined_ts")).alias("to_ms"),
        F.lit(0).cast("bigint").alias("commits"),
    )
    before = (
        Window.partitionBy("group_id")
        .orderBy("from_ms", "to_ms")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    pause_ms = F.col("from_ms") - F.max("to_ms").over(before)
    return (
        _hours(history)
        .unionByName(attended)
        .withColumn("pause_ms", pause_ms)
        .groupBy("group_id")
        .agg(
            F.max(F.when(F.col("pause_ms") > 0, F.col("pause_ms"))).alias(
                "usual_gap_ms"
            ),
            F.sum("commits").alias("commits"),
        )
    )


def _hours(history: DataFrame) -> DataFrame:
    at_ts = F.coalesce("append_ts", "commit_ts")
    return (
        history.where(F.col("committed_offset").isNotNull())
        .where(F.coalesce(F.col("actor") != "admin", F.lit(True)))
        .groupBy("group_id", F.date_trunc("hour", at_ts).alias("hour"))
        .agg(
            F.min(F.unix_millis(at_ts)).alias("from_ms"),
            F.max(F.unix_millis(at_ts)).alias("to_ms"),
            F.count("*").alias("commits"),
        )
        .drop("hour")
    )
