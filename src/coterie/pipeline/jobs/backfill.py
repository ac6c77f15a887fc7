"""Rebuild the silver and gold tables from the bronze records of a lake.

A rebuild is needed after an update of Coterie that decodes or builds tables
differently, and to verify the results of incremental runs. Bronze has every record that
was read, including records that compaction has since removed from the log. Rows that
bronze does not have are kept: log gaps, quarantined bytes that were no batch, and
samples of partition ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from coterie.pipeline.jobs.ingest import INGESTED_TABLES, Task, run_tasks, split
from coterie.pipeline.jobs.refresh import is_kept, refresh
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.manifest import Change, DataFile, TableState, Version
from coterie.pipeline.lake.writer import TableWriter
from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.source import Head, OffsetRange, Rows
from coterie.pipeline.tables.ingested import LOG_GAPS, QUARANTINE, RECORDS

if TYPE_CHECKING:
    from coterie.pipeline.jobs.run import Job

_KEPT: Final = (RECORDS.name, LOG_GAPS.name)
"""Ingested tables that a backfill does not rebuild."""
_BATCH_ROWS: Final = 128 * 1024


@dataclass(frozen=True)
class BronzeSource:
    """A `Source` that reads the records of a lake."""

    where: str

    def describe(self) -> str:
        """Return the name of the source."""
        return f"bronze:{self.where}"

    def check(self) -> None:
        """Check that the lake exists. Raises SettingError."""
        Lake.open(self.where)

    def heads(self, since: Mapping[int, int] | None = None) -> Mapping[int, Head]:
        """Return the offsets that the lake has read; `since` is ignored."""
        heads = Lake.open(self.where).version.heads
        return {
            each.log_partition: Head(0, each.next_offset, each.next_offset)
            for each in heads
        }

    def read(self, part: OffsetRange) -> Iterator[Rows]:
        """Return the rows of a range in order of offset."""
        offset = ds.field("log_offset")
        rows = Lake.open(self.where).read(
            RECORDS.name,
            filters=(ds.field("log_partition") == part.log_partition)
            & (offset >= part.from_offset)
            & (offset < part.until_offset),
        )
        for batch in _ordered_batches(rows):
            next_offset = batch["log_offset"][batch.num_rows - 1].as_py() + 1
            yield Rows(batch, _empty(QUARANTINE), _empty(LOG_GAPS), next_offset)
        # The records may end before the range does.
        yield Rows(
            _empty(RECORDS), _empty(QUARANTINE), _empty(LOG_GAPS), part.until_offset
        )


def backfill(job: Job) -> tuple[str, ...]:
    """Rebuild silver and gold in two commits; return the names of the rebuilt gold
    tables.

    Raises LogError on a concurrent commit.
    """
    lake, source = job.lake, BronzeSource(str(job.lake.storage))
    step, where = lake.next_step(), str(lake.storage)
    names = tuple(name for name in INGESTED_TABLES if name not in _KEPT)
    ranges = plan(source.heads(), {})
    tasks = [
        Task(source, where, step, part, names)
        for part in split(ranges, job.limits.tasks)
    ]
    is_small = lake.rows(RECORDS.name) < job.limits.in_process_below
    ingested = run_tasks(None if is_small else job.start_spark, tasks)
    files = dict(ingested.files)
    # Bronze does not have the quarantined bytes that are not records.
    quarantined = _copy_quarantined_bytes(lake, step)
    files[QUARANTINE.name] = files.get(QUARANTINE.name, ()) + quarantined
    changes = [Change(name, files.get(name, ()), lake.files(name)) for name in names]
    changes += [
        Change(name, removed=lake.files(name))
        for name in lake.version.tables
        if not is_kept(name)
    ]

    def update(version: Version) -> Version:
        kept = {name: version.of(name) for name in version.tables if is_kept(name)}
        silver = {name: TableState(changed=step) for name in names}
        tables = {**kept, **silver}
        return msgspec.structs.replace(version, tables=tables, moved=step)

    lake.commit(changes, update)
    return tuple(refresh(job.start_spark, lake, job.settings, job.gold, job.progress))


def _copy_quarantined_bytes(lake: Lake, step: int) -> tuple[DataFile, ...]:
    """Copy the quarantine rows that are not records."""
    rows = lake.read(QUARANTINE.name, filters=ds.field("position").is_valid())
    writer = TableWriter(lake.storage, QUARANTINE, step)
    writer.add(rows)
    return writer.close()


def _ordered_batches(rows: Any) -> list[Any]:
    offsets = rows["log_offset"].to_numpy()
    # The files of one step are in no particular order.
    if (offsets[1:] <= offsets[:-1]).any():
        rows = rows.sort_by("log_offset")
    batches: list[Any] = rows.cast(RECORDS.schema).to_batches(_BATCH_ROWS)
    return [batch for batch in batches if batch.num_rows]


def _empty(table: Any) -> Any:
    arrays = [pa.array([], each.type) for each in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
