"""Questions in SQL: every table of a lake is a view of its name.

Each view has three columns more, facts of the lake: `cluster_id`, `as_of_ts` (the
newest record that was read) and `history_from_ts` (the oldest).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from coterie.errors import LogError, SettingError
from coterie.pipeline.gold.look import empty, spark_schema
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHOWING: Final = frozenset({"show", "list"})


class Answer(NamedTuple):
    """The first rows that a query gives."""

    rows: Any
    """An Arrow table; no two columns have the same name."""
    is_all: bool


def make_views(spark: SparkSession, lake: Lake, query: str) -> None:
    """Let a query see the tables of the lake's version that it may mean: each takes
    Spark a moment. One that shows what there is sees all."""
    words = set(re.findall(r"\w+", query.lower()))
    for table in TABLES.values():
        if table.name in words or words & _SHOWING:
            view_of(spark, lake, table).createOrReplaceTempView(table.name)


def view_of(spark: SparkSession, lake: Lake, table: Table) -> DataFrame:
    """A table with the facts of its lake."""
    from pyspark.sql import functions as F

    files = [lake.storage.url(each.path) for each in lake.version.of(table.name).files]
    read = spark.read.schema(spark_schema(table))
    rows = read.parquet(*files) if files else empty(spark, table)
    version = lake.version
    return rows.select(
        "*",
        F.lit(lake.identity.cluster_id).cast("string").alias("cluster_id"),
        F.lit(version.as_of_ts).cast("timestamp").alias("as_of_ts"),
        F.lit(version.history_from_ts).cast("timestamp").alias("history_from_ts"),
    )


def ask(spark: SparkSession, query: str, limit: int | None) -> Answer:
    """Run one query; at most so many rows of what it gives.

    Raises SettingError for a query that Spark does not understand, and LogError for one
    that fails on the way.
    """
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    _silence()
    try:
        frame = spark.sql(query)
        frame = frame.toDF(*_apart(frame.columns))
        rows = (frame if limit is None else frame.limit(limit + 1)).toArrow()
    except (AnalysisException, ParseException) as error:
        raise SettingError(_sentence(error)) from None
    except PySparkException as error:
        raise LogError(_sentence(error)) from None
    is_all = limit is None or len(rows) <= limit
    return Answer(rows.slice(0, limit), is_all)


def _silence() -> None:
    """Have PySpark not write to stderr, too, what it raises."""
    import logging

    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def _apart(names: list[str]) -> list[str]:
    """Names of columns, of which the second n is n_2."""
    found: list[str] = []
    for name in names:
        known = sum(each == name for each in names[: len(found)])
        found.append(f"{name}_{known + 1}" if known else name)
    return found


def _sentence(error: Exception) -> str:
    """What Spark said of a query, without the query and where in Spark that was."""
    text = str(error).partition("\n\nJVM stacktrace")[0].partition("\n== SQL")[0]
    return " ".join(text.partition("\n'")[0].split()).rstrip(";")
