"""Gold table lag_history: lag in records and in time, for each minute with a sample.

There is a row for each sampled minute of a partition on which the group has a committed
offset or an owner. A window over commits and samples finds the committed offset at each
sample (`partition_events`); a window over offsets finds the time at which the record at
the committed offset was produced.

A build computes the rows from the base of group_windows on (`cuts.py`). It looks for the
time of production in earlier samples only for offsets that the previous row of the
partition does not have, and only as far back as that row allows.

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

from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.pipeline.gold import cuts
from coterie.pipeline.gold.partition_events import (
    PARTITION,
    Carried,
    ends_since,
    events_since,
    is_of_same_life,
    latest,
    of_minutes,
)
from coterie.pipeline.gold.table_inputs import GoldTable, TableInputs
from coterie.pipeline.tables.gold_offsets import LAG_HISTORY

_LIFE: Final = ("topic", "partition", "life")
_RECENT: Final = timedelta(hours=2)
"""How long before the base the last rows of partitions are looked for. Without such a
row, all samples of the partition may be read."""


def _build(inputs: TableInputs) -> DataFrame:
    base = inputs.plan.start
    at_base = F.lit(False) if base is None else F.col("cut_ts") == cuts.timestamp(base)
    carried = Carried(base, inputs.all(cuts.WINDOWS).where(at_base))
    ends = ends_since(inputs.since(cuts.SAMPLES, base), carried)
    all_rows = _lag(events_since(ends, inputs, carried)).transform(_with_rates)
    rows = cuts.since(all_rows, base, "sample_ts")
    if base is None:
        produced = _with_produced(rows, ends)
    else:
        recent = inputs.since(LAG_HISTORY.name, base - _RECENT)
        rows = _with_previous(rows, recent, base)
        earlier = _earlier_ends(rows, inputs, carried)
        if earlier is not None:
            ends = ends.unionByName(earlier, allowMissingColumns=True)
        produced = _with_produced(rows, ends)
    return _with_time_lag(produced)


def _with_previous(rows: DataFrame, before: DataFrame, base: datetime) -> DataFrame:
    """Add `previous`: of the partition's last row before the base, if it is about the
    same life of the topic: `next_offset`, `sample_ts`, and `produced` if it is known.
    """
    recent = cuts.since(before, base - _RECENT, "sample_ts").where(
        F.col("sample_ts") < cuts.timestamp(base)
    )
    at_ms = F.unix_millis("sample_ts") - F.col("time_lag_ms")
    is_bracketed = F.col("time_lag_method") == "interpolated"
    produced = F.struct(
        at_ms.alias("at_ms"),
        F.col("time_lag_error_ms").alias("error_ms"),
        is_bracketed.alias("is_bracketed"),
    )
    is_known = F.col("time_lag_method").isin("interpolated", "extrapolated")
    value = F.struct(
        "sample_ts",
        (F.col("log_end_offset") - F.col("lag")).alias("next_offset"),
        F.when(is_known, produced).alias("produced"),
        (F.col("lag") == 0).alias("is_at_head"),
    )
    last = recent.groupBy(*PARTITION).agg(
        F.max_by(value, "sample_ts").alias("previous")
    )
    began_ts = F.col("previous_life_ts")
    is_same_life = began_ts.isNull() | (F.col("previous.sample_ts") > began_ts)
    previous = F.when(
        is_same_life & F.col("previous.next_offset").isNotNull(), F.col("previous")
    )
    return rows.join(last, [*PARTITION], "left").withColumn("previous", previous)


def _earlier_ends(
    rows: DataFrame, inputs: TableInputs, carried: Carried
) -> DataFrame | None:
    """Return the samples before those of `ends_since` that are needed to find when the
    records at the offsets of the rows were produced; None for none. This runs a Spark
    job.
    """
    previous = F.col("previous")
    # The next record was produced after the record at an earlier offset.
    after_ms = F.when(
        previous["is_at_head"], F.unix_millis(previous["sample_ts"])
    ).when(
        previous["produced"]["is_bracketed"],
        previous["produced"]["at_ms"] - previous["produced"]["error_ms"],
    )
    is_later = F.col("next_offset") >= previous["next_offset"]
    needed_ms = F.coalesce(F.when(is_later, after_ms), F.unix_millis("first_ts"))
    known = carried.of(cuts.END).select(
        "topic",
        "partition",
        F.col("life").alias("known_life"),
        F.unix_millis(F.date_trunc("minute", "sample_ts")).alias("until_ms"),
    )
    needs = (
        rows.where((F.col("lag") > 0) & ~_has_same_offset(F.col("next_offset")))
        .groupBy(*_LIFE)
        .agg(F.min(needed_ms).alias("from_ms"))
        .join(known, ["topic", "partition"])
        .where((F.col("life") == F.col("known_life")) & F.expr("from_ms < until_ms"))
        .select(*_LIFE, "from_ms", "until_ms")
        .collect()
    )
    if not needs:
        return None
    schema = "topic string, partition int, life int, from_ms bigint, until_ms bigint"
    needed = inputs.spark.createDataFrame(needs, schema)
    from_s = min(each["from_ms"] // 1_000 for each in needs)
    at_ms = F.unix_millis("sample_ts")
    samples = (
        inputs.since(cuts.SAMPLES, datetime.fromtimestamp(from_s, UTC))
        .where(F.col("sample_ts") >= F.timestamp_seconds(F.lit(from_s)))
        .select("topic", "partition", "sample_ts", "high_watermark")
        .join(F.broadcast(needed), ["topic", "partition"])
        .where((at_ms >= F.col("from_ms")) & (at_ms < F.col("until_ms")))
    )
    return of_minutes(samples).drop("from_ms", "until_ms")


def _has_same_offset(offset: Column, previous: str = "previous") -> Column:
    """Return whether the record at an offset was the next one at the previous row."""
    row = F.col(previous)
    is_same = (row["next_offset"] == offset) & row["produced"].isNotNull()
    return F.coalesce(is_same, F.lit(False))


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
            "sample.previous_life_ts",
            "sample.first_ts",
            F.col("commit.committed_offset").alias("committed_offset"),
            F.when(
                F.col("commit.committed_offset").isNotNull(), F.col("commit.commit_ts")
            ).alias("committed_ts"),
            F.col("sample.log_start_offset").alias("log_start_offset"),
            F.col("sample.high_watermark").alias("log_end_offset"),
            owner.alias("owner_member_id"),
            is_missing.alias("is_missing"),
        )
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
    # A sample counts even if the group had neither a commit nor an owner then.
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
        .where(
            F.col("committed_offset").isNotNull() | F.col("owner_member_id").isNotNull()
        )
    )


def _with_produced(rows: DataFrame, ends: DataFrame) -> DataFrame:
    """Add `produced`: when the record at `next_offset` was produced.

    `next_offset` may be null. `ends` come from `with_lives`. `produced` is a struct of
    `at_ms` (null when the record was not produced by the last sample), `error_ms` (null
    when it may have been produced at any time before) and `is_bracketed`.

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
        F.coalesce("next_offset", F.lit(-1)).alias("at_offset"),
        F.lit(1).alias("rank"),
        F.struct(*rows.columns).alias("row"),
    )
    by_offset = Window.partitionBy(*_LIFE).orderBy("at_offset", "rank", "sample_ms")
    until_here = by_offset.rowsBetween(Window.unboundedPreceding, Window.currentRow)
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
        F.when(span.isNull(), F.unix_millis("row.first_ts")).alias("at_ms"),
        F.lit(None).cast("bigint").alias("error_ms"),
        F.lit(False).alias("is_bracketed"),
    )
    produced = F.when(span["to_offset"] > at_offset, interpolated).otherwise(otherwise)
    if "previous" in rows.columns:
        is_same = _has_same_offset(at_offset, "row.previous")
        produced = F.when(is_same, F.col("row.previous.produced")).otherwise(produced)
    return (
        spans.unionByName(lookups, allowMissingColumns=True)
        .withColumn("span", F.last("span", ignorenulls=True).over(until_here))
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


GOLD: Final = GoldTable(
    LAG_HISTORY,
    (*cuts.INPUTS, cuts.WINDOWS),
    _build,
    cuts.plan_from_base,
    rewrites=LAG_HISTORY.day_of,
)
