"""Internal table group_periods: the periods in which each group committed, and the
longest pauses between them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from coterie.pipeline.gold.table_inputs import updated
from coterie.pipeline.tables.gold_groups import GROUP_PERIODS

_PAUSE_S: Final = 60 * 60


def group_periods(before: DataFrame, history: DataFrame) -> DataFrame:
    """Return the table updated with new rows of offset_commit_history, from the
    previous table.

    Offsets set by an operator are not activity. Periods less than an hour apart are one
    period: whatever the number of builds, a group that never pauses has one row.
    """
    at_ts = F.coalesce("append_ts", "commit_ts")
    # Commits are grouped by hour first, so that far fewer rows have to be sorted.
    hours = (
        history.where((F.col("direction") != "tombstone") & at_ts.isNotNull())
        .where(F.coalesce(F.col("actor") != "admin", F.lit(True)))
        .groupBy("group_id", F.floor(F.unix_seconds(at_ts) / _PAUSE_S).alias("hour"))
        .agg(
            F.min(at_ts).alias("from_ts"),
            F.max(at_ts).alias("to_ts"),
            F.count("*").alias("commits"),
        )
        .drop("hour")
    )
    in_time = Window.partitionBy("group_id").orderBy("from_ts", "to_ts")
    earlier = in_time.rowsBetween(Window.unboundedPreceding, -1)
    pause_ms = F.unix_millis("from_ts") - F.unix_millis(F.max("to_ts").over(earlier))
    starts = F.coalesce(F.col("pause_ms") > _PAUSE_S * 1000, F.lit(True)).cast("int")
    until_now = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        before.unionByName(hours)
        .withColumn("pause_ms", pause_ms)
        .withColumn("starts", starts)
        .withColumn("period", F.sum("starts").over(until_now))
        .groupBy("group_id", "period")
        .agg(
            F.min("from_ts").alias("from_ts"),
            F.max("to_ts").alias("to_ts"),
            F.sum("commits").alias("commits"),
        )
    )


def longest_pauses(periods: DataFrame, sessions: DataFrame) -> DataFrame:
    """Return `usual_gap_ms`, the longest time between two periods of activity, and the
    number of `commits`, from group_periods and member_sessions.

    A monthly job that has been idle for 20 days is not stale: it has been idle for 30
    days before and became active again. A group is active while it has members and when
    it commits. `usual_gap_ms` is null for a group that never paused.
    """
    active = periods.select("group_id", "from_ts", "to_ts", "commits").unionByName(
        sessions.select(
            "group_id",
            F.col("joined_ts").alias("from_ts"),
            F.coalesce("left_ts", "joined_ts").alias("to_ts"),
            F.lit(0).cast("bigint").alias("commits"),
        )
    )
    earlier = (
        Window.partitionBy("group_id")
        .orderBy("from_ts", "to_ts")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    pause_ms = F.unix_millis("from_ts") - F.unix_millis(F.max("to_ts").over(earlier))
    longest = F.max(F.when(F.col("pause_ms") > 0, F.col("pause_ms")))
    return (
        active.withColumn("pause_ms", pause_ms)
        .groupBy("group_id")
        .agg(longest.alias("usual_gap_ms"), F.sum("commits").alias("commits"))
    )


GOLD: Final = updated(GROUP_PERIODS, group_periods, "offset_commit_history")
