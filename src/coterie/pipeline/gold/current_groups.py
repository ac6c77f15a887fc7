"""Gold: Which groups are there, and how are they?

A group is there while its own record is, or while an offset is that it committed: then
it is a simple one (K-07).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.from_history import rows_of
from coterie.pipeline.gold.look import Gold, Look, conform
from coterie.pipeline.tables.current_groups import CURRENT_GROUPS

_GROUP: Final = ["log_partition", "group_id"]
_COUNTS: Final = ("member_count", "static_member_count", "owned_partition_count")


def current_groups(
    history: DataFrame, offsets: DataFrame, activity: DataFrame
) -> DataFrame:
    """From `group_history`, `current_offsets` and `group_activity`."""
    told = rows_of(history, "group").where(F.col("group_type").isNotNull())
    groups = told.drop("first_seen_ts", "last_log_offset")
    owned = rows_of(history, "ownership").where(F.col("valid_to").isNull())
    topic = F.coalesce("topic", "topic_id").alias("topic")
    used = _used(
        owned.select(*_GROUP, topic, "partition").unionByName(
            offsets.select(*_GROUP, "topic", "partition")
        )
    )
    none = F.lit(0)
    return (
        groups.join(used, _GROUP, "full_outer")
        .join(activity, _GROUP, "left")
        .withColumn("group_type", F.coalesce("group_type", F.lit("simple")))
        .withColumn("state", F.coalesce("state", F.lit("Empty")))
        .withColumns({name: F.coalesce(name, none) for name in _COUNTS})
        .withColumn("topic_count", F.coalesce("topic_count", none))
        .withColumn("partition_count", F.coalesce("partition_count", none))
    )


def _used(places: DataFrame) -> DataFrame:
    """Topics and partitions with an offset or an owner."""
    return (
        places.distinct()
        .groupBy(*_GROUP, "topic")
        .agg(F.count("*").alias("partitions"))
        .groupBy(*_GROUP)
        .agg(
            F.count("*").alias("topic_count"),
            F.sum("partitions").alias("partition_count"),
        )
    )


def _build(look: Look) -> DataFrame:
    groups = current_groups(
        look.all("group_history"),
        look.all("current_offsets"),
        look.all("group_activity"),
    )
    return conform(groups, CURRENT_GROUPS)


GOLD: Final = Gold(
    CURRENT_GROUPS, ("group_history", "current_offsets", "group_activity"), _build
)
