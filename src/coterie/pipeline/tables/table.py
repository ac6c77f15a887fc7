"""What a table is: a name, the question it answers, its columns and its key.

Declared here without Spark, so that what only reads tables does not load it. The
transforms of `pipeline.gold` end in these schemas; docs/pipeline.md is held to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

TIME: Final = pa.timestamp("us", "UTC")
STRING: Final = pa.string()
BINARY: Final = pa.binary()
BOOL: Final = pa.bool_()
BYTE: Final = pa.int8()
SHORT: Final = pa.int16()
INT: Final = pa.int32()
LONG: Final = pa.int64()
DOUBLE: Final = pa.float64()


def list_of(element: Any) -> Any:
    """The Arrow type of an array."""
    return pa.list_(element)


def struct_of(**fields: Any) -> Any:
    """The Arrow type of a struct, fields in this order."""
    return pa.struct(list(fields.items()))


class Layer(Enum):
    """How far from the log: as read, decoded, or an answer."""

    BRONZE = "bronze"
    SILVER = "silver"
    GOLD = "gold"
    INTERNAL = "internal"
    """What gold tables share on their way; nobody else is to read it."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: times are `*_ts` in UTC to the microsecond, spans `*_ms`."""

    name: str
    type: Any
    """An Arrow type."""
    meaning: str
    nullable: bool = True


@dataclass(frozen=True)
class Table:
    """See the module's docstring."""

    name: str
    layer: Layer
    question: str
    """What one asks of it, as people say it."""
    key: Sequence[str]
    """Columns whose values no two rows share."""
    columns: Sequence[Column]

    @cached_property
    def schema(self) -> Any:
        """The Arrow schema."""
        return pa.schema([pa.field(c.name, c.type, c.nullable) for c in self.columns])


def never_null(name: str, kind: Any, meaning: str) -> Column:
    """A column that has a value in every row."""
    return Column(name, kind, meaning, nullable=False)
