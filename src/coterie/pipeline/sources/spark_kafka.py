"""Spark's own Kafka source, for who insists on it: its rows as those of `records`.

    frame = spark.read.format("kafka").options(**OPTIONS).option(
        "kafka.bootstrap.servers", "broker:9092").load()
    commits = silver(bronze(frame), OFFSET_COMMITS)

It shows no internal topic unless SETTING is set in the session (since Spark 3.4), reads
what was aborted unless it is told not to, and joins a group of its own to find the
offsets, whose records are in the log then, too. Producers, markers and leader epochs
are not told, so that the log is not whole; docs/pipeline-sources.md says more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from coterie.pipeline.codec.decode import decode
from coterie.pipeline.gold.look import spark_schema
from coterie.pipeline.tables.records import RECORDS
from coterie.pipeline.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SETTING: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""To be "true": offsets are then found by a consumer, which sees internal topics."""
OPTIONS: Final[Mapping[str, str]] = {
    "subscribe": "__consumer_offsets",
    "startingOffsets": "earliest",
    "kafka.isolation.level": "read_committed",
    "includeHeaders": "true",
    "failOnDataLoss": "false",
}
"""Without the last of them what compaction took would end the query."""
_LOG_APPEND_TIME: Final = 1


def bronze(frame: DataFrame) -> DataFrame:
    """Rows of Spark's Kafka source in the columns of `records`. What it does not tell
    is as for a record without a producer; each is a batch of its own."""
    lengths = [F.coalesce(F.octet_length(name), F.lit(0)) for name in ("key", "value")]
    told = {
        "log_partition": F.col("partition"),
        "log_offset": F.col("offset"),
        "append_ts": F.when(F.unix_millis("timestamp") >= 0, F.col("timestamp")),
        "base_offset": F.col("offset"),
        "size_bytes": lengths[0] + lengths[1],
        "is_append_time": F.col("timestampType") == _LOG_APPEND_TIME,
        "key": F.col("key"),
        "value": F.col("value"),
        "headers": F.transform(
            "headers",
            lambda each: F.struct(each["key"].alias("name"), each["value"]),
        ),
        "leader_epoch": F.lit(-1),
        "producer_id": F.lit(-1),
        "producer_epoch": F.lit(-1),
        "is_transactional": F.lit(False),
        "is_control": F.lit(False),
        "outcome": F.lit(None),
    }
    return frame.select(
        *(
            told[field.name].cast(field.dataType).alias(field.name)
            for field in spark_schema(RECORDS)
        )
    )


def silver(records: DataFrame, table: Table) -> DataFrame:
    """Rows of `records` decoded to those of a silver table, in workers."""

    def decoded(batches: Iterable[Any]) -> Iterator[Any]:
        for each in batches:
            yield decode(each.cast(RECORDS.schema))[table.name]

    return records.mapInArrow(decoded, spark_schema(table))
