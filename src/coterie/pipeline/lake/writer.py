"""Write rows of a table as Parquet files that a commit then adds to it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coterie.pipeline.lake.delta import NO_DAY, describe_file, folder_of
from coterie.pipeline.lake.manifest import DataFile
from coterie.pipeline.lake.storage import Storage
from coterie.pipeline.tables.table import DAY, Table

_ROW_GROUP_ROWS: Final = 256 * 1024
_OPEN_FILES: Final = 16
"""A log of many days is read in the order of time, so few days are open at once."""
# Offsets and times increase, so their differences are small: with delta encoding they
# take 0.4 of the space and 0.6 of the time.
_INCREASING: Final = frozenset(
    {
        "log_offset",
        "base_offset",
        "append_ts",
        "committed_offset",
        "commit_ts",
        "sample_ts",
        "high_watermark",
    }
)
# Record values rarely repeat; every other column is smaller with a dictionary.
_UNIQUE: Final = "value"


def new_path(table: Table, step: int, day: str | None = None) -> str:
    """Return a unique path of a file, relative to the table's folder."""
    name = f"{step:08}-{uuid4().hex[:12]}.parquet"
    return f"{DAY}={day or NO_DAY}/{name}" if table.day_of else name


class TableWriter:
    """A writer of new files of one table, one or more for each day of its rows.

    Each file is opened with its first row. The files are part of the table after a
    commit that adds them.
    """

    def __init__(self, storage: Storage, table: Table, step: int) -> None:
        self.rows = 0
        self._storage = storage
        self._table = table
        self._step = step
        self._open: dict[str | None, _OpenFile] = {}
        self._closed: list[str] = []

    def add(self, rows: Any) -> None:
        """Append rows, an Arrow table or record batch with the columns of the table's
        files."""
        for day, part in self._by_day(rows):
            file = self._open.pop(day, None) or self._new_file(day)
            self._open[day] = file  # the last one is the most recently used
            file.add(part)
            if len(self._open) > _OPEN_FILES:
                self._close(next(iter(self._open)))
        self.rows += rows.num_rows

    def close(self) -> tuple[DataFile, ...]:
        """Finish all files and return them with their statistics."""
        for day in list(self._open):
            self._close(day)
        return tuple(
            describe_file(self._storage, self._table, path) for path in self._closed
        )

    def discard(self) -> None:
        """Delete all files, after an error."""
        for day in list(self._open):
            self._close(day)
        for path in self._closed:
            self._storage.delete(f"{folder_of(self._table)}/{path}")

    def _by_day(self, rows: Any) -> Iterator[tuple[str | None, Any]]:
        if not rows.num_rows:
            return
        if self._table.day_of is None:
            yield None, rows
            return
        days = rows[self._table.day_of].cast(pa.date32())
        unique: list[date | None] = pc.unique(days).to_pylist()
        for day in unique:
            text = None if day is None else day.isoformat()
            if len(unique) == 1:
                yield text, rows
            else:
                mask = pc.is_null(days) if day is None else pc.equal(days, day)
                yield text, rows.filter(mask)

    def _new_file(self, day: str | None) -> _OpenFile:
        path = new_path(self._table, self._step, day)
        whole = f"{folder_of(self._table)}/{path}"
        self._storage.make_folder(whole.rpartition("/")[0])
        return _OpenFile(path, _parquet_writer(self._storage, whole, self._table))

    def _close(self, day: str | None) -> None:
        file = self._open.pop(day)
        file.close()
        self._closed.append(file.path)


class _OpenFile:
    """A Parquet file that is being written, and the rows of its next row group."""

    def __init__(self, path: str, writer: Any) -> None:
        self.path = path
        self._writer = writer
        self._pending: list[Any] = []
        self._pending_rows = 0

    def add(self, rows: Any) -> None:
        self._pending.extend(
            rows.to_batches() if isinstance(rows, pa.Table) else [rows]
        )
        self._pending_rows += rows.num_rows
        if self._pending_rows >= _ROW_GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._pending:
            whole = pa.Table.from_batches(self._pending)
            self._writer.write_table(
                whole.cast(self._writer.schema), row_group_size=_ROW_GROUP_ROWS
            )
        self._pending, self._pending_rows = [], 0


def _parquet_writer(storage: Storage, path: str, table: Table) -> pq.ParquetWriter:
    names = table.schema.names
    return pq.ParquetWriter(
        storage.at(path),
        table.file_schema,
        filesystem=storage.filesystem,
        compression="zstd",
        use_dictionary=[
            name for name in names if name not in _INCREASING and name != _UNIQUE
        ],
        column_encoding={
            name: "DELTA_BINARY_PACKED" for name in names if name in _INCREASING
        },
    )
