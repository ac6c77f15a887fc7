"""Evidence for stale_group_candidates: pauses in activity, similar names, and remaining
offsets and records.

Most functions return one row for each group, with columns of that table or columns that
its rules read.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.pipeline.gold.partition_events import of_minutes
from coterie.pipeline.gold.settings import DAY_MS

_LAST_MEMBERS_MS: Final = 60 * 60 * 1000
"""Members that left in this time before the last one count as the last members. An hour
covers a service that is shut down instance by instance."""
_NAME_CHARACTERS_MIN: Final = 6
"""Names shorter than this are similar by chance too often."""


def longest_pauses(history: DataFrame, sessions: DataFrame) -> DataFrame:
    """Return `usual_gap_ms`, the longest time between two periods of activity, and the
    number of `commits`, from offset_commit_history and member_sessions.

    A monthly job that has been idle for 20 days is not stale: it has been idle for 30
    days before and became active again. A group is active while it has members and when
    it commits. Offsets set by an operator are not activity. `usual_gap_ms` is null for
    a group that never paused.
    """
    # Commits are grouped by hour first. Pauses of more than an hour stay visible, and
    # far fewer rows have to be sorted.
    at_ts = F.coalesce("append_ts", "commit_ts")
    hours = (
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
    with_members = sessions.select(
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
    longest = F.max(F.when(F.col("pause_ms") > 0, F.col("pause_ms")))
    return (
        hours.unionByName(with_members)
        .withColumn("pause_ms", pause_ms)
        .groupBy("group_id")
        .agg(longest.alias("usual_gap_ms"), F.sum("commits").alias("commits"))
    )


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


def log_bytes(records: list[DataFrame]) -> DataFrame:
    """Return `log_bytes` of each group, from the silver tables of records."""
    return (
        _union(records).groupBy("group_id").agg(F.sum("size_bytes").alias("log_bytes"))
    )


def log_coverage(records: list[DataFrame], gaps: DataFrame) -> DataFrame:
    """Return for each log partition `history_from_ts`, the time since which it has no
    gap, and `is_whole`, true when it has no gap at all."""
    last_gaps = gaps.groupBy("log_partition").agg(
        F.max("until_offset").alias("gap_end")
    )
    return (
        _union(records)
        .join(F.broadcast(last_gaps), "log_partition", "left")
        .where(F.col("log_offset") >= F.coalesce("gap_end", F.lit(0)))
        .groupBy("log_partition")
        .agg(
            F.min("append_ts").alias("history_from_ts"),
            F.max("gap_end").isNull().alias("is_whole"),
        )
    )


def _union(records: list[DataFrame]) -> DataFrame:
    columns = ("group_id", "log_partition", "log_offset", "append_ts", "size_bytes")
    return reduce(DataFrame.union, [frame.select(*columns) for frame in records])


def offset_counts(offsets: DataFrame, samples: DataFrame, lag: DataFrame) -> DataFrame:
    """Return `offsets_count`, `topics`, `topics_missing`, `topics_still_written` and
    `total_lag`, from current_offsets, partition_end_samples and lag_history.

    A topic is missing when the last query of the whole cluster did not list it. Samples
    of other sources, which have no `round_trip_ms`, show only partitions that grow: a
    missing sample does not show that a topic was deleted.
    """
    partition = ["group_id", "topic", "partition"]
    last_lag = lag.groupBy(partition).agg(F.max_by("lag", "sample_ts").alias("lag"))
    was_queried = F.coalesce(F.max("round_trip_ms") >= 0, F.lit(False))
    topics = (
        offsets.select(partition)
        .join(last_lag, partition, "left")
        .groupBy("group_id", "topic")
        .agg(F.count("*").alias("count"), F.sum("lag").alias("lag"))
        .join(F.broadcast(_existing_topics(samples)), "topic", "left")
        .join(F.broadcast(samples.agg(was_queried.alias("was_queried"))), how="cross")
    )

    def topics_with(condition: Column) -> Column:
        return F.sort_array(F.collect_set(F.when(condition, F.col("topic"))))

    is_missing = F.col("was_queried") & F.col("is_present").isNull()
    return topics.groupBy("group_id").agg(
        F.sum("count").cast("int").alias("offsets_count"),
        F.count("*").cast("int").alias("topics"),
        topics_with(is_missing).alias("topics_missing"),
        topics_with(F.col("is_written")).alias("topics_still_written"),
        F.sum("lag").alias("total_lag"),
    )


def _existing_topics(samples: DataFrame) -> DataFrame:
    """Return `topic`, `is_present` (true or null) and `is_written`: whether it grew in
    the day before the last sample."""
    ends = of_minutes(samples)
    queried_ts = F.when(F.col("round_trip_ms").isNotNull(), F.col("sample_ts"))
    newest = ends.agg(
        F.max("sample_ts").alias("newest_ts"), F.max(queried_ts).alias("queried_ts")
    )
    # A whole day, so that the topic of a daily job counts as written.
    in_last_day = F.unix_millis("sample_ts") >= F.unix_millis("newest_ts") - DAY_MS
    end = F.when(in_last_day, F.col("high_watermark"))
    is_listed = F.col("sample_ts") >= F.col("queried_ts")
    partitions = (
        ends.join(F.broadcast(newest), how="cross")
        .groupBy("topic", "partition")
        .agg(
            (F.max(end) > F.min(end)).alias("grew"), F.max(is_listed).alias("is_listed")
        )
    )
    topics = partitions.groupBy("topic").agg(
        F.coalesce(F.max("grew"), F.lit(False)).alias("is_written"),
        F.max("is_listed").alias("is_listed"),
    )
    is_present = F.when(F.coalesce("is_listed", F.lit(True)), True)
    return topics.select("topic", is_present.alias("is_present"), "is_written")


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
