"""Gold: How far behind was each group, in records and in time?

A row for each minute in which the end of a partition was looked at, while the group has
an offset or an owner there. What the group had committed by then is found by one window
over commits and samples together (`partition_events`), how old the next record was by
one over offsets (`produced`).

| time_lag_method | when | time_lag_ms |
|---|---|---|
| head | nothing is left to read | 0 |
| interpolated | two samples have the record between them | off by time_lag_error_ms at most |
| extrapolated | it was there before the first sample | at least so much; not for maxima |
| null | there is no offset, or only one sample | null |

What was said of a topic that is gone is not mixed with one of the same name that came
after it. An offset below the start of the partition stands for the first one there is.
"""  # noqa: E501 - a table

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.pipeline.gold.look import Gold, Look, conform
from coterie.pipeline.gold.partition_end_samples import of_minutes, with_lives
from coterie.pipeline.gold.partition_events import (
    PLACE,
    events,
    in_force,
    is_of_this_life,
)
from coterie.pipeline.gold.produced import with_produced
from coterie.pipeline.tables.lag_history import LAG_HISTORY


def lag_history(
    samples: DataFrame, history: DataFrame, ownership: DataFrame
) -> DataFrame:
    """From `partition_end_samples`, `offset_commit_history` and
    `partition_ownership_history`."""
    ends = with_lives(of_minutes(samples))
    held = _held(events(ends, history, ownership)).transform(_with_rates)
    return with_produced(held, ends, "next_offset").transform(_with_time_lag)


def _held(happened: DataFrame) -> DataFrame:
    """What each group had committed at each sample, and how far that is."""
    mine = F.when(is_of_this_life("commit"), F.col("commit"))
    owner = F.when(is_of_this_life("owner"), F.col("owner.member_id"))
    committed, start = F.col("committed_offset"), F.col("log_start_offset")
    end = F.col("log_end_offset")
    return (
        happened.withColumn("commit", in_force("commit"))
        .withColumn("owner", in_force("owner"))
        .where(F.col("sample").isNotNull())
        .withColumn("commit", mine)
        .select(
            *PLACE,
            "sample.topic_id",
            "sample.sample_ts",
            "sample.life",
            F.col("commit.committed_offset").alias("committed_offset"),
            F.when(
                F.col("commit.committed_offset").isNotNull(), F.col("commit.commit_ts")
            ).alias("committed_ts"),
            F.col("sample.log_start_offset").alias("log_start_offset"),
            F.col("sample.high_watermark").alias("log_end_offset"),
            owner.alias("owner_member_id"),
        )
        .where(committed.isNotNull() | F.col("owner_member_id").isNotNull())
        .withColumn("next_offset", _next(committed, start))
        .withColumn("lag_raw", end - committed)
        .withColumn("lag", _clamped(end - F.col("next_offset")))
        .withColumn("lag_status", _status(committed, start, end))
        .withColumn(
            "messages_lost",
            F.coalesce(_clamped(start - committed), F.lit(0)),
        )
        .withColumn("retention_margin_offsets", committed - start)
    )


def _clamped(count: Column) -> Column:
    """0 or more; null stays null, which `greatest` alone would pass over."""
    return F.when(count.isNotNull(), F.greatest(count, F.lit(0)))


def _next(committed: Column, start: Column) -> Column:
    """What is read next; null without a committed offset."""
    return F.when(committed.isNotNull(), F.greatest(committed, start))


def _status(committed: Column, start: Column, end: Column) -> Column:
    return (
        F.when(committed.isNull(), "no_commit")
        .when(committed > end, "beyond_end")
        .when(committed < start, "below_start")
        .otherwise("normal")
    )


def _with_time_lag(rows: DataFrame) -> DataFrame:
    sample_ms = F.unix_millis("sample_ts")
    at_ms, is_bracketed = F.col("produced.at_ms"), F.col("produced.is_bracketed")
    is_at_head = F.col("lag") == 0
    is_seen = F.col("lag") > 0
    method = (
        F.when(is_at_head, "head")
        .when(is_seen & is_bracketed, "interpolated")
        .when(is_seen & (sample_ms > at_ms), "extrapolated")
    )
    told = F.col("time_lag_method")
    late_ms = F.unix_millis("committed_ts") - at_ms
    return (
        rows.withColumn("time_lag_method", method)
        .withColumn(
            "time_lag_ms",
            F.when(told == "head", F.lit(0)).when(told.isNotNull(), sample_ms - at_ms),
        )
        .withColumn(
            "time_lag_error_ms",
            F.when(told == "head", F.lit(0)).otherwise(
                F.when(told.isNotNull(), F.col("produced.error_ms"))
            ),
        )
        .withColumn(
            "commit_time_lag_ms",
            F.when(is_at_head, F.lit(0)).when(
                is_seen & is_bracketed, _clamped(late_ms)
            ),
        )
    )


def _with_rates(rows: DataFrame) -> DataFrame:
    """Records a second since the sample before of the same life; what went back is no
    rate."""
    in_time = Window.partitionBy(*PLACE, "life").orderBy("sample_ts")
    sample_ms = F.unix_millis("sample_ts")
    seconds = (sample_ms - F.lag(sample_ms).over(in_time)) / 1000

    def rate(name: str) -> Column:
        grown = F.col(name) - F.lag(name).over(in_time)
        return F.when(grown >= 0, grown / seconds)

    lag, gain = F.col("lag"), F.col("consume_rate") - F.col("produce_rate")
    eta_s = F.when(lag == 0, F.lit(0.0)).when(gain > 0, lag / gain)
    return (
        rows.withColumn("produce_rate", rate("log_end_offset"))
        .withColumn("consume_rate", rate("committed_offset"))
        .withColumn("eta_s", eta_s)
    )


def _build(look: Look) -> DataFrame:
    found = lag_history(
        look.all("partition_end_samples"),
        look.all("offset_commit_history"),
        look.all("partition_ownership_history"),
    )
    return conform(found, LAG_HISTORY)


GOLD: Final = Gold(
    LAG_HISTORY,
    (
        "partition_end_samples",
        "offset_commit_history",
        "partition_ownership_history",
    ),
    _build,
)
