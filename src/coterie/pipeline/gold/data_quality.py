"""How much of each log partition was read, and what of it counts for nothing.

All counts are sums, so each build adds what came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.look import Gold, Look, conform
from coterie.pipeline.gold.settings import LogHead
from coterie.pipeline.tables.data_quality import DATA_QUALITY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COUNTS: Final = (
    "records",
    "commits",
    "group_records",
    "tombstones",
    "control",
    "aborted",
    "quarantined",
    "gaps",
    "missing_offsets",
)
_HEADS: Final = (
    "log_partition int, next_offset bigint, start_offset bigint,"
    " stable_offset bigint, end_offset bigint"
)


@dataclass(frozen=True, kw_only=True)
class Came:
    """The new rows of each table."""

    records: DataFrame
    offset_commits: DataFrame
    classic_group_records: DataFrame
    consumer_group_records: DataFrame
    tombstones: DataFrame
    quarantine: DataFrame
    log_gaps: DataFrame


def quality(before: DataFrame, came: Came, heads: DataFrame) -> DataFrame:
    """The counts so far and what came, beside how far the log goes now."""
    counted = (
        _before(before),
        _records(came.records),
        _rows(came.offset_commits, "commits"),
        _rows(came.classic_group_records, "group_records"),
        _rows(came.consumer_group_records, "group_records"),
        _rows(came.tombstones, "tombstones"),
        _rows(came.quarantine, "quarantined"),
        _gaps(came.log_gaps),
    )
    return _summed(counted).join(_ends(heads), on="log_partition", how="full_outer")


def heads_of(spark: SparkSession, heads: Sequence[LogHead]) -> DataFrame:
    """How far each log partition was read, and how far it goes."""
    return spark.createDataFrame([tuple(head) for head in heads], _HEADS)


def _before(before: DataFrame) -> DataFrame:
    return before.select(
        "log_partition", "from_offset", "first_ts", "last_ts", *_COUNTS
    )


def _records(records: DataFrame) -> DataFrame:
    is_aborted = F.col("outcome") == "aborted"
    return records.select(
        "log_partition",
        F.col("log_offset").alias("from_offset"),
        F.col("append_ts").alias("first_ts"),
        F.col("append_ts").alias("last_ts"),
        _one().alias("records"),
        F.col("is_control").cast("bigint").alias("control"),
        F.coalesce(is_aborted, F.lit(False)).cast("bigint").alias("aborted"),
    )


def _rows(rows: DataFrame, count: str) -> DataFrame:
    return rows.select("log_partition", _one().alias(count))


def _gaps(gaps: DataFrame) -> DataFrame:
    missing = F.col("until_offset") - F.col("from_offset")
    return gaps.select(
        "log_partition", _one().alias("gaps"), missing.alias("missing_offsets")
    )


def _one() -> Column:
    return F.lit(1).cast("bigint")


def _summed(counted: Sequence[DataFrame]) -> DataFrame:
    rows, *more = counted
    for each in more:
        rows = rows.unionByName(each, allowMissingColumns=True)
    return rows.groupBy("log_partition").agg(
        F.min("from_offset").alias("from_offset"),
        F.min("first_ts").alias("first_ts"),
        F.max("last_ts").alias("last_ts"),
        *(F.sum(each).alias(each) for each in _COUNTS),
    )


def _ends(heads: DataFrame) -> DataFrame:
    held_back = F.col("end_offset") - F.col("stable_offset")
    return heads.select(
        "log_partition", "next_offset", "end_offset", held_back.alias("held_back")
    )


def build(look: Look) -> DataFrame:
    """The table, from what came."""
    came = Came(**{name: look.new(name) for name in _INPUTS})
    heads = heads_of(look.spark, look.settings.heads)
    rows = quality(look.before(), came, heads)
    return conform(rows.fillna(0, [*_COUNTS, "held_back"]), DATA_QUALITY)


_INPUTS: Final = (
    "records",
    "offset_commits",
    "classic_group_records",
    "consumer_group_records",
    "tombstones",
    "quarantine",
    "log_gaps",
)
GOLD: Final = Gold(DATA_QUALITY, _INPUTS, build)
