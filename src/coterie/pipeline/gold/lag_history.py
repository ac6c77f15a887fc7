"""Gold table lag_history: lag in records and in time, for each minute with a sample.

There is a row for each sampled minute of a partition on which the group has a committed
offset or an owner. A window over commits and samples finds the committed offset at each
sample (`partition_events`); a window over offsets finds the time at which the record at
the committed offset was produced.

| time_lag_method | condition | time_lag_ms |
|---|---|---|
| head | the lag is 0 | 0 |
| interpolated | the next record was produced between two samples | exact to time_lag_error_ms |
| extrapolated | it was produced before the first sample | a lower bound; not for maxima |
| null | no committed offset, or only one sample | null |

Commits for a deleted topic do not count for a later topic with its name. A committed
offset below the log start offset counts as the log start offset.
"""  # noqa: E501

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.pipeline.gold.partition_events import (
    PARTITION,
    events,
    is_of_same_life,
    latest,
    of_minutes,
    with_lives,
)
from coterie.pipeline.gold.table_inputs import derived
from coterie.pipeline.tables.gold_offsets import LAG_HISTORY

_LIFE: Final = ("topic", "partition", "life")


def lag_history(
    samples: DataFrame, history: DataFrame, ownership: DataFrame
) -> DataFrame:
    """Return the rows from partition_end_samples, offset_commit_history and
    partition_ownership_history."""
    ends = with_lives(of_minutes(samples))
    lag = _lag(events(ends, history, ownership)).transform(_with_rates)
    return with_produced(lag, ends, "next_offset").transform(_with_time_lag)


def _lag(all_events: DataFrame) -> DataFrame:
    commit = F.when(is_of_same_life("commit"), F.col("commit"))
    owner = F.when(is_of_same_life("owner"), F.col("owner.member_id"))
    # Before the first known commit, an owner from before a log gap may have had an
    # earlier one, which is missing.
    is_missing = F.col("commit").isNull() & F.col("owner.is_lower_bound")
    committed, start = F.col("committed_offset"), F.col("log_start_offset")
    end = F.col("log_end_offset")
    has_commit = committed.isNotNull()
    return (
        all_events.withColumn("commit", latest("commit"))
        .withColumn("owner", latest("owner"))
        .where(F.col("sample").isNotNull())
        .withColumn("commit", commit)
        .select(
            *PARTITION,
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
            is_missing.alias("is_missing"),
        )
        .where(has_commit | F.col("owner_member_id").isNotNull())
        .withColumn("next_offset", F.when(has_commit, F.greatest(committed, start)))
        .withColumn("lag_raw", end - committed)
        .withColumn("lag", _at_least_0(end - F.col("next_offset")))
        .withColumn(
            "lag_status",
            F.when(~has_commit & F.col("is_missing"), "unknown")
            .when(~has_commit, "no_commit")
            .when(committed > end, "beyond_end")
            .when(committed < start, "below_start")
            .otherwise("normal"),
        )
        .withColumn(
            "messages_lost", F.coalesce(_at_least_0(start - committed), F.lit(0))
        )
        .withColumn("retention_margin_offsets", committed - start)
    )


def _at_least_0(count: Column) -> Column:
    # `greatest` alone ignores nulls and would return 0 for an unknown count.
    return F.when(count.isNotNull(), F.greatest(count, F.lit(0)))


def _with_rates(rows: DataFrame) -> DataFrame:
    in_time = Window.partitionBy(*PARTITION, "life").orderBy("sample_ts")
    sample_ms = F.unix_millis("sample_ts")
    seconds = (sample_ms - F.lag(sample_ms).over(in_time)) / 1000

    def rate(name: str) -> Column:
        # After a lower offset, as after a reset, the rate is null.
        increase = F.col(name) - F.lag(name).over(in_time)
        return F.when(increase >= 0, increase / seconds)

    lag, gain = F.col("lag"), F.col("consume_rate") - F.col("produce_rate")
    eta_s = F.when(lag == 0, F.lit(0.0)).when(gain > 0, lag / gain)
    return (
        rows.withColumn("produce_rate", rate("log_end_offset"))
        .withColumn("consume_rate", rate("committed_offset"))
        .withColumn("eta_s", eta_s)
    )


def with_produced(rows: DataFrame, ends: DataFrame, offset: str) -> DataFrame:
    """Add `produced`: when the record at an offset was produced.

    `rows` have topic, partition, life and the column `offset`, which may be null;
    `ends` come from `with_lives`. `produced` is a struct of `at_ms` (null when the
    record was not produced by the last sample), `error_ms` (null when it may have been
    produced at any time before) and `is_bracketed`.

    A record was produced between the last sample whose end is at or below its offset
    and the next sample. In between, the partition is assumed to have grown evenly, as
    in kafka-lag-exporter. For an offset below the first known end, only the time of the
    first sample is known.
    """
    in_time = Window.partitionBy(*_LIFE).orderBy("sample_ts")
    sample_ms, end = F.unix_millis("sample_ts"), F.col("high_watermark")
    # The interval from each sample to the next one of the same life.
    spans = ends.select(
        *_LIFE,
        end.alias("at_offset"),
        F.lit(0).alias("rank"),
        sample_ms.alias("sample_ms"),
        F.struct(
            sample_ms.alias("from_ms"),
            end.alias("from_offset"),
            F.lead(sample_ms).over(in_time).alias("to_ms"),
            F.lead(end).over(in_time).alias("to_offset"),
        ).alias("span"),
    )
    lookups = rows.select(
        *_LIFE,
        F.coalesce(offset, F.lit(-1)).alias("at_offset"),
        F.lit(1).alias("rank"),
        F.struct(*rows.columns).alias("row"),
    )
    by_offset = Window.partitionBy(*_LIFE).orderBy("at_offset", "rank", "sample_ms")
    until_here = by_offset.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    whole = Window.partitionBy(*_LIFE).rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    span, at_offset = F.col("span"), F.col("at_offset")
    span_ms = span["to_ms"] - span["from_ms"]
    share = (at_offset - span["from_offset"]) / (
        span["to_offset"] - span["from_offset"]
    )
    after_ms = F.floor(share * span_ms).cast("bigint")
    interpolated = F.struct(
        (span["from_ms"] + after_ms).alias("at_ms"),
        F.greatest(after_ms, span_ms - after_ms).alias("error_ms"),
        F.lit(True).alias("is_bracketed"),
    )
    otherwise = F.struct(
        F.when(span.isNull(), F.col("first_ms")).alias("at_ms"),
        F.lit(None).cast("bigint").alias("error_ms"),
        F.lit(False).alias("is_bracketed"),
    )
    produced = F.when(span["to_offset"] > at_offset, interpolated).otherwise(otherwise)
    return (
        spans.unionByName(lookups, allowMissingColumns=True)
        .withColumn("span", F.last("span", ignorenulls=True).over(until_here))
        .withColumn("first_ms", F.min("sample_ms").over(whole))
        .where(F.col("row").isNotNull())
        .select("row.*", produced.alias("produced"))
    )


def _with_time_lag(rows: DataFrame) -> DataFrame:
    sample_ms = F.unix_millis("sample_ts")
    at_ms, is_bracketed = F.col("produced.at_ms"), F.col("produced.is_bracketed")
    is_at_head = F.col("lag") == 0
    is_behind = F.col("lag") > 0
    # With a single sample, the time of the first sample is that of the row itself, so
    # the age of the record is unknown.
    method = (
        F.when(is_at_head, "head")
        .when(is_behind & is_bracketed, "interpolated")
        .when(is_behind & (sample_ms > at_ms), "extrapolated")
    )
    is_head = F.col("time_lag_method") == "head"
    is_known = F.col("time_lag_method").isNotNull()
    commit_lag_ms = _at_least_0(F.unix_millis("committed_ts") - at_ms)
    return (
        rows.withColumn("time_lag_method", method)
        .withColumn(
            "time_lag_ms", F.when(is_head, F.lit(0)).when(is_known, sample_ms - at_ms)
        )
        .withColumn(
            "time_lag_error_ms",
            F.when(is_head, F.lit(0)).when(is_known, F.col("produced.error_ms")),
        )
        .withColumn(
            "commit_time_lag_ms",
            F.when(is_at_head, F.lit(0)).when(is_behind & is_bracketed, commit_lag_ms),
        )
    )


GOLD: Final = derived(
    LAG_HISTORY,
    lag_history,
    "partition_end_samples",
    "offset_commit_history",
    "partition_ownership_history",
)
