"""Ingest the log into the bronze and silver tables, step by step.

A step reads ranges of the log, decodes them, writes one Parquet file per table and
worker, and commits a version of the lake with the new files and positions. A killed
step leaves unreferenced files; the next run repeats the step. File names are unique, so
a task that runs twice has no effect on the result.

Rows do not pass through the JVM: Spark only distributes the tasks.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import CoterieError, LogError
from coterie.pipeline.codec.decode import decode
from coterie.pipeline.gold.settings import LogHead
from coterie.pipeline.lake.lake import (
    File,
    Lake,
    TableFiles,
    Version,
    folder_of,
    new_file_path,
)
from coterie.pipeline.lake.storage import Storage, open_parquet_writer
from coterie.pipeline.sources.planning import backlog, plan
from coterie.pipeline.sources.source import Head, OffsetRange, Source
from coterie.pipeline.tables.all_tables import TABLES, of_layer
from coterie.pipeline.tables.bronze import RECORDS
from coterie.pipeline.tables.gold_offsets import PARTITION_END_SAMPLES
from coterie.pipeline.tables.silver import LOG_GAPS, QUARANTINE
from coterie.pipeline.tables.table import Layer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INGESTED_TABLES: Final = tuple(
    each.name for layer in (Layer.BRONZE, Layer.SILVER) for each in of_layer(layer)
)
"""The tables that tasks write."""
_REPORT_SCHEMA: Final = "report binary"
_ROW_GROUP_ROWS: Final = 256 * 1024
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SAMPLES: Final = PARTITION_END_SAMPLES.name


# Steps, run by the driver.


class StepLimits(NamedTuple):
    """The size of a step, and its number of tasks."""

    max_records: int = 2_000_000
    """Approximate. A killed step is repeated, so at most this much work is lost."""
    tasks: int = 2
    in_process_below: int = 0
    """A step of fewer records runs in this process: distributing it takes longer."""


class IngestedFiles(msgspec.Struct, frozen=True):
    """The files that the tasks of a step wrote, by table."""

    files: Mapping[str, tuple[File, ...]] = {}
    records: int = 0
    first_ts: datetime | None = None
    last_ts: datetime | None = None


def read_heads(lake: Lake, source: Source) -> Mapping[int, Head]:
    """Return the current ends of the log's partitions.

    Raises LogError when a partition ends before the lake's position: the source is not
    the log that was ingested.
    """
    positions = lake.version.positions
    heads = source.heads(positions)
    for partition, head in heads.items():
        if head.end_offset < positions.get(partition, 0):
            raise LogError(
                f"log partition {partition} of {source.describe()} ends at offset"
                f" {head.end_offset}, but the lake was read up to offset"
                f" {positions[partition]}: the log was created again or is another"
                " one; read it into another directory"
            )
    return heads


def ingest_step(
    spark: SparkSession,
    lake: Lake,
    source: Source,
    heads: Mapping[int, Head],
    limits: StepLimits,
) -> int | None:
    """Read the next ranges and commit them.

    Returns the number of new records; None if there are none. Raises LogError or
    ClientError when the source cannot be read, and LogError on a concurrent commit.
    """
    positions = lake.version.positions
    ranges = plan(heads, positions, max_records=limits.max_records)
    make_folders(lake)
    number = lake.version.number + 1
    where = str(lake.storage)
    tasks = [Task(source, where, number, part) for part in split(ranges, limits.tasks)]
    is_small = sum(backlog(heads, positions).values()) < limits.in_process_below
    ingested = run_tasks(None if is_small else spark, tasks)
    version = _next_version(lake.version, heads, ranges, ingested)
    if version is not None:
        lake.commit(version)
    return ingested.records if ranges else None


def make_folders(lake: Lake) -> None:
    """Create the folders of the tables that tasks write."""
    for name in INGESTED_TABLES:
        lake.storage.make_folder(folder_of(name))


def split(ranges: Sequence[OffsetRange], tasks: int) -> list[tuple[OffsetRange, ...]]:
    """Split ranges, in order, into `tasks` parts of about equally many offsets."""
    total = sum(each.until_offset - each.from_offset for each in ranges)
    parts: list[list[OffsetRange]] = [[]] if ranges else []
    done = 0
    for each in ranges:
        if parts[-1] and done * tasks >= total * len(parts):
            parts.append([])
        parts[-1].append(each)
        done += each.until_offset - each.from_offset
    return [tuple(part) for part in parts]


def run_tasks(spark: SparkSession | None, tasks: Sequence[Task]) -> IngestedFiles:
    """Run tasks on Spark, or in this process. Raises LogError when a task failed."""
    if spark is None:
        return _merge_reports(map(run_task, tasks))
    return _merge_reports(_run_on_spark(spark, tasks))


def _run_on_spark(spark: SparkSession, tasks: Sequence[Task]) -> Iterator[TaskReport]:
    if not tasks:
        return
    pickled = pa.array([pickle.dumps(task) for task in tasks], pa.binary())
    frame = spark.createDataFrame(pa.table({"task": pickled}))
    for row in frame.mapInArrow(_run_pickled, _REPORT_SCHEMA).collect():
        yield msgspec.json.decode(row.report, type=TaskReport)


def _merge_reports(reports: Iterable[TaskReport]) -> IngestedFiles:
    files: dict[str, tuple[File, ...]] = {}
    times: list[int] = []
    records = 0
    for report in reports:
        if report.error is not None:
            raise LogError(report.error)
        for name, file in report.files.items():
            files[name] = (*files.get(name, ()), file)
            if name == RECORDS.name:
                records += file.rows
        times += [t for t in (report.first_us, report.last_us) if t is not None]
    if not times:
        return IngestedFiles(files, records)
    first, last = (
        _EPOCH + timedelta(microseconds=each) for each in (min(times), max(times))
    )
    return IngestedFiles(files, records, first, last)


def _next_version(
    version: Version,
    heads: Mapping[int, Head],
    ranges: Sequence[OffsetRange],
    ingested: IngestedFiles,
) -> Version | None:
    """Return the version after a step; None when nothing changed."""
    positions = {**dict.fromkeys(heads, 0), **version.positions}
    for each in ranges:
        positions[each.log_partition] = each.until_offset
    by_partition = {each.log_partition: each for each in version.heads} | {
        partition: LogHead(
            partition,
            positions[partition],
            head.start_offset,
            head.stable_offset,
            head.end_offset,
        )
        for partition, head in heads.items()
    }
    new_heads = tuple(by_partition[partition] for partition in sorted(by_partition))
    if new_heads == version.heads and not ingested.files:
        return None
    number = version.number + 1
    tables = dict(version.tables)
    for name, files in ingested.files.items():
        tables[name] = TableFiles((*version.of(name).files, *files), changed=number)
    as_of = [t for t in (version.as_of_ts, ingested.last_ts) if t is not None]
    since = [t for t in (version.history_from_ts, ingested.first_ts) if t is not None]
    return msgspec.structs.replace(
        version,
        number=number,
        heads=new_heads,
        moved=number,
        tables=tables,
        as_of_ts=max(as_of, default=None),
        history_from_ts=min(since, default=None),
    )


# Tasks, run by Spark's workers.


@dataclass(frozen=True, slots=True)
class Task:
    """Ranges of the log for one worker, which writes one file per table."""

    source: Source
    lake: str
    version: int
    """The version that will name the files."""
    ranges: tuple[OffsetRange, ...]
    tables: tuple[str, ...] = INGESTED_TABLES
    """The tables to write."""


class TaskReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task, sent to the driver as JSON."""

    files: Mapping[str, File] = {}
    """The written file of each table."""
    first_us: int | None = None
    """The oldest `append_ts`, in microseconds since 1970."""
    last_us: int | None = None
    """The newest one."""
    error: str | None = None
    """The reason of a failure; the other fields are then empty."""


def _run_pickled(batches: Iterator[Any]) -> Iterator[Any]:
    """Run pickled tasks; the function that `mapInArrow` calls on workers."""
    for batch in batches:
        reports = [
            msgspec.json.encode(run_task(pickle.loads(task)))  # noqa: S301 - from the driver
            for task in batch.column("task").to_pylist()
        ]
        yield pa.record_batch({"report": pa.array(reports, pa.binary())})


def run_task(task: Task) -> TaskReport:
    """Read, decode and write the ranges of a task."""
    files = _TaskFiles(task)
    try:
        for part in task.ranges:
            next_offset = part.from_offset
            for rows in task.source.read(part):
                files.add(RECORDS.name, rows.records)
                files.add(QUARANTINE.name, rows.faults)
                files.add(LOG_GAPS.name, rows.gaps)
                if task.tables != (RECORDS.name,):
                    for name, batch in decode(rows.records).items():
                        files.add(name, batch)
                next_offset = rows.next_offset
            assert next_offset == part.until_offset, f"{part}: read to {next_offset}"
        return files.close()
    except (CoterieError, OSError) as error:
        files.discard()
        return TaskReport(error=str(error))


@dataclass
class _OpenFile:
    """A Parquet file that is being written."""

    path: str
    writer: Any
    pending: list[Any] = field(default_factory=list)
    rows: int = 0
    pending_rows: int = 0
    log_partitions: set[int] = field(default_factory=set)

    def flush(self) -> None:
        """Write the pending rows as a row group."""
        if self.pending:
            whole = pa.Table.from_batches(self.pending)
            self.writer.write_table(whole, row_group_size=_ROW_GROUP_ROWS)
        self.pending, self.pending_rows = [], 0


class _TaskFiles:
    """The files of a task by table; each is opened with its first row."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._storage = Storage(task.lake)
        self._files: dict[str, _OpenFile] = {}
        self._times: list[int] = []

    def add(self, name: str, batch: Any) -> None:
        if not batch.num_rows or name not in self._task.tables:
            return
        file = self._files.get(name)
        if file is None:
            path = new_file_path(name, self._task.version)
            writer = open_parquet_writer(self._storage, path, TABLES[name])
            self._files[name] = file = _OpenFile(path, writer)
        file.pending.append(batch)
        file.rows += batch.num_rows
        file.pending_rows += batch.num_rows
        file.log_partitions.update(pc.unique(batch["log_partition"]).to_pylist())
        if name == RECORDS.name:
            bounds = pc.min_max(batch["append_ts"].cast(pa.int64())).as_py()
            self._times += [each for each in bounds.values() if each is not None]
        if file.pending_rows >= _ROW_GROUP_ROWS:
            file.flush()

    def close(self) -> TaskReport:
        """Finish all files."""
        written = {}
        for name, file in self._files.items():
            file.flush()
            file.writer.close()
            size, partitions = (
                self._storage.size(file.path),
                sorted(file.log_partitions),
            )
            written[name] = File(
                file.path, file.rows, size, self._task.version, tuple(partitions)
            )
        return TaskReport(
            files=written,
            first_us=min(self._times, default=None),
            last_us=max(self._times, default=None),
        )

    def discard(self) -> None:
        """Delete the files of a failed task."""
        for file in self._files.values():
            file.writer.close()
            self._storage.delete(file.path)
