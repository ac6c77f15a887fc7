"""Schemas of tables in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.ingested import LOG_GAPS
from coterie.pipeline.tables.spark import conform, empty_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_every_table_has_a_spark_schema(spark: SparkSession) -> None:
    for table in TABLES.values():
        assert empty_frame(spark, table).toArrow().schema.equals(table.file_schema)


@pytest.mark.slow
def test_conform_returns_the_declared_types_and_order(
    spark: SparkSession,
) -> None:
    frame = spark.sql(
        "select 'missing' reason, 2L log_partition, 3 until_offset, 1 from_offset"
    )
    conformed = conform(frame, LOG_GAPS)
    assert conformed.toArrow().schema.types == LOG_GAPS.schema.types
    assert conformed.columns == LOG_GAPS.schema.names
    assert conformed.unionByName(empty_frame(spark, LOG_GAPS)).collect() == [
        (2, 1, 3, "missing")
    ]
