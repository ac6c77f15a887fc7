"""Small lakes made from the rows of a test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.manifest import Change, TableState, Version
from coterie.pipeline.lake.writer import TableWriter
from coterie.pipeline.tables.all_tables import TABLES

AS_OF = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
HISTORY_FROM = AS_OF - timedelta(days=3)
CLUSTER = "cluster-1"
Rows = Mapping[str, Iterable[Mapping[str, Any]]]


def ago(**span: float) -> datetime:
    """Return a time before the newest record of a test's lake."""
    return AS_OF - timedelta(**span)


def make_lake(folder: Path, rows: Rows) -> Path:
    """Make a lake with all tables from partial rows.

    Missing values are null, or where null is not allowed 0, "", false or empty.
    """
    lake = Lake.create(folder, "segments:log", CLUSTER)
    commit_rows(
        lake,
        {name: table_of(name, rows.get(name, ())) for name in TABLES},
        as_of_ts=AS_OF,
        history_from_ts=HISTORY_FROM,
    )
    return folder


def table_of(name: str, rows: Iterable[Mapping[str, Any]]) -> Any:
    """Return an Arrow table from partial rows."""
    table = TABLES[name]
    return pa.Table.from_pylist([whole_row(table, each) for each in rows], table.schema)


def commit_rows(lake: Lake, rows: Mapping[str, Any], **facts: Any) -> None:
    """Replace tables by Arrow tables, in one commit that also changes facts of the
    lake."""
    step = lake.next_step()
    changes = []
    for name, table in rows.items():
        writer = TableWriter(lake.storage, TABLES[name], step)
        writer.add(table)
        changes.append(Change(name, writer.close(), lake.files(name)))

    def update(version: Version) -> Version:
        states = {
            name: msgspec.structs.replace(version.of(name), changed=step, through=step)
            for name in rows
        }
        tables: dict[str, TableState] = {**version.tables, **states}
        return msgspec.structs.replace(version, tables=tables, **facts)

    lake.commit(changes, update)


def whole_row(table: Any, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with a value for each column of the table."""
    assert row.keys() <= set(table.schema.names), row.keys()
    empty = {
        each.name: None if each.nullable else _empty(each.type) for each in table.schema
    }
    return {**empty, **row}


def _empty(kind: Any) -> Any:
    if pa.types.is_list(kind):
        return []
    if pa.types.is_timestamp(kind):
        return AS_OF
    if pa.types.is_date(kind):
        return date(2026, 11, 21)
    if pa.types.is_boolean(kind):
        return False
    if pa.types.is_string(kind):
        return ""
    return b"" if pa.types.is_binary(kind) else 0
