"""When was the record at an offset written? Samples of where the partition ended tell.

Before a sample whose end is at or below the offset, it was not there; before one whose
end is above, it was. Between the two times it is taken to have come evenly with the
others (kafka-lag-exporter's method, peer-tools c.4). Asked of offsets below the first
end that was seen, all that can be said is that it was there by then.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_LIFE: Final = ("topic", "partition", "life")


def with_produced(rows: DataFrame, ends: DataFrame, offset: str) -> DataFrame:
    """`rows` (topic, partition, life and the column `offset`, null allowed) with
    `produced`: a struct of `at_ms` (when it was written; null when it was not yet by
    the last sample), `error_ms` (how far off that may be; null: it may be any time
    before) and `is_bracketed`. `ends` are samples `with_lives`.

    One window over the samples and the rows together, in the order of offsets.
    """
    by_offset = Window.partitionBy(*_LIFE).orderBy("at_offset", "rank", "sample_ms")
    until_here = by_offset.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    whole = Window.partitionBy(*_LIFE).rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    asked = rows.select(
        *_LIFE,
        F.coalesce(offset, F.lit(-1)).alias("at_offset"),
        F.lit(1).alias("rank"),
        F.struct(*rows.columns).alias("asked"),
    )
    known = F.last("span", ignorenulls=True).over(until_here)
    return (
        _spans(ends)
        .unionByName(asked, allowMissingColumns=True)
        .withColumn("known", known)
        .withColumn("first_ms", F.min("sample_ms").over(whole))
        .where(F.col("asked").isNotNull())
        .select("asked.*", _produced().alias("produced"))
    )


def _spans(ends: DataFrame) -> DataFrame:
    """From each sample to the next one of the same life."""
    in_time = Window.partitionBy(*_LIFE).orderBy("sample_ts")
    at_ms = F.unix_millis("sample_ts")
    end = F.col("high_watermark")
    return ends.select(
        *_LIFE,
        end.alias("at_offset"),
        F.lit(0).alias("rank"),
        at_ms.alias("sample_ms"),
        F.struct(
            at_ms.alias("from_ms"),
            end.alias("from_offset"),
            F.lead(at_ms).over(in_time).alias("to_ms"),
            F.lead(end).over(in_time).alias("to_offset"),
        ).alias("span"),
    )


def _produced() -> Column:
    """Of the last sample that ends at or below the offset, and the one after it."""
    known, offset = F.col("known"), F.col("at_offset")
    share = (offset - known["from_offset"]) / (
        known["to_offset"] - known["from_offset"]
    )
    took_ms = known["to_ms"] - known["from_ms"]
    after_ms = F.floor(share * took_ms).cast("bigint")
    between = F.struct(
        (known["from_ms"] + after_ms).alias("at_ms"),
        F.greatest(after_ms, took_ms - after_ms).alias("error_ms"),
        F.lit(True).alias("is_bracketed"),
    )
    by_then = F.struct(
        F.when(known.isNull(), F.col("first_ms")).alias("at_ms"),
        F.lit(None).cast("bigint").alias("error_ms"),
        F.lit(False).alias("is_bracketed"),
    )
    return F.when(known["to_offset"] > offset, between).otherwise(by_then)
