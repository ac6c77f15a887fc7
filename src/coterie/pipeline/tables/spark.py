"""Schemas of tables in Spark, and data frames in these schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from coterie.pipeline.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def conform(frame: DataFrame, table: Table) -> DataFrame:
    """Return the columns of the table, with their declared types and order."""
    return frame.selectExpr(
        *(
            f"CAST(`{column.name}` AS {spark_type(column.type)}) AS `{column.name}`"
            for column in table.columns
        )
    )


def empty_frame(spark: SparkSession, table: Table) -> DataFrame:
    return spark.createDataFrame([], spark_schema(table))


def spark_schema(table: Table) -> str:
    """Return the schema of the table in Spark.

    All columns are nullable, because Spark ignores nullability when it reads Parquet.
    """
    return ", ".join(f"`{each.name}` {spark_type(each.type)}" for each in table.columns)


def spark_type(kind: Any) -> str:
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        fields = (f"`{field.name}`: {spark_type(field.type)}" for field in kind)
        return f"struct<{', '.join(fields)}>"
    return _PLAIN.get(str(kind), str(kind))


_PLAIN: Final = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "timestamp[us, tz=UTC]": "timestamp",
    "date32[day]": "date",
}
