"""Small lakes made from the rows of a test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.pipeline.lake.lake import File, Lake, TableFiles, Version
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
    tables = {}
    for name, table in TABLES.items():
        path = f"{table.layer.value}/{name}/1.parquet"
        found = [_whole(table, each) for each in rows.get(name, ())]
        lake.storage.make_folder(str(Path(path).parent))
        pq.write_table(pa.Table.from_pylist(found, table.schema), lake.storage.at(path))
        file = File(path, rows=len(found), size_bytes=1, version=1)
        tables[name] = TableFiles((file,), through=1)
    lake.commit(
        Version(number=1, tables=tables, as_of_ts=AS_OF, history_from_ts=HISTORY_FROM)
    )
    return folder


def _whole(table: Any, row: Mapping[str, Any]) -> dict[str, Any]:
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
