"""Write rows of a table as Parquet files that a commit then adds to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.pipeline.lake.delta import NO_DAY, describe_file, folder_of
from coterie.pipeline.lake.manifest import DataFile
from coterie.pipeline.lake.storage import Storage
from coterie.pipeline.tables.table import DAY, Table

_ROW_GROUP_ROWS: Final = 256 * 1024
_PENDING_ROWS: Final = 512 * 1024
"""A log partition has all days, so a file is not complete before the last partition was
read. Rows wait in memory, so that a day is one file with few row groups."""
_OPEN_FILES: Final = 64
_RUNS_MAX: Final = 256
"""Rows with more changes of the day than this are sorted by day."""
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
        self._days: dict[str | None, _DayRows] = {}
        self._pending_rows = 0
        self._open: dict[str | None, _OpenFile] = {}
        self._closed: list[str] = []

    def add(self, rows: Any) -> None:
        """Append rows, an Arrow table or record batch with the columns of the table's
        files."""
        for day, part in self._by_day(rows):
            pending = self._days.setdefault(day, _DayRows([]))
            pending.parts.append(part)
            pending.rows += part.num_rows
            self._pending_rows += part.num_rows
            if pending.rows >= _ROW_GROUP_ROWS:
                self._write(day)
        if self._pending_rows > _PENDING_ROWS:
            for day in sorted(self._days, key=lambda each: -self._days[each].rows):
                self._write(day)
                if self._pending_rows <= _PENDING_ROWS // 2:
                    break
        self.rows += rows.num_rows

    def close(self) -> tuple[DataFile, ...]:
        """Finish all files and return them with their statistics."""
        for day in [*self._days]:
            self._write(day)
        for day in [*self._open]:
            self._close(day)
        return tuple(
            describe_file(self._storage, self._table, path) for path in self._closed
        )

    def discard(self) -> None:
        """Delete all files, after an error."""
        for file in self._open.values():
            # The end of a file cannot be written to a full disk.
            with suppress(OSError):
                file.writer.close()
        for path in (*self._closed, *(file.path for file in self._open.values())):
            self._storage.delete(f"{folder_of(self._table)}/{path}")

    def _by_day(self, rows: Any) -> Iterator[tuple[str | None, Any]]:
        """Yield the rows of consecutive times as slices, which copy nothing."""
        if not rows.num_rows:
            return
        if self._table.day_of is None:
            yield None, rows
            return
        times = rows[self._table.day_of]
        days = times.cast(pa.date32()).to_numpy(zero_copy_only=False)
        begins = _run_begins(days)
        if len(begins) > _RUNS_MAX:
            order = np.argsort(days, kind="stable")
            rows, days = rows.take(pa.array(order)), days[order]
            begins = _run_begins(days)
        edges = [*begins.tolist(), rows.num_rows]
        for day, (begin, end) in zip(days[begins], pairwise(edges), strict=True):
            text = None if np.isnat(day) else str(day)
            yield text, rows.slice(begin, end - begin)

    def _write(self, day: str | None) -> None:
        """Write the pending rows of a day as a row group."""
        pending = self._days.pop(day)
        self._pending_rows -= pending.rows
        file = self._open.pop(day, None) or self._new_file(day)
        self._open[day] = file  # the last one is the most recently used
        tables = [
            each if isinstance(each, pa.Table) else pa.Table.from_batches([each])
            for each in pending.parts
        ]
        whole = pa.concat_tables(tables).cast(file.writer.schema)
        file.writer.write_table(whole, row_group_size=_ROW_GROUP_ROWS)
        if len(self._open) > _OPEN_FILES:
            self._close(next(iter(self._open)))

    def _new_file(self, day: str | None) -> _OpenFile:
        path = new_path(self._table, self._step, day)
        whole = f"{folder_of(self._table)}/{path}"
        self._storage.make_folder(whole.rpartition("/")[0])
        try:
            return _OpenFile(path, _parquet_writer(self._storage, whole, self._table))
        except OSError:
            self._storage.delete(whole)
            raise

    def _close(self, day: str | None) -> None:
        file = self._open[day]
        file.writer.close()
        del self._open[day]
        self._closed.append(file.path)


@dataclass(slots=True)
class _DayRows:
    """The rows of a day that are not written yet."""

    parts: list[Any]
    rows: int = 0


class _OpenFile(NamedTuple):
    """A Parquet file that is being written."""

    path: str
    writer: pq.ParquetWriter


def _run_begins(days: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """Return the indexes at which the day changes."""
    numbers = days.view(np.int64)  # NaT differs from itself, its number does not
    return np.concatenate(([0], np.flatnonzero(np.diff(numbers)) + 1))


def _parquet_writer(storage: Storage, path: str, table: Table) -> pq.ParquetWriter:
    names = table.schema.names
    return pq.ParquetWriter(
        storage.at(path),
        table.file_schema,
        filesystem=storage.filesystem,
        compression="zstd",
        write_page_checksum=True,
        use_dictionary=[
            name for name in names if name not in _INCREASING and name != _UNIQUE
        ],
        column_encoding={
            name: "DELTA_BINARY_PACKED" for name in names if name in _INCREASING
        },
    )
