"""Which topics may the members of each group be reading? As the coordinator sees it.

By name, as members say it; by regular expression, as the coordinator resolved it (type
16). What members of a classic group say may not be readable: then it may be any topic
(D-53), which `topic` null stands for.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_REGEX_TYPE: Final = 16


def subscriptions(
    members: DataFrame, group_records: DataFrame, tombstones: DataFrame
) -> DataFrame:
    """Each `group_id` and `topic` once, from `current_members`,
    `consumer_group_records` and `tombstones`."""
    by_name = members.select(
        "group_id", F.explode_outer("subscribed_topics").alias("topic")
    ).where(F.col("topic").isNotNull())
    unknown = members.where(
        (F.col("protocol") == "classic") & F.col("subscribed_topics").isNull()
    ).select("group_id", F.lit(None).cast("string").alias("topic"))
    by_regex = resolved_regexes(group_records, tombstones).select(
        "group_id", F.explode("regex_topics").alias("topic")
    )
    return by_name.union(unknown).union(by_regex).distinct()


def resolved_regexes(group_records: DataFrame, tombstones: DataFrame) -> DataFrame:
    """What each regular expression of a group matches: `group_id`, `regex`,
    `regex_topics`; the last word of the log, unless that was a tombstone."""
    key = ("group_id", "regex")
    is_regex = F.col("record_type") == _REGEX_TYPE
    said = group_records.where(is_regex).select(*key, "log_offset", "regex_topics")
    gone = tombstones.where(is_regex).select(*key, "log_offset")
    return (
        said.unionByName(gone, allowMissingColumns=True)
        .groupBy(*key)
        .agg(F.max_by("regex_topics", "log_offset").alias("regex_topics"))
        .where(F.col("regex_topics").isNotNull())
    )
