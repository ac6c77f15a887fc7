"""How long each group has paused before, and come back.

A monthly job that has been quiet for 20 days is not stale: it always comes back after
30. So what counts is not how long a group is idle, but whether it has ever been idle
for so long.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def longest_pauses(history: DataFrame) -> DataFrame:
    """Each group's longest time between two commits (`usual_gap_ms`; null when it
    never paused for long) and how many there were (`commits`), from
    `offset_commit_history`. What operators set is no sign of life.

    Commits are put together by the hour first, which leaves pauses of more than that as
    they are and little to be sorted.
    """
    at_ts = F.coalesce("append_ts", "commit_ts")
    hours = (
        history.where(F.col("committed_offset").isNotNull())
        .where(F.coalesce(F.col("actor") != "admin", F.lit(True)))
        .groupBy("group_id", F.date_trunc("hour", at_ts).alias("hour"))
        .agg(
            F.min(F.unix_millis(at_ts)).alias("first_ms"),
            F.max(F.unix_millis(at_ts)).alias("last_ms"),
            F.count("*").alias("commits"),
        )
    )
    before_ms = F.lag("last_ms").over(Window.partitionBy("group_id").orderBy("hour"))
    return (
        hours.withColumn("pause_ms", F.col("first_ms") - before_ms)
        .groupBy("group_id")
        .agg(
            F.max("pause_ms").alias("usual_gap_ms"),
            F.sum("commits").alias("commits"),
        )
    )
