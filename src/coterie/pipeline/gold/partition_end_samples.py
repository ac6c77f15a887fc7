"""Where partitions began and ended: runs append what they looked at, here it is read.

A run appends samples to the table `partition_end_samples`, as many as its source has.
Lag needs no more than one a minute and partition: `of_minutes`.

A topic may be deleted and come back: `with_lives` tells its lives apart, by the topic's
id, and where no id is known by an end that is lower than before.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

_PLACE: Final = ("topic", "partition")


def of_minutes(samples: DataFrame) -> DataFrame:
    """The last sample of each minute, for each partition."""
    in_time = Window.partitionBy(*_PLACE).orderBy("sample_ts", "high_watermark")
    minute = F.date_trunc("minute", "sample_ts")
    next_minute = F.lead(minute).over(in_time)
    is_last = next_minute.isNull() | (next_minute != minute)
    return samples.withColumn("is_last", is_last).where("is_last").drop("is_last")


def with_lives(samples: DataFrame) -> DataFrame:
    """Samples with `life`, which counts how often the partition has begun anew, and
    `previous_life_ts`: when the life before was last seen, null in the first one."""
    in_time = Window.partitionBy(*_PLACE).orderBy("sample_ts")
    until_now = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before_ts = F.lag("sample_ts").over(in_time)
    is_new = F.coalesce(_is_another(in_time), F.lit(False))
    return (
        samples.withColumn("is_new", is_new)
        .withColumn("ended_ts", F.when(is_new, before_ts))
        .withColumn("life", F.sum(F.col("is_new").cast("int")).over(until_now))
        .withColumn(
            "previous_life_ts",
            F.last("ended_ts", ignorenulls=True).over(until_now),
        )
        .drop("is_new", "ended_ts")
    )


def topic_names(samples: DataFrame) -> DataFrame:
    """Which name each topic id stands for: `topic_id`, `known_topic`."""
    return (
        samples.where(F.col("topic_id").isNotNull())
        .groupBy("topic_id")
        .agg(F.max("topic").alias("known_topic"))
    )


def _is_another(in_time: WindowSpec) -> Column:
    before_id = F.lag("topic_id").over(in_time)
    is_known = before_id.isNotNull() & F.col("topic_id").isNotNull()
    is_shorter = F.col("high_watermark") < F.lag("high_watermark").over(in_time)
    return F.when(is_known, F.col("topic_id") != before_id).otherwise(is_shorter)
