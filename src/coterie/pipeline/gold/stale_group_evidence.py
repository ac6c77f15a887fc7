"""Evidence for stale_group_candidates: similar names, remaining offsets and the last
members.

Most functions return one row for each group, with columns of that table or columns that
its rules read.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_LAST_MEMBERS_MS: Final = 60 * 60 * 1000
"""Members that left in this time before the last one count as the last members. An hour
covers a service that is shut down instance by instance."""
_NAME_CHARACTERS_MIN: Final = 6
"""Names shorter than this are similar by chance too often."""


def similar_names(groups: DataFrame) -> DataFrame:
    """Return `looks_like`: the group of which this one's name is probably a typo.

    The input has `group_id`, `member_count` and `commits`. The other group has members
    while this one has none, or it has more commits. Two names are similar when removing
    at most one character from each makes them equal: one character was added, removed
    or replaced, or two were swapped. Names that differ only in numbers are siblings.
    """
    name = F.col("group_id")
    # All names with one character removed, and the name itself. Joining on these finds
    # similar names without comparing every pair of groups.
    variants = F.transform(
        F.sequence(F.lit(1), F.length(name)),
        lambda at: F.concat(
            F.substring(name, F.lit(1), at - 1),
            F.substring(name, at + 1, F.length(name)),
        ),
    )
    variants = F.array_distinct(F.concat(F.array(name), variants))
    left = groups.where(F.length("group_id") >= _NAME_CHARACTERS_MIN).select(
        "group_id", "member_count", "commits", F.explode(variants).alias("variant")
    )
    right = left.select(
        F.col("group_id").alias("other"),
        F.col("member_count").alias("other_members"),
        F.col("commits").alias("other_commits"),
        "variant",
    )
    is_less_used = (F.col("member_count") == 0) & (
        (F.col("other_members") > 0) | (F.col("commits") < F.col("other_commits"))
    )
    distance = F.levenshtein("group_id", "other")
    nearest = F.min(F.struct(distance, -F.col("other_commits"), F.col("other")))
    are_siblings = _without_numbers("group_id") == _without_numbers("other")
    return (
        left.join(right, "variant")
        .where(~are_siblings & is_less_used)
        .groupBy("group_id")
        .agg(nearest.alias("nearest"))
        .select("group_id", F.col("nearest.other").alias("looks_like"))
    )


def _without_numbers(name: str) -> Column:
    return F.regexp_replace(name, "[0-9]+", "0")


def offset_counts(forecast: DataFrame, ends: DataFrame) -> DataFrame:
    """Return `offsets_count` and `total_lag` of each group, the number of its `topics`,
    and those that were deleted or are still written to, from expiry_forecast and
    newest_partition_ends.

    A topic is missing when the last query of the whole cluster did not list it. Samples
    of other sources show only partitions that grow: a missing sample does not show that
    a topic was deleted.
    """
    topics = (
        forecast.groupBy("group_id", "topic")
        .agg(F.count("*").alias("count"), F.sum("at_risk_messages").alias("lag"))
        .join(_existing_topics(ends), "topic", "left")
        .join(ends.agg(F.max("queried_ts").alias("queried_ts")), how="cross")
    )

    def topics_with(condition: Column) -> Column:
        return F.sort_array(F.collect_set(F.when(condition, F.col("topic"))))

    is_missing = F.col("queried_ts").isNotNull() & F.col("is_present").isNull()
    return topics.groupBy("group_id").agg(
        F.sum("count").cast("int").alias("offsets_count"),
        F.count("*").cast("int").alias("topics"),
        topics_with(is_missing).alias("topics_missing"),
        topics_with(F.col("is_written")).alias("topics_still_written"),
        F.sum("lag").alias("total_lag"),
    )


def _existing_topics(ends: DataFrame) -> DataFrame:
    """Return `topic`, `is_present` (true or null) and `is_written`: whether it grew on
    the last two days."""
    whole = Window.partitionBy(F.lit(1))
    # Two days, so that the topic of a daily job counts as written.
    is_recent = F.col("day_number") > F.col("newest_day") - 2
    return (
        ends.withColumn("newest_day", F.max("day_number").over(whole))
        .withColumn("last_query_ts", F.max("queried_ts").over(whole))
        .groupBy("topic", "partition", "newest_day", "last_query_ts")
        .agg(
            F.max(F.when(is_recent, F.col("highest_end"))).alias("highest"),
            F.min(F.when(is_recent, F.col("lowest_end"))).alias("lowest"),
            F.max("sample_ts").alias("sample_ts"),
        )
        .groupBy("topic")
        .agg(
            F.coalesce(F.max(F.col("highest") > F.col("lowest")), F.lit(False)).alias(
                "is_written"
            ),
            F.max(F.col("sample_ts") >= F.col("last_query_ts")).alias("is_listed"),
        )
        .select(
            "topic",
            F.when(F.coalesce("is_listed", F.lit(True)), True).alias("is_present"),
            "is_written",
        )
    )


def last_members(sessions: DataFrame) -> DataFrame:
    """Return `last_hosts` and `last_client_ids`, from member_sessions."""
    left_ms = F.unix_millis("left_ts")
    last = sessions.groupBy("group_id").agg(F.max(left_ms).alias("last_ms"))
    hosts, clients = F.collect_set("client_host"), F.collect_set("client_id")
    return (
        sessions.join(last, "group_id")
        .where(left_ms >= F.col("last_ms") - _LAST_MEMBERS_MS)
        .groupBy("group_id")
        .agg(
            F.sort_array(hosts).alias("last_hosts"),
            F.sort_array(clients).alias("last_client_ids"),
        )
    )


def last_expiration(forecast: DataFrame) -> DataFrame:
    """Return `would_expire_ts`, the time at which the last offset expires; null if an
    offset never expires.
    """
    any_stays = F.max(F.col("expires_ts").isNull())
    last = F.max("expires_ts")
    return forecast.groupBy("group_id").agg(
        F.when(~any_stays, last).alias("would_expire_ts")
    )
