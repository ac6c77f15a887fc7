"""What groups left behind: bytes in the log, topics that are gone, whom to ask.

Each function gives a row a group with some columns of `stale_group_candidates`.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.partition_end_samples import of_minutes
from coterie.pipeline.gold.settings import DAY_MS

_LAST_MEMBERS_MS: Final = 60 * 60 * 1000
"""Who was there in the last hour of the group."""


def sizes(records: list[DataFrame]) -> DataFrame:
    """`log_bytes` of each group, from the silver tables."""
    return _all(records).groupBy("group_id").agg(F.sum("size_bytes").alias("log_bytes"))


def histories(records: list[DataFrame], gaps: DataFrame) -> DataFrame:
    """Since when each log partition is known without a gap: `log_partition`,
    `history_from_ts`, `is_whole` (it was read from its very beginning)."""
    known = gaps.groupBy("log_partition").agg(F.max("until_offset").alias("known_from"))
    return (
        _all(records)
        .join(F.broadcast(known), "log_partition", "left")
        .where(F.col("log_offset") >= F.coalesce("known_from", F.lit(0)))
        .groupBy("log_partition")
        .agg(
            F.min("append_ts").alias("history_from_ts"),
            F.max("known_from").isNull().alias("is_whole"),
        )
    )


def _all(records: list[DataFrame]) -> DataFrame:
    columns = ("group_id", "log_partition", "log_offset", "append_ts", "size_bytes")
    return reduce(DataFrame.union, [each.select(*columns) for each in records])


def offsets_of(offsets: DataFrame, samples: DataFrame, lag: DataFrame) -> DataFrame:
    """`offsets_count`, `topics`, `topics_missing`, `topics_still_written`, `total_lag`.

    A topic is missing that a whole cluster, when it was last asked, did not have.
    Sources that tell of partitions as they grow do not say that one is gone.
    """
    last_lag = lag.groupBy("group_id", "topic", "partition").agg(
        F.max_by("lag", "sample_ts").alias("lag")
    )
    known = _present(samples)
    topics = (
        offsets.select("group_id", "topic", "partition")
        .join(last_lag, ["group_id", "topic", "partition"], "left")
        .groupBy("group_id", "topic")
        .agg(F.count("*").alias("count"), F.sum("lag").alias("lag"))
        .join(F.broadcast(known), "topic", "left")
        .join(F.broadcast(_was_asked(samples)), how="cross")
    )
    is_missing = F.col("was_asked") & F.col("is_present").isNull()
    return topics.groupBy("group_id").agg(
        F.sum("count").cast("int").alias("offsets_count"),
        F.count("*").cast("int").alias("topics"),
        _listed(is_missing).alias("topics_missing"),
        _listed(F.col("is_written")).alias("topics_still_written"),
        F.sum("lag").alias("total_lag"),
    )


def _listed(condition: Column) -> Column:
    return F.sort_array(F.collect_set(F.when(condition, F.col("topic"))))


def last_members(sessions: DataFrame) -> DataFrame:
    """`last_hosts` and `last_client_ids`: of the members that went last."""
    gone_ms = F.unix_millis("left_ts")
    last = sessions.groupBy("group_id").agg(F.max(gone_ms).alias("last_ms"))
    hosts, clients = F.collect_set("client_host"), F.collect_set("client_id")
    return (
        sessions.join(last, "group_id")
        .where(gone_ms >= F.col("last_ms") - _LAST_MEMBERS_MS)
        .groupBy("group_id")
        .agg(
            F.sort_array(hosts).alias("last_hosts"),
            F.sort_array(clients).alias("last_client_ids"),
        )
    )


def _was_asked(samples: DataFrame) -> DataFrame:
    return samples.agg(
        F.coalesce(F.max("round_trip_ms") >= 0, F.lit(False)).alias("was_asked")
    )


def _present(samples: DataFrame) -> DataFrame:
    """Topics that are there, and whether they grew within a day before the last look:
    `topic`, `is_present`, `is_written`."""
    ends = of_minutes(samples)
    newest = ends.agg(
        F.max("sample_ts").alias("newest_ts"),
        F.max(F.when(F.col("round_trip_ms").isNotNull(), F.col("sample_ts"))).alias(
            "asked_ts"
        ),
    )
    in_a_day = F.unix_millis("sample_ts") >= F.unix_millis("newest_ts") - DAY_MS
    end = F.when(in_a_day, F.col("high_watermark"))
    partitions = (
        ends.join(F.broadcast(newest), how="cross")
        .groupBy("topic", "partition")
        .agg(
            (F.max(end) > F.min(end)).alias("grew"),
            F.max(F.col("sample_ts") >= F.col("asked_ts")).alias("is_there"),
        )
    )
    return (
        partitions.groupBy("topic")
        .agg(
            F.coalesce(F.max("grew"), F.lit(False)).alias("is_written"),
            F.max("is_there").alias("is_there"),
        )
        .select(
            "topic",
            F.when(F.coalesce("is_there", F.lit(True)), True).alias("is_present"),
            "is_written",
        )
    )
