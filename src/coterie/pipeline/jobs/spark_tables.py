"""Read the tables of a lake with Spark: SQL views and queries.

Every table is a view with the table's name. Each view has three additional columns:
`cluster_id`, `as_of_ts` (the time of the newest record in the lake) and
`history_from_ts` (the time of the oldest).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coterie.errors import LogError, SettingError
from coterie.pipeline.lake.delta import folder_of
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.manifest import DataFile
from coterie.pipeline.lake.sql import QueryResult, tables_in, unique_names
from coterie.pipeline.lake.storage import Storage
from coterie.pipeline.tables.spark import empty_frame, spark_schema
from coterie.pipeline.tables.table import DAY, Table

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


def make_views(spark: SparkSession, lake: Lake, query: str) -> None:
    """Create temporary views of the tables in a query.

    No view is created for other tables, because each view takes some time; for a query
    that lists tables (SHOW), all views are created.
    """
    from pyspark.sql import functions as F

    version = lake.version
    for table in tables_in(query):
        files = lake.files(table.name) if lake.has(table.name) else ()
        day = [F.to_date(table.day_of).alias(DAY)] if table.day_of else []
        read_files(spark, lake.storage, table, files).select(
            "*",
            *day,
            F.lit(lake.identity.cluster_id).cast("string").alias("cluster_id"),
            F.lit(version.as_of_ts).cast("timestamp").alias("as_of_ts"),
            F.lit(version.history_from_ts).cast("timestamp").alias("history_from_ts"),
        ).createOrReplaceTempView(table.name)


def run_sql(spark: SparkSession, query: str, limit: int | None) -> QueryResult:
    """Run one query and return at most `limit` rows.

    Raises SettingError when Spark cannot analyze the query, and LogError when its
    execution fails.
    """
    import logging

    from pyspark.errors import AnalysisException, ParseException, PySparkException
    from pyspark.logger import PySparkLogger

    # PySpark logs query errors to stderr in addition to raising them.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    try:
        frame = spark.sql(query)
        frame = frame.toDF(*unique_names(frame.columns))
        rows = (frame if limit is None else frame.limit(limit + 1)).toArrow()
    except (AnalysisException, ParseException) as error:
        raise SettingError(_summarize(error)) from None
    except PySparkException as error:
        raise LogError(_summarize(error)) from None
    is_complete = limit is None or len(rows) <= limit
    return QueryResult(rows.slice(0, limit), is_complete)


def _summarize(error: Exception) -> str:
    """Return Spark's message on one line, without the query text and stack trace."""
    text = str(error).partition("\n\nJVM stacktrace")[0].partition("\n== SQL")[0]
    return " ".join(text.partition("\n'")[0].split()).rstrip(";")
