"""Declared schemas, as Spark has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.pipeline.gold.look import conform, empty, spark_schema
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.log_gaps import LOG_GAPS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_a_schema_for_spark(name: str) -> None:
    schema = spark_schema(TABLES[name])
    assert schema.fieldNames() == [each.name for each in TABLES[name].columns]


@pytest.mark.slow
def test_a_frame_conforms_to_a_table_by_its_types_and_order(
    spark: SparkSession,
) -> None:
    frame = spark.sql(
        "select 'missing' reason, 2L log_partition, 3 until_offset, 1 from_offset"
    )
    done = conform(frame, LOG_GAPS)
    assert done.schema.simpleString() == spark_schema(LOG_GAPS).simpleString()
    assert done.unionByName(empty(spark, LOG_GAPS)).collect() == [(2, 1, 3, "missing")]
