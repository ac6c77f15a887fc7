"""What a table declares: name, layer, question, key and columns.

This module does not import Spark, so that code which only reads tables does not load
it. `tools.pipeline_page` writes the column tables of docs/pipeline.md from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

TIME: Final = pa.timestamp("us", "UTC")
TIME_MS_MAX: Final = 253_370_764_799_999
"""The latest time of a record or sample: the end of the year 9998, in ms since 1970.
Python and Spark have no times after 9999, and tables contain later times than those of
records, such as the end of a minute."""
DAY: Final = "day"
"""The partition column of long tables."""


class Layer(Enum):
    """The processing stage of a table."""

    BRONZE = "bronze"
    """Records in the form in which they were read."""
    SILVER = "silver"
    """Decoded records."""
    GOLD = "gold"
    """Results computed from silver and other gold tables."""
    INTERNAL = "internal"
    """Intermediate results of gold tables; not part of the documented schema."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. Names of times end in `_ts` (UTC, microseconds), names of
    durations in `_ms`.
    """

    name: str
    type: Any
    """An Arrow type."""
    meaning: str
    """The description in docs/pipeline.md and in the report."""
    nullable: bool = True


@dataclass(frozen=True)
class Table:
    """The declaration of one table."""

    name: str
    layer: Layer
    question: str
    """The question that the table answers."""
    key: Sequence[str]
    """Columns whose values identify a row."""
    columns: Sequence[Column]
    """The columns of its files."""
    day_of: str | None = None
    """The time column whose UTC date is the column `day`, by which a long table is
    partitioned; None for a table that is not partitioned. Only the lake and its readers
    know `day`: builds of tables do not return it."""

    @cached_property
    def schema(self) -> Any:
        return pa.schema([pa.field(c.name, c.type, c.nullable) for c in self.columns])

    @cached_property
    def file_schema(self) -> Any:
        """The schema of its files: all columns are nullable, as Spark writes them, and
        a column that was added later is null in older files."""
        return pa.schema([pa.field(c.name, c.type) for c in self.columns])

    @cached_property
    def all_columns(self) -> Sequence[Column]:
        """The columns that readers see: those of the files, and `day`."""
        if self.day_of is None:
            return self.columns
        meaning = f"date of {self.day_of} in UTC; the table is partitioned by it"
        return (*self.columns, Column(DAY, pa.date32(), meaning))
