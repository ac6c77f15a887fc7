"""A gold table out of the replay's rows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.look import Gold, conform
from coterie.pipeline.tables.table import Table


def rows_of(history: DataFrame, kind: str) -> DataFrame:
    """Rows of one kind, in columns."""
    return history.where(F.col("kind") == kind).select(
        "log_partition", "group_id", f"{kind}.*"
    )


def gold_of(table: Table, kind: str) -> Gold:
    """A table that is nothing but the replay's rows of a kind."""
    return Gold(
        table,
        ("group_history",),
        lambda look: conform(rows_of(look.all("group_history"), kind), table),
    )
