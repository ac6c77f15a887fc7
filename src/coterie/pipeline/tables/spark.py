"""Schemas of tables in Spark, and data frames in these schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from coterie.pipeline.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


def conform(frame: DataFrame, table: Table) -> DataFrame:
    """Return the columns of the table, with their declared types and order."""
    from pyspark.sql import functions as F

    return frame.select(
        *(
            F.col(column.name).cast(spark_type(column.type)).alias(column.name)
            for column in table.columns
        )
    )


def empty_frame(spark: SparkSession, table: Table) -> DataFrame:
    return spark.createDataFrame([], spark_schema(table))


def spark_schema(table: Table) -> StructType:
    """Return the schema of the table in Spark.

    All columns are nullable, because Spark ignores nullability when it reads Parquet.
    """
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [StructField(column.name, spark_type(column.type)) for column in table.columns]
    )


def spark_type(kind: Any) -> DataType:
    from pyspark.sql import types

    if pa.types.is_list(kind):
        return types.ArrayType(spark_type(kind.value_type))
    if pa.types.is_struct(kind):
        return types.StructType(
            [types.StructField(field.name, spark_type(field.type)) for field in kind]
        )
    if pa.types.is_map(kind):
        return types.MapType(spark_type(kind.key_type), spark_type(kind.item_type))
    plain: DataType = getattr(types, _PLAIN[str(kind)])()
    return plain


_PLAIN: Final = {
    "string": "StringType",
    "binary": "BinaryType",
    "bool": "BooleanType",
    "int8": "ByteType",
    "int16": "ShortType",
    "int32": "IntegerType",
    "int64": "LongType",
    "double": "DoubleType",
    "timestamp[us, tz=UTC]": "TimestampType",
    "date32[day]": "DateType",
}
