"""What a gold table is made with: pure functions over what a `Look` shows.

A build that sees all rows as new ones and itself as empty gives the same table as any
number of builds, each with what came since the one before it: that is what tests hold
every table to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


class Look(Protocol):
    """The lake, as the build of one gold table sees it."""

    spark: SparkSession

    @property
    def settings(self) -> GoldSettings:
        """Settings and facts. Who looks is built again when they change."""

    def all(self, name: str) -> DataFrame:
        """A silver table, or a gold table that was built before this one."""

    def new(self, name: str) -> DataFrame:
        """The rows that this table has not seen. Of a gold table only when it `adds`:
        rows of others come and go."""

    def before(self, name: str | None = None) -> DataFrame:
        """This table as it was; empty at first. Or another gold table as it was when
        this one was last built: all that `new` gives came after it."""


@dataclass(frozen=True, slots=True)
class Gold:
    """How a gold table is built."""

    table: Table
    inputs: tuple[str, ...]
    """Names of tables that it looks at."""
    build: Callable[[Look], DataFrame]
    """Ends in `conform`."""
    adds: bool = False
    """The build gives rows to append, instead of the table."""


def conform(frame: DataFrame, table: Table) -> DataFrame:
    """The table's columns, of its types and in its order."""
    from pyspark.sql import functions as F

    return frame.select(
        *(
            F.col(each.name).cast(spark_type(each.type)).alias(each.name)
            for each in table.columns
        )
    )


def empty(spark: SparkSession, table: Table) -> DataFrame:
    """The table without rows."""
    return spark.createDataFrame([], spark_schema(table))


def spark_schema(table: Table) -> StructType:
    """The table's schema for Spark. All columns are nullable: that is how Spark reads
    files."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [StructField(each.name, spark_type(each.type)) for each in table.columns]
    )


def spark_type(kind: Any) -> DataType:
    """Spark's type for an Arrow type."""
    from pyspark.sql import types

    if pa.types.is_list(kind):
        return types.ArrayType(spark_type(kind.value_type))
    if pa.types.is_struct(kind):
        return types.StructType(
            [types.StructField(each.name, spark_type(each.type)) for each in kind]
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
