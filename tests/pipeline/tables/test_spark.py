"""Schemas of tables in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.silver import LOG_GAPS
from coterie.pipeline.tables.spark import conform, empty_frame, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_a_spark_schema(name: str) -> None:
    schema = spark_schema(TABLES[name])
    assert schema.fieldNames() == [each.name for each in TABLES[name].columns]


@pytest.mark.slow
def test_conform_returns_the_declared_types_and_order(
    spark: SparkSession,
) -> None:
    frame = spark.sql(
        "select 'missing' reason, 2L log_partition, 3 until_offset, 1 from_offset"
    )
    conformed = conform(frame, LOG_GAPS)
    assert conformed.schema.simpleString() == spark_schema(LOG_GAPS).simpleString()
    assert conformed.unionByName(empty_frame(spark, LOG_GAPS)).collect() == [
        (2, 1, 3, "missing")
    ]
