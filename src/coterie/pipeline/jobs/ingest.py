"""Ingest the log into the bronze and silver tables, step by step.

A step reads ranges of the log, decodes them, writes Parquet files per table and worker,
and commits a version of the lake with the new files and positions. A killed step leaves
unreferenced files; the next run repeats the step. File names are unique, so a task that
runs twice has no effect on the result.

Rows do not pass through the JVM: Spark only distributes the tasks.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from coterie.errors import CoterieError, LogError
from coterie.pipeline.codec.decode import decode
from coterie.pipeline.gold.settings import LogHead
from coterie.pipeline.lake.delta import folder_of
from coterie.pipeline.lake.faults import describe_fault
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.log_clock import (
    LogClock,
    current_time_us,
    first_time_us,
)
from coterie.pipeline.lake.manifest import Change, DataFile, TableState, Version
from coterie.pipeline.lake.storage import Storage
from coterie.pipeline.lake.writer import TableWriter
from coterie.pipeline.sources.planning import backlog, plan
from coterie.pipeline.sources.source import Head, OffsetRange, Source
from coterie.pipeline.tables.all_tables import TABLES, of_layer
from coterie.pipeline.tables.ingested import (
    LOG_GAPS,
    QUARANTINE,
    RECORDS,
)
from coterie.pipeline.tables.table import Layer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INGESTED_TABLES: Final = tuple(
    each.name for layer in (Layer.BRONZE, Layer.SILVER) for each in of_layer(layer)
)
"""The tables that tasks write."""
_REPORT_SCHEMA: Final = "report binary"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


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

    files: Mapping[str, tuple[DataFile, ...]] = {}
    records: int = 0
    clocks: tuple[LogClock, ...] = ()
    """The times of each range, in the order of the log."""


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
    start_spark: Callable[[], SparkSession],
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
    step, where = lake.next_step(), str(lake.storage)
    tasks = [Task(source, where, step, part) for part in split(ranges, limits.tasks)]
    is_small = sum(backlog(heads, positions).values()) < limits.in_process_below
    ingested = run_tasks(None if is_small else start_spark, tasks)
    clocks = _new_clocks(lake.version, ingested)
    new_heads = _new_heads(lake.version, heads, ranges, clocks)
    if new_heads != lake.version.heads or ingested.files:
        lake.commit(
            changes_of(ingested.files),
            lambda version: _next_version(version, step, new_heads, clocks, ingested),
        )
    return ingested.records if ranges else None


def changes_of(files: Mapping[str, tuple[DataFile, ...]]) -> list[Change]:
    """Return the changes that add files to tables."""
    return [Change(name, added) for name, added in files.items()]


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


def run_tasks(
    start_spark: Callable[[], SparkSession] | None, tasks: Sequence[Task]
) -> IngestedFiles:
    """Run tasks on Spark, or in this process. Raises LogError when a task failed."""
    if start_spark is None or not tasks:
        reports = [run_task(task) for task in tasks]
    else:
        reports = [*_run_on_spark(start_spark(), tasks)]
    errors = [report.error for report in reports if report.error is not None]
    if errors:
        # On a full disk, repeated runs would leave ever more files.
        delete_files(Storage(tasks[0].lake), [report.files for report in reports])
        raise LogError(errors[0])
    return _merge_reports(reports)


def delete_files(
    storage: Storage, written: Iterable[Mapping[str, tuple[DataFile, ...]]]
) -> None:
    """Delete files of tables that no commit will add."""
    for files in written:
        for name, of_table in files.items():
            for file in of_table:
                storage.delete(f"{folder_of(TABLES[name])}/{file.path}")


def _run_on_spark(spark: SparkSession, tasks: Sequence[Task]) -> Iterator[TaskReport]:
    pickled = pa.array([pickle.dumps(task) for task in tasks], pa.binary())
    frame = spark.createDataFrame(pa.table({"task": pickled}))
    for row in frame.mapInArrow(_run_pickled, _REPORT_SCHEMA).collect():
        yield msgspec.json.decode(row.report, type=TaskReport)


def _merge_reports(reports: Iterable[TaskReport]) -> IngestedFiles:
    files: dict[str, tuple[DataFile, ...]] = {}
    clocks: list[LogClock] = []
    records = 0
    for report in reports:
        for name, written in report.files.items():
            files[name] = (*files.get(name, ()), *written)
        records += sum(file.rows for file in report.files.get(RECORDS.name, ()))
        clocks += report.clocks
    clocks.sort(key=lambda each: (each.log_partition, each.from_offset))
    return IngestedFiles(files, records, tuple(clocks))


def _new_clocks(version: Version, ingested: IngestedFiles) -> dict[int, LogClock]:
    """Return the time of each log partition after the ranges were read."""
    clocks = {
        each.log_partition: msgspec.structs.replace(each) for each in version.clocks
    }
    for later in ingested.clocks:
        partition = later.log_partition
        clocks.setdefault(partition, LogClock(log_partition=partition)).add_range(later)
    return clocks


def _new_heads(
    version: Version,
    heads: Mapping[int, Head],
    ranges: Sequence[OffsetRange],
    clocks: Mapping[int, LogClock],
) -> tuple[LogHead, ...]:
    """Return the position in every log partition after the ranges were read."""
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
    return tuple(
        head._replace(off_clock=clocks[partition].off_clock)
        if partition in clocks
        else head
        for partition, head in sorted(by_partition.items())
    )


def _next_version(
    version: Version,
    step: int,
    heads: tuple[LogHead, ...],
    clocks: Mapping[int, LogClock],
    ingested: IngestedFiles,
) -> Version:
    """Return the version after a step."""
    return msgspec.structs.replace(
        version,
        heads=heads,
        moved=step,
        tables=_changed_tables(version, ingested.files, step),
        as_of_ts=_time_of(current_time_us(clocks.values())),
        clocks=tuple(clocks[partition] for partition in sorted(clocks)),
        history_from_ts=_time_of(first_time_us(clocks.values())),
    )


def _time_of(time_us: int | None) -> datetime | None:
    return None if time_us is None else _EPOCH + timedelta(microseconds=time_us)


# Tasks, run by Spark's workers.


@dataclass(frozen=True, slots=True)
class Task:
    """Ranges of the log for one worker."""

    source: Source
    lake: str
    step: int
    """The step that names the files."""
    ranges: tuple[OffsetRange, ...]
    tables: tuple[str, ...] = INGESTED_TABLES
    """The tables to write."""


class TaskReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task, sent to the driver as JSON."""

    files: Mapping[str, tuple[DataFile, ...]] = {}
    """The written files of each table."""
    clocks: tuple[LogClock, ...] = ()
    """The times of each range."""
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
            files.begin_range(part)
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
    except CoterieError as error:
        files.discard()
        return TaskReport(error=str(error))
    except OSError as error:
        files.discard()
        return TaskReport(error=str(describe_fault(error, task.lake) or error))


class _TaskFiles:
    """The files of a task, by table."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._storage = Storage(task.lake)
        self._writers: dict[str, TableWriter] = {}
        self._wall_us = (datetime.now(UTC) - _EPOCH) // timedelta(microseconds=1)
        self._clocks: list[LogClock] = []

    def begin_range(self, part: OffsetRange) -> None:
        """Expect the rows of a range, in the order of the log."""
        self._clocks.append(
            LogClock(log_partition=part.log_partition, from_offset=part.from_offset)
        )

    def add(self, name: str, batch: Any) -> None:
        if not batch.num_rows or name not in self._task.tables:
            return
        if name not in self._writers:
            self._writers[name] = TableWriter(
                self._storage, TABLES[name], self._task.step
            )
        self._writers[name].add(batch)
        if name == RECORDS.name:
            times = batch["append_ts"].cast(pa.int64()).drop_null().to_numpy()
            if len(times):
                self._clocks[-1].add(times, self._wall_us)

    def close(self) -> TaskReport:
        """Finish all files."""
        return TaskReport(
            files={name: writer.close() for name, writer in self._writers.items()},
            clocks=tuple(self._clocks),
        )

    def discard(self) -> None:
        """Delete the files of a failed task."""
        for writer in self._writers.values():
            writer.discard()


def commit_rows(
    lake: Lake, files: Mapping[str, tuple[DataFile, ...]], step: int
) -> None:
    """Add the files of a step to tables, and commit."""

    def update(version: Version) -> Version:
        tables = _changed_tables(version, files, step)
        return msgspec.structs.replace(version, tables=tables)

    lake.commit(changes_of(files), update)


def _changed_tables(
    version: Version, names: Iterable[str], step: int
) -> dict[str, TableState]:
    """Return the tables of a version, some of which a step changed."""
    changed = {
        name: msgspec.structs.replace(version.of(name), changed=step) for name in names
    }
    return {**version.tables, **changed}
