"""Internal table newest_partition_ends: the newest sample of each partition, for tables
that need no older ones.

For each topic ID of a partition it has the last two days (UTC) with samples, each with
its newest sample and the range of its end offsets. Samples may arrive in any order.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.pipeline.gold.table_inputs import updated
from coterie.pipeline.tables.gold_offsets import NEWEST_PARTITION_ENDS

_DAY_S: Final = 86_400
_DAYS: Final = 2
_PARTITION: Final = ("topic", "topic_id", "partition")
_NEWEST: Final = ("sample_ts", "high_watermark", "log_start_offset", "leader_id")


def newest_partition_ends(before: DataFrame, samples: DataFrame) -> DataFrame:
    """Return the table updated with new samples, from the previous table."""
    days = samples.select(
        *_PARTITION,
        F.floor(F.unix_seconds("sample_ts") / _DAY_S).cast("int").alias("day_number"),
        *_NEWEST,
        F.col("high_watermark").alias("lowest_end"),
        F.col("high_watermark").alias("highest_end"),
        F.when(F.col("round_trip_ms").isNotNull(), F.col("sample_ts")).alias(
            "queried_ts"
        ),
        F.col("sample_ts").alias("first_ts"),
    )
    of_id = Window.partitionBy(*_PARTITION)
    return (
        before.unionByName(days)
        .groupBy(*_PARTITION, "day_number")
        .agg(
            F.max(F.struct(*_NEWEST)).alias("newest"),
            F.min("lowest_end").alias("lowest_end"),
            F.max("highest_end").alias("highest_end"),
            F.max("queried_ts").alias("queried_ts"),
            F.min("first_ts").alias("first_ts"),
        )
        .withColumn("newest_day", F.max("day_number").over(of_id))
        .withColumn("first_ts", F.min("first_ts").over(of_id))
        .where(F.col("day_number") > F.col("newest_day") - _DAYS)
        .select("*", "newest.*")
    )


def newest_of_partitions(ends: DataFrame, *columns: str) -> DataFrame:
    """Return one row for each partition: columns of its newest sample."""
    newest: Column = F.max(F.struct("sample_ts", *columns))
    return (
        ends.groupBy("topic", "partition")
        .agg(newest.alias("newest"))
        .select("topic", "partition", *(F.col(f"newest.{name}") for name in columns))
    )


GOLD: Final = updated(
    NEWEST_PARTITION_ENDS, newest_partition_ends, "partition_end_samples"
)
