"""A reader of tables that are in memory."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa

from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.manifest import Version
from coterie.pipeline.lake.query import TableReader
from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.lakes import AS_OF, HISTORY_FROM, Rows, whole_row


class _MemoryLake:
    """The part of a lake that a reader uses."""

    def __init__(self, rows: Rows) -> None:
        self.version = Version(number=1, as_of_ts=AS_OF, history_from_ts=HISTORY_FROM)
        self._tables = {
            name: pa.Table.from_pylist(
                [whole_row(table, each) for each in rows.get(name, ())], table.schema
            )
            for name, table in TABLES.items()
        }

    def has(self, name: str) -> bool:
        return name in self._tables

    def rows(self, name: str) -> int:
        return len(self._tables[name])

    def read(self, name: str, columns: Any = None, filters: Any = None) -> pa.Table:
        table = self._tables[name]
        table = table if filters is None else table.filter(filters)
        return table if columns is None else table.select(list(columns))


def memory_reader(rows: Rows) -> TableReader:
    """Return a reader of a lake with these partial rows, completed as by make_lake."""
    return TableReader(cast(Lake, _MemoryLake(rows)))
