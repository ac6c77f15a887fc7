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

from coterie.pipeline.jobs.ingest import (
    INGESTED_TABLES,
    Task,
    make_folders,
    run_tasks,
    split,
)
from coterie.pipeline.jobs.refresh import refresh, without_gold
from coterie.pipeline.lake.lake import File, Lake, TableFiles, new_file_path
from coterie.pipeline.lake.storage import write_parquet
from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.source import Head, OffsetRange, Rows
from coterie.pipeline.tables.bronze import RECORDS
from coterie.pipeline.tables.silver import LOG_GAPS, QUARANTINE

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
    number = lake.version.number + 1
    names = tuple(name for name in INGESTED_TABLES if name not in _KEPT)
    ranges = plan(source.heads(), {})
    where = str(lake.storage)
    make_folders(lake)
    tasks = [
        Task(source, where, number, part, names)
        for part in split(ranges, job.limits.tasks)
    ]
    is_small = lake.version.of(RECORDS.name).rows < job.limits.in_process_below
    ingested = run_tasks(None if is_small else job.spark, tasks)
    tables = without_gold(dict(lake.version.tables))
    for name in names:
        files = ingested.files.get(name, ())
        if name == QUARANTINE.name:
            files = (*files, *_copy_quarantined_bytes(lake, number))
        tables[name] = TableFiles(files, changed=number)
    lake.commit(
        msgspec.structs.replace(
            lake.version, number=number, tables=tables, moved=number
        )
    )
    return tuple(refresh(job.spark, lake, job.settings, job.gold, job.progress))


def _copy_quarantined_bytes(lake: Lake, number: int) -> tuple[File, ...]:
    """Copy the quarantine rows that are not records: bronze does not have them."""
    rows = lake.read(QUARANTINE.name, filters=ds.field("position").is_valid())
    if not rows.num_rows:
        return ()
    path = new_file_path(QUARANTINE.name, number)
    rows = rows.cast(QUARANTINE.schema)
    size = write_parquet(lake.storage, path, QUARANTINE, rows)
    return (File(path, rows.num_rows, size, number),)


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
