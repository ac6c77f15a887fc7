"""What a worker does with ranges of the log: read, decode, write a file a table.

One pass makes bronze and silver, and no row goes to the Java side. Files have names of
their own, so a task that is run twice, or killed, leaves nothing that is seen.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import CoterieError
from coterie.pipeline.codec.decode import decode
from coterie.pipeline.lake.parquet import open_writer
from coterie.pipeline.lake.storage import Storage
from coterie.pipeline.sources.source import OffsetRange, Source
from coterie.pipeline.tables.all_tables import TABLES, of_layer
from coterie.pipeline.tables.log_gaps import LOG_GAPS
from coterie.pipeline.tables.quarantine import QUARANTINE
from coterie.pipeline.tables.records import RECORDS
from coterie.pipeline.tables.table import Layer

LANDED: Final = tuple(
    each.name for layer in (Layer.BRONZE, Layer.SILVER) for each in of_layer(layer)
)
"""The tables that workers write."""
REPORT_SCHEMA: Final = "report binary"
_ROW_GROUP_ROWS: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Task:
    """Ranges for one worker, which become one file of each table."""

    source: Source
    lake: str
    version: int
    """The one that is to show the files."""
    ranges: tuple[OffsetRange, ...]
    tables: tuple[str, ...] = LANDED
    """Those that are written."""


class Written(msgspec.Struct, frozen=True):
    """A file."""

    table: str
    path: str
    rows: int
    size_bytes: int
    log_partitions: tuple[int, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a task."""

    files: tuple[Written, ...] = ()
    first_us: int | None = None
    """The oldest `append_ts`."""
    last_us: int | None = None
    error: str | None = None
    """Why it could not be done, for people; then nothing else is told."""


def folder_of(table: str) -> str:
    """Where a table's files are, below the lake's directory."""
    return f"{TABLES[table].layer.value}/{table}"


def work(batches: Iterator[Any]) -> Iterator[Any]:
    """For `mapInArrow`: rows are pickled tasks; out come reports, as JSON."""
    for batch in batches:
        reports = [
            msgspec.json.encode(do(pickle.loads(task)))  # noqa: S301 - the driver's own
            for task in batch.column("task").to_pylist()
        ]
        yield pa.record_batch({"report": pa.array(reports, pa.binary())})


def do(task: Task) -> Report:
    """Do one task."""
    files = _Files(task)
    try:
        for part in task.ranges:
            _land(task, part, files)
        return files.close()
    except (CoterieError, OSError) as error:
        files.abandon()
        return Report(error=str(error))


def _land(task: Task, part: OffsetRange, files: _Files) -> None:
    upto = part.from_offset
    needs_silver = task.tables != (RECORDS.name,)
    for rows in task.source.read(part):
        files.add(RECORDS.name, rows.records)
        files.add(QUARANTINE.name, rows.faults)
        files.add(LOG_GAPS.name, rows.gaps)
        if needs_silver:
            for name, batch in decode(rows.records).items():
                files.add(name, batch)
        upto = rows.next_offset
    assert upto == part.until_offset, f"{part}: read to {upto}"


@dataclass
class _Table:
    """A file that is being written."""

    path: str
    writer: Any
    waiting: list[Any] = field(default_factory=list)
    rows: int = 0
    rows_waiting: int = 0
    log_partitions: set[int] = field(default_factory=set)

    def flush(self) -> None:
        """Write a row group."""
        if self.waiting:
            whole = pa.Table.from_batches(self.waiting)
            self.writer.write_table(whole, row_group_size=_ROW_GROUP_ROWS)
        self.waiting, self.rows_waiting = [], 0


class _Files:
    """The files of a task, each opened with its first row."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._storage = Storage(task.lake)
        self._tables: dict[str, _Table] = {}
        self._times: list[int] = []

    def add(self, name: str, batch: Any) -> None:
        """Rows of a table."""
        if not batch.num_rows or name not in self._task.tables:
            return
        table = self._tables.get(name) or self._open(name)
        table.waiting.append(batch)
        table.rows += batch.num_rows
        table.rows_waiting += batch.num_rows
        table.log_partitions.update(pc.unique(batch["log_partition"]).to_pylist())
        if name == RECORDS.name:
            self._note_times(batch)
        if table.rows_waiting >= _ROW_GROUP_ROWS:
            table.flush()

    def close(self) -> Report:
        """Finish all files."""
        written = []
        for name, table in self._tables.items():
            table.flush()
            table.writer.close()
            info = self._storage.files.get_file_info(self._storage.at(table.path))
            partitions = tuple(sorted(table.log_partitions))
            about = Written(name, table.path, table.rows, info.size, partitions)
            written.append(about)
        return Report(
            files=tuple(written),
            first_us=min(self._times, default=None),
            last_us=max(self._times, default=None),
        )

    def abandon(self) -> None:
        """Take away what was begun."""
        for table in self._tables.values():
            table.writer.close()
            self._storage.delete(table.path)

    def _open(self, name: str) -> _Table:
        path = f"{folder_of(name)}/{self._task.version:06}-{uuid4().hex[:12]}.parquet"
        writer = open_writer(self._storage, path, TABLES[name])
        self._tables[name] = table = _Table(path, writer)
        return table

    def _note_times(self, batch: Any) -> None:
        bounds = pc.min_max(batch["append_ts"].cast(pa.int64()))
        self._times += [each for each in bounds.as_py().values() if each is not None]


def pickled(tasks: Iterable[Task]) -> Any:
    """Tasks as an Arrow table, for a DataFrame."""
    rows = [pickle.dumps(task) for task in tasks]
    return pa.table({"task": pa.array(rows, pa.binary())})
