"""From the log into bronze and silver: one step reads, writes files, and shows them.

A step is all or nothing: its files and the positions after it become part of one
version of the lake. Killed before, it has not happened, and the next run begins where
it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import msgspec
import pyarrow as pa

from coterie.errors import LogError
from coterie.pipeline.gold.settings import LogHead
from coterie.pipeline.jobs.worker import (
    LANDED,
    REPORT_SCHEMA,
    Report,
    Task,
    do,
    folder_of,
    pickled,
    work,
)
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.parquet import write
from coterie.pipeline.lake.version import File, TableFiles, Version
from coterie.pipeline.sources.planning import backlog, plan
from coterie.pipeline.sources.source import Head, OffsetRange, Source
from coterie.pipeline.tables.partition_end_samples import PARTITION_END_SAMPLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SAMPLES: Final = PARTITION_END_SAMPLES.name


def look(lake: Lake, source: Source) -> Mapping[int, Head]:
    """How far the log goes now. Raises LogError when it is not the one that was read:
    it ends before what was."""
    positions = lake.version.positions
    heads = source.heads(positions)
    for partition, head in heads.items():
        if head.end_offset < positions.get(partition, 0):
            raise LogError(
                f"partition {partition} of {source.describe()} ends at"
                f" {head.end_offset}, and was read to {positions[partition]} before: it"
                " was made anew or is another log; read it into another directory"
            )
    return heads


class Step(NamedTuple):
    """How much is done at once, and by whom."""

    max_records: int = 2_000_000
    """About so many: that much is done again after a kill."""
    tasks: int = 2
    """How many workers share it."""
    alone_below: int = 0
    """A step of fewer records is done in this process: asking workers takes longer."""


def step(
    spark: SparkSession,
    lake: Lake,
    source: Source,
    heads: Mapping[int, Head],
    how: Step,
) -> int | None:
    """Read what comes next and commit it. How many records that were; None when there
    was nothing to read.

    Raises LogError or ClientError when the source does, and LogError when another run
    writes to the lake.
    """
    positions = lake.version.positions
    ranges = plan(heads, positions, max_records=how.max_records)
    for name in LANDED:
        lake.storage.make(folder_of(name))
    number = lake.version.number + 1
    where = str(lake.storage)
    tasks = [Task(source, where, number, some) for some in divided(ranges, how.tasks)]
    if sum(backlog(heads, positions).values()) < how.alone_below:
        landed = gathered(map(do, tasks), number)
    else:
        landed = gathered(done_by_workers(spark, tasks), number)
    version = _next(lake.version, heads, ranges, landed)
    if version is not None:
        lake.commit(version)
    return landed.records if ranges else None


def done_by_workers(spark: SparkSession, tasks: Sequence[Task]) -> Iterator[Report]:
    """Let Spark do tasks."""
    if not tasks:
        return
    frame = spark.createDataFrame(pickled(tasks)).mapInArrow(work, REPORT_SCHEMA)
    for row in frame.collect():
        yield msgspec.json.decode(row.report, type=Report)


class Landed(msgspec.Struct, frozen=True):
    """What tasks wrote."""

    files: Mapping[str, tuple[File, ...]] = {}
    records: int = 0
    first_ts: datetime | None = None
    last_ts: datetime | None = None


def divided(ranges: Sequence[OffsetRange], tasks: int) -> list[tuple[OffsetRange, ...]]:
    """Ranges in order, in so many parts with about as many offsets each."""
    total = sum(each.until_offset - each.from_offset for each in ranges)
    parts: list[list[OffsetRange]] = [[]] if ranges else []
    done = 0
    for each in ranges:
        if parts[-1] and done * tasks >= total * len(parts):
            parts.append([])
        parts[-1].append(each)
        done += each.until_offset - each.from_offset
    return [tuple(part) for part in parts]


def gathered(reports: Iterable[Report], number: int) -> Landed:
    """The files of all reports. Raises LogError when a task failed."""
    files: dict[str, tuple[File, ...]] = {}
    times: list[int] = []
    records = 0
    for report in reports:
        if report.error is not None:
            raise LogError(report.error)
        for each in report.files:
            file = File(
                each.path, each.rows, each.size_bytes, number, each.log_partitions
            )
            files[each.table] = (*files.get(each.table, ()), file)
        records += sum(each.rows for each in report.files if each.table == LANDED[0])
        times += [t for t in (report.first_us, report.last_us) if t is not None]
    first, last = min(times, default=None), max(times, default=None)
    return Landed(files, records, _time(first), _time(last))


def _time(since_us: int | None) -> datetime | None:
    return None if since_us is None else _EPOCH + timedelta(microseconds=since_us)


def _next(
    version: Version,
    heads: Mapping[int, Head],
    ranges: Sequence[OffsetRange],
    landed: Landed,
) -> Version | None:
    """The version after it; None when nothing is new."""
    positions = {**dict.fromkeys(heads, 0), **version.positions}
    for each in ranges:
        positions[each.log_partition] = each.until_offset
    known = {each.log_partition: each for each in version.heads} | {
        partition: LogHead(partition, positions[partition], *head[:3])
        for partition, head in heads.items()
    }
    told = tuple(known[partition] for partition in sorted(known))
    if told == version.heads and not landed.files:
        return None
    number = version.number + 1
    tables = dict(version.tables)
    for name, files in landed.files.items():
        tables[name] = TableFiles((*version.of(name).files, *files), changed=number)
    return msgspec.structs.replace(
        version,
        number=number,
        heads=told,
        moved=number,
        tables=tables,
        as_of_ts=_of(max, version.as_of_ts, landed.last_ts),
        history_from_ts=_of(min, version.history_from_ts, landed.first_ts),
    )


def _of(choose: Any, *times: datetime | None) -> datetime | None:
    known = [each for each in times if each is not None]
    return choose(known) if known else None


def add_samples(lake: Lake, samples: Any) -> int:
    """Append samples of the ends of partitions, an Arrow table, and commit. How many
    were not there before."""
    fresh = _unknown(lake, samples)
    if not fresh.num_rows:
        return 0
    number = lake.version.number + 1
    path = f"{folder_of(_SAMPLES)}/{number:06}-{uuid4().hex[:12]}.parquet"
    lake.storage.make(folder_of(_SAMPLES))
    size = write(lake.storage, path, PARTITION_END_SAMPLES, fresh)
    file = File(path, fresh.num_rows, size, number)
    present = lake.version.of(_SAMPLES)
    table = TableFiles((*present.files, file), changed=number)
    tables = {**lake.version.tables, _SAMPLES: table}
    lake.commit(msgspec.structs.replace(lake.version, number=number, tables=tables))
    return int(fresh.num_rows)


def _unknown(lake: Lake, samples: Any) -> Any:
    """Those with keys that are not there, each once."""
    key = list(PARTITION_END_SAMPLES.key)
    known = lake.read(_SAMPLES, key)
    seen, keep = set(_rows(known, key)), []
    for index, row in enumerate(_rows(samples, key)):
        if row not in seen:
            seen.add(row)
            keep.append(index)
    chosen = samples.take(pa.array(keep, pa.int64()))
    return chosen.cast(PARTITION_END_SAMPLES.schema)


def _rows(table: Any, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Columns as tuples; times as numbers: Python's have no need to be made."""
    columns = (table[name] for name in names)
    plain = (
        each.cast(pa.int64()) if pa.types.is_timestamp(each.type) else each
        for each in columns
    )
    return zip(*(each.to_pylist() for each in plain), strict=True)
