"""Gold table coordinator_load: the load of each log partition, and its largest
group."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.newest_partition_ends import newest_of_partitions
from coterie.pipeline.gold.table_inputs import derived
from coterie.pipeline.tables.gold_offsets import COORDINATOR_LOAD

_LOG_TOPIC: Final = "__consumer_offsets"
_LOG_PARTITION: Final = "log_partition"


def coordinator_load(
    quality: DataFrame, activity: DataFrame, groups: DataFrame, ends: DataFrame
) -> DataFrame:
    """Return a row for each log partition of data_quality, from group_activity,
    current_groups and newest_partition_ends."""
    # A log of less than a second counts as one second, so that no rate is infinite.
    span_ms = F.unix_millis("last_ts") - F.unix_millis("first_ts")
    seconds = F.greatest(F.coalesce(span_ms, F.lit(0)) / 1000, F.lit(1.0))
    leaders = newest_of_partitions(
        ends.where(F.col("topic") == _LOG_TOPIC), "leader_id"
    ).select(
        F.col("partition").alias(_LOG_PARTITION), F.col("leader_id").alias("broker_id")
    )
    group_counts = groups.groupBy(_LOG_PARTITION).agg(
        F.count("*").alias("groups"), F.sum("member_count").alias("members")
    )
    return (
        quality.select(
            _LOG_PARTITION, "records", "bytes", "commits", seconds.alias("seconds")
        )
        .join(_top_groups(activity), on=_LOG_PARTITION, how="left")
        .join(group_counts, on=_LOG_PARTITION, how="left")
        .join(leaders, on=_LOG_PARTITION, how="left")
        .fillna(0, ["groups", "members"])
        .withColumns(
            {
                "commits_per_s": F.col("commits") / F.col("seconds"),
                "top_group_id": F.col("top.group_id"),
                "top_group_share": F.col("top.commits") / F.col("commits"),
            }
        )
    )


def _top_groups(activity: DataFrame) -> DataFrame:
    """Return the group with the most commits in each log partition; in case of a tie
    the last one by name, so that the result is deterministic.
    """
    has_commits = activity.where(F.col("commits") > 0)
    return has_commits.groupBy(_LOG_PARTITION).agg(
        F.max(F.struct("commits", "group_id")).alias("top")
    )


GOLD: Final = derived(
    COORDINATOR_LOAD,
    coordinator_load,
    "data_quality",
    "group_activity",
    "current_groups",
    "newest_partition_ends",
)
