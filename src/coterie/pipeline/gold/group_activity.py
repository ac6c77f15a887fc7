"""Internal: when each group was seen, from all records there ever were of it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.look import Gold, Look, conform
from coterie.pipeline.tables.group_activity import GROUP_ACTIVITY

_SILVER: Final = (
    "offset_commits",
    "classic_group_records",
    "consumer_group_records",
    "tombstones",
)


def seen(*frames: DataFrame) -> DataFrame:
    """What some records say, table by table; commits have a `commit_ts`."""
    rows = [_sums(frame) for frame in frames]
    together = rows[0]
    for each in rows[1:]:
        together = together.unionByName(each)
    return together


def _sums(frame: DataFrame) -> DataFrame:
    commits = "commit_ts" if "commit_ts" in frame.columns else F.lit(None)
    return frame.groupBy("log_partition", "group_id").agg(
        F.min("append_ts").alias("first_seen_ts"),
        F.max(commits).cast("timestamp").alias("last_commit_ts"),
        F.max("log_offset").alias("last_log_offset"),
    )


def merged(before: DataFrame, news: DataFrame) -> DataFrame:
    """What was known, and what is new."""
    return (
        before.unionByName(news)
        .groupBy("log_partition", "group_id")
        .agg(
            F.min("first_seen_ts").alias("first_seen_ts"),
            F.max("last_commit_ts").alias("last_commit_ts"),
            F.max("last_log_offset").alias("last_log_offset"),
        )
    )


def _build(look: Look) -> DataFrame:
    news = seen(*map(look.new, _SILVER))
    return conform(merged(look.before(), news), GROUP_ACTIVITY)


GOLD: Final = Gold(GROUP_ACTIVITY, _SILVER, _build)
