"""What a group was at each moment of its log: there or not, of which protocol, with how
many members, and since when.

Only what offsets are judged by: who could have committed, and when they expire.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
_AT: Final = ("log_partition", "log_offset", "group_id")
_CLASSIC_GROUP: Final = 2
_CONSUMER_GROUP: Final = 3
_CONSUMER_MEMBER: Final = 5
GROUP_TYPES: Final = (_CLASSIC_GROUP, _CONSUMER_GROUP)
"""Types of records whose tombstone takes a group away."""


def presence(
    classic: DataFrame, consumer: DataFrame, tombstones: DataFrame
) -> DataFrame:
    """A row for each record that changes it, true from that offset on: kind (classic,
    consumer; null for none, and for one that nobody ever joined), members, state_ts."""
    there = _classic(classic).unionByName(_consumer(consumer, tombstones))
    gone = tombstones.where(F.col("record_type").isin(*GROUP_TYPES))
    return there.unionByName(
        gone.select(
            *_AT,
            F.lit(None).cast("string").alias("kind"),
            F.lit(0).cast("bigint").alias("members"),
            F.lit(None).cast("timestamp").alias("state_ts"),
        )
    )


def _classic(records: DataFrame) -> DataFrame:
    is_simple = F.col("protocol_type") == ""
    return records.select(
        *_AT,
        F.when(~is_simple, F.lit(CLASSIC)).alias("kind"),
        F.size("members").cast("bigint").alias("members"),
        "state_ts",
    )


def _consumer(records: DataFrame, tombstones: DataFrame) -> DataFrame:
    """Its members are those whose record 5 stands; record 3 says that it is there."""
    is_member = F.col("record_type") == _CONSUMER_MEMBER
    is_told = is_member | (F.col("record_type") == _CONSUMER_GROUP)
    came = records.where(is_told).select(
        *_AT, "member_id", F.when(is_member, 1).alias("is_there")
    )
    went = tombstones.where(is_member).select(
        *_AT, "member_id", F.lit(0).alias("is_there")
    )
    of_member = Window.partitionBy("group_id", "member_id").orderBy("log_offset")
    before = F.coalesce(F.lag("is_there").over(of_member), F.lit(0))
    changes = came.unionByName(went).withColumn("change", F.col("is_there") - before)
    of_group = Window.partitionBy("group_id").orderBy("log_offset")
    return changes.select(
        *_AT,
        F.lit(CONSUMER).alias("kind"),
        F.coalesce(F.sum("change").over(of_group), F.lit(0)).alias("members"),
        F.lit(None).cast("timestamp").alias("state_ts"),
    )
