"""Gold table data_quality: the number of records read from each log partition, and of
records left out.

All counts are sums: each build adds the new rows to the previous table. The times since
the last gap begin again with each new gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.pipeline.gold.table_inputs import GoldTable, TableInputs
from coterie.pipeline.tables.gold_offsets import DATA_QUALITY

_COUNTS: Final = (
    "records",
    "bytes",
    "commits",
    "group_records",
    "tombstones",
    "control",
    "aborted",
    "quarantined",
    "gaps",
    "missing_offsets",
)
_ROW_COUNTS: Final = {
    "offset_commits": "commits",
    "classic_group_records": "group_records",
    "consumer_group_records": "group_records",
    "tombstones": "tombstones",
    "quarantine": "quarantined",
}
"""Tables whose rows are counted, and the column of the count."""
_INPUTS: Final = ("records", *_ROW_COUNTS, "log_gaps")
HEADS_SCHEMA: Final = (
    "log_partition int, next_offset bigint, start_offset bigint,"
    " stable_offset bigint, end_offset bigint, off_clock bigint"
)


def data_quality(
    before: DataFrame, new: Mapping[str, DataFrame], heads: DataFrame
) -> DataFrame:
    """Return the updated table, from the previous table, the new rows of each input by
    name, and the positions in the log.
    """
    counts = before.select(
        "log_partition",
        "from_offset",
        "first_ts",
        "last_ts",
        "gap_end_offset",
        "history_from_ts",
        # The history of the earlier rows began at the last gap known then.
        F.coalesce("gap_end_offset", F.lit(0)).alias("history_offset"),
        *_COUNTS,
    )
    is_aborted = F.col("outcome") == "aborted"
    new_counts = [
        new["records"].select(
            "log_partition",
            F.col("log_offset").alias("from_offset"),
            F.col("append_ts").alias("first_ts"),
            F.col("append_ts").alias("last_ts"),
            F.col("append_ts").alias("history_from_ts"),
            F.col("log_offset").alias("history_offset"),
            F.col("size_bytes").cast("bigint").alias("bytes"),
            _one().alias("records"),
            F.col("is_control").cast("bigint").alias("control"),
            F.coalesce(is_aborted, F.lit(False)).cast("bigint").alias("aborted"),
        ),
        *(
            new[table].select("log_partition", _one().alias(count))
            for table, count in _ROW_COUNTS.items()
        ),
        new["log_gaps"].select(
            "log_partition",
            _one().alias("gaps"),
            (F.col("until_offset") - F.col("from_offset")).alias("missing_offsets"),
            F.col("until_offset").alias("gap_end_offset"),
        ),
    ]
    for rows in new_counts:
        counts = counts.unionByName(rows, allowMissingColumns=True)
    gap_end = F.max("gap_end_offset").over(Window.partitionBy("log_partition"))
    is_since_gap = F.col("history_offset") >= F.coalesce(gap_end, F.lit(0))
    counts = counts.withColumn(
        "history_from_ts", F.when(is_since_gap, F.col("history_from_ts"))
    )
    sums = counts.groupBy("log_partition").agg(
        F.min("from_offset").alias("from_offset"),
        F.min("first_ts").alias("first_ts"),
        F.max("last_ts").alias("last_ts"),
        F.max("gap_end_offset").alias("gap_end_offset"),
        # That of the first record: a later one may have any time, by a wrong clock.
        F.min_by("history_from_ts", _first_known("history_from_ts")).alias(
            "history_from_ts"
        ),
        *(F.sum(count).alias(count) for count in _COUNTS),
    )
    held_back = F.col("end_offset") - F.col("stable_offset")
    ends = heads.select(
        "log_partition",
        "next_offset",
        "end_offset",
        held_back.alias("held_back"),
        "off_clock",
    )
    return sums.join(ends, on="log_partition", how="full_outer")


def _first_known(name: str) -> Column:
    """Return the offset to order by, so that rows without the value are left out."""
    return F.when(F.col(name).isNotNull(), F.col("history_offset"))


def _one() -> Column:
    return F.lit(1).cast("bigint")


def _build(inputs: TableInputs) -> DataFrame:
    new = {name: inputs.new(name) for name in _INPUTS}
    heads = [tuple(head) for head in inputs.settings.heads]
    head_rows = inputs.spark.createDataFrame(heads, HEADS_SCHEMA)
    rows = data_quality(inputs.before(), new, head_rows)
    return rows.fillna(0, [*_COUNTS, "held_back", "off_clock"])


GOLD: Final = GoldTable(DATA_QUALITY, _INPUTS, _build)
