"""Gold table coordinator_load: the load of each log partition, and its largest
group."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.table_inputs import derived
from coterie.pipeline.tables.gold_offsets import COORDINATOR_LOAD

_LOG_TOPIC: Final = "__consumer_offsets"
_LOG_PARTITION: Final = "log_partition"


def coordinator_load(
    commits: DataFrame,
    records: DataFrame,
    quality: DataFrame,
    groups: DataFrame,
    samples: DataFrame,
) -> DataFrame:
    """Return a row for each log partition of data_quality, from offset_commits,
    records, current_groups and partition_end_samples."""
    # A log of less than a second counts as one second, so that no rate is infinite.
    span_ms = F.unix_millis("last_ts") - F.unix_millis("first_ts")
    seconds = F.greatest(F.coalesce(span_ms, F.lit(0)) / 1000, F.lit(1.0))
    sizes = records.groupBy(_LOG_PARTITION).agg(F.sum("size_bytes").alias("bytes"))
    leaders = (
        samples.where(F.col("topic") == _LOG_TOPIC)
        .groupBy(F.col("partition").alias(_LOG_PARTITION))
        .agg(F.max_by("leader_id", "sample_ts").alias("broker_id"))
    )
    group_counts = groups.groupBy(_LOG_PARTITION).agg(
        F.count("*").alias("groups"), F.sum("member_count").alias("members")
    )
    return (
        quality.select(_LOG_PARTITION, "records", "commits", seconds.alias("seconds"))
        .join(sizes, on=_LOG_PARTITION, how="left")
        .join(_top_groups(commits), on=_LOG_PARTITION, how="left")
        .join(group_counts, on=_LOG_PARTITION, how="left")
        .join(leaders, on=_LOG_PARTITION, how="left")
        .fillna(0, ["bytes", "groups", "members"])
        .withColumns(
            {
                "commits_per_s": F.col("commits") / F.col("seconds"),
                "top_group_id": F.col("top.group_id"),
                "top_group_share": F.col("top.commits") / F.col("commits"),
            }
        )
    )


def _top_groups(commits: DataFrame) -> DataFrame:
    """Return the group with the most commits in each log partition; in case of a tie
    the last one by name, so that the result is deterministic.
    """
    by_group = commits.groupBy(_LOG_PARTITION, "group_id").agg(
        F.count("*").alias("commits")
    )
    return by_group.groupBy(_LOG_PARTITION).agg(
        F.max(F.struct("commits", "group_id")).alias("top")
    )


GOLD: Final = derived(
    COORDINATOR_LOAD,
    coordinator_load,
    "offset_commits",
    "records",
    "data_quality",
    "current_groups",
    "partition_end_samples",
)
