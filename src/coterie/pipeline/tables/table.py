"""Table declarations: name, layer, question, key and columns; and shared columns.

This module does not import Spark, so that code which only reads tables does not load
it. The transforms of `pipeline.gold` return rows in these schemas, and
`tools.pipeline_page` writes the column tables of docs/pipeline.md from them.
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
STRING: Final = pa.string()
BINARY: Final = pa.binary()
BOOL: Final = pa.bool_()
BYTE: Final = pa.int8()
SHORT: Final = pa.int16()
INT: Final = pa.int32()
LONG: Final = pa.int64()
DOUBLE: Final = pa.float64()
DATE: Final = pa.date32()
DAY: Final = "day"
"""The partition column of long tables."""


def list_of(element: Any) -> Any:
    return pa.list_(element)


def struct_of(**fields: Any) -> Any:
    """Return the Arrow type of a struct with these fields, in this order."""
    return pa.struct(list(fields.items()))


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
        return (*self.columns, Column(DAY, DATE, meaning))


def required(name: str, kind: Any, meaning: str) -> Column:
    """Return a column that is never null."""
    return Column(name, kind, meaning, nullable=False)


# Columns that several tables share.

LOG_PARTITION: Final = required("log_partition", INT, "partition of __consumer_offsets")
LOG_OFFSET: Final = required(
    "log_offset", LONG, "offset of the record in its log partition"
)
RECORD_COLUMNS: Final = (
    LOG_PARTITION,
    LOG_OFFSET,
    Column("append_ts", TIME, "timestamp of the record; null when it has none"),
    required("base_offset", LONG, "first offset of the batch that held the record"),
    required("size_bytes", INT, "size of the record's key and value"),
)
"""Position, time and size of a record: the first columns of every table of records."""

GROUP_ID: Final = required("group_id", STRING, "ID of the group")
TOPIC: Final = required("topic", STRING, "name of the topic")
PARTITION: Final = required("partition", INT, "partition of the topic")
TOPIC_ID: Final = Column(
    "topic_id", STRING, "ID of the topic as 32 hex digits; null when unknown"
)
MEMBER_ID: Final = required("member_id", STRING, "ID of the member")
INSTANCE_ID: Final = Column(
    "instance_id", STRING, "group.instance.id of a static member"
)
CLIENT_ID: Final = Column("client_id", STRING, "client.id of the member")
CLIENT_HOST: Final = Column("client_host", STRING, "host of the member's client")

PARTITIONS: Final = list_of(struct_of(topic_id=STRING, topic=STRING, partition=INT))
"""A list of topic partitions. Records of consumer groups identify topics by ID, records
of classic groups by name; the other field is null."""
