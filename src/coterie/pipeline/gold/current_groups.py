"""Gold table current_groups, and the internal table group_activity.

A group exists while it has a group record. A group that has only committed offsets is a
simple group (K-07a).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.group_history import rows_of
from coterie.pipeline.gold.table_inputs import derived, updated
from coterie.pipeline.tables.gold_groups import CURRENT_GROUPS, GROUP_ACTIVITY

_GROUP: Final = ["log_partition", "group_id"]
_COUNTS: Final = (
    "member_count",
    "static_member_count",
    "owned_partition_count",
    "topic_count",
    "partition_count",
)


def current_groups(
    history: DataFrame, offsets: DataFrame, activity: DataFrame
) -> DataFrame:
    """Return the groups from group_history, current_offsets and group_activity."""
    # group_type is null for deleted groups. The columns of group_history cover group
    # records only; group_activity covers commits too.
    with_record = rows_of(history, "group").where(F.col("group_type").isNotNull())
    groups = with_record.drop("first_seen_ts", "last_log_offset")
    owned = rows_of(history, "ownership").where(F.col("valid_to").isNull())
    topic = F.coalesce("topic", "topic_id").alias("topic")
    counts = (
        owned.select(*_GROUP, topic, "partition")
        .unionByName(offsets.select(*_GROUP, "topic", "partition"))
        .distinct()
        .groupBy(*_GROUP, "topic")
        .agg(F.count("*").alias("partitions"))
        .groupBy(*_GROUP)
        .agg(
            F.count("*").alias("topic_count"),
            F.sum("partitions").alias("partition_count"),
        )
    )
    return (
        groups.join(counts, _GROUP, "full_outer")
        .join(activity.drop("commits", "log_bytes"), _GROUP, "left")
        .withColumn("group_type", F.coalesce("group_type", F.lit("simple")))
        .withColumn("state", F.coalesce("state", F.lit("Empty")))
        .withColumns({name: F.coalesce(name, F.lit(0)) for name in _COUNTS})
    )


def group_activity(before: DataFrame, *records: DataFrame) -> DataFrame:
    """Return group_activity from the previous table and new rows of silver tables."""
    rows = before
    for frame in records:
        # Only rows of offset_commits have a commit_ts.
        is_commit = "commit_ts" in frame.columns
        commit_ts = "commit_ts" if is_commit else F.lit(None)
        rows = rows.unionByName(
            frame.select(
                *_GROUP,
                F.col("append_ts").alias("first_seen_ts"),
                F.coalesce(commit_ts).cast("timestamp").alias("last_commit_ts"),
                F.col("log_offset").alias("last_log_offset"),
                F.lit(int(is_commit)).cast("bigint").alias("commits"),
                F.col("size_bytes").cast("bigint").alias("log_bytes"),
            )
        )
    return rows.groupBy(*_GROUP).agg(
        F.min("first_seen_ts").alias("first_seen_ts"),
        F.max("last_commit_ts").alias("last_commit_ts"),
        F.max("last_log_offset").alias("last_log_offset"),
        F.sum("commits").alias("commits"),
        F.sum("log_bytes").alias("log_bytes"),
    )


ACTIVITY: Final = updated(
    GROUP_ACTIVITY,
    group_activity,
    "offset_commits",
    "classic_group_records",
    "consumer_group_records",
    "tombstones",
)
GOLD: Final = derived(
    CURRENT_GROUPS, current_groups, "group_history", "current_offsets", "group_activity"
)
