"""Hand-written rows of tables: columns that a test does not give are null or empty."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from coterie.pipeline.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return the time that is `seconds` after the beginning of 2026."""
    return START + timedelta(seconds=seconds)


def frame(
    spark: SparkSession, table: Table, rows: Iterable[dict[str, Any]]
) -> DataFrame:
    """Return rows as a data frame in the declared schema."""
    return spark.createDataFrame(arrow(table, rows))


def arrow(table: Table, rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Return rows as an Arrow table in the declared schema."""
    blank = {
        column.name: None if column.nullable else _empty(column.type)
        for column in table.columns
    }
    full = [blank | row for row in rows]
    assert all(row.keys() == blank.keys() for row in full), "a column that is not there"
    return pa.Table.from_pylist(full, schema=table.schema)


def _empty(kind: Any) -> Any:
    if pa.types.is_string(kind):
        return ""
    if pa.types.is_list(kind):
        return []
    if pa.types.is_timestamp(kind):
        return START
    return False if pa.types.is_boolean(kind) else 0
