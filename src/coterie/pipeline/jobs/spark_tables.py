"""Files of a lake as Spark's data frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coterie.pipeline.lake.delta import folder_of
from coterie.pipeline.lake.manifest import DataFile
from coterie.pipeline.lake.storage import Storage
from coterie.pipeline.tables.spark import empty_frame, spark_schema
from coterie.pipeline.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_files(
    spark: SparkSession, storage: Storage, table: Table, files: Sequence[DataFile]
) -> DataFrame:
    """Return files of a table as a DataFrame with the table's schema."""
    if not files:
        return empty_frame(spark, table)  # Spark refuses to read an empty list of paths
    folder = folder_of(table)
    urls = [storage.url(f"{folder}/{file.path}") for file in files]
    return spark.read.schema(spark_schema(table)).parquet(*urls)
