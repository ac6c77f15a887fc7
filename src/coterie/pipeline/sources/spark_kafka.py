"""Convert rows of Spark's own Kafka source to rows of `records` and of silver tables.

    frame = spark.read.format("kafka").options(**OPTIONS).option(
        "kafka.bootstrap.servers", "broker:9092").load()
    commits = silver(bronze(frame), OFFSET_COMMITS)

That source returns no rows of internal topics unless SETTING is set in the session
(since Spark 3.4), returns aborted records by default, and creates a consumer group,
whose records are then in the log, too. Its rows have no producers, markers or leader
epochs; docs/pipeline-sources.md has the details.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from coterie.pipeline.codec.decode import decode
from coterie.pipeline.tables.bronze import RECORDS
from coterie.pipeline.tables.spark import spark_schema
from coterie.pipeline.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SETTING: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""Must be "true": then a consumer finds the offsets, which includes internal topics."""
OPTIONS: Final[Mapping[str, str]] = {
    "subscribe": "__consumer_offsets",
    "startingOffsets": "earliest",
    "kafka.isolation.level": "read_committed",
    "includeHeaders": "true",
    "failOnDataLoss": "false",
}
"""Without `failOnDataLoss` a query fails at offsets that compaction removed."""
_LOG_APPEND_TIME: Final = 1


def bronze(frame: DataFrame) -> DataFrame:
    """Convert rows of Spark's Kafka source to the columns of `records`. The missing
    columns have the values of a record without a producer, in a batch of one record.
    """
    lengths = [F.coalesce(F.octet_length(name), F.lit(0)) for name in ("key", "value")]
    columns = {
        "log_partition": F.col("partition"),
        "log_offset": F.col("offset"),
        "append_ts": F.when(F.unix_millis("timestamp") >= 0, F.col("timestamp")),
        "base_offset": F.col("offset"),
        "size_bytes": lengths[0] + lengths[1],
        "is_append_time": F.col("timestampType") == _LOG_APPEND_TIME,
        "key": F.col("key"),
        "value": F.col("value"),
        "headers": F.transform(
            "headers", lambda each: F.struct(each["key"].alias("name"), each["value"])
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
            columns[field.name].cast(field.dataType).alias(field.name)
            for field in spark_schema(RECORDS)
        )
    )


def silver(records: DataFrame, table: Table) -> DataFrame:
    """Decode rows of `records` to a silver table, in workers."""

    def decoded(batches: Iterable[Any]) -> Iterator[Any]:
        for each in batches:
            yield decode(each.cast(RECORDS.schema))[table.name]

    return records.mapInArrow(decoded, spark_schema(table))
