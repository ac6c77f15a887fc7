"""Makes silver and gold anew from bronze: for what a later Coterie decodes or builds
otherwise, and as the judge of what runs made step by step.

Bronze has every record that was ever read, also those that the log itself has lost to
compaction since. What bronze does not have stays: gaps, bytes that were no batch, and
samples of partitions' ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from coterie.pipeline.jobs.ingest import divided, done_by_workers, gathered
from coterie.pipeline.jobs.refresh import refresh, without_gold
from coterie.pipeline.jobs.worker import LANDED, Task, do, folder_of
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.parquet import write
from coterie.pipeline.lake.version import File, TableFiles
from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.source import Head, OffsetRange, Rows
from coterie.pipeline.tables.log_gaps import LOG_GAPS
from coterie.pipeline.tables.quarantine import QUARANTINE
from coterie.pipeline.tables.records import RECORDS

if TYPE_CHECKING:
    from coterie.pipeline.jobs.run import Job

_KEPT: Final = (RECORDS.name, LOG_GAPS.name)
"""What workers write that is not made anew."""


@dataclass(frozen=True)
class Bronze:
    """A lake's own records as a source."""

    where: str

    def describe(self) -> str:
        """See `Source`."""
        return f"bronze:{self.where}"

    def heads(self, since: Mapping[int, int] | None = None) -> Mapping[int, Head]:
        """What was read so far; `since` changes nothing."""
        heads = Lake.open(self.where).version.heads
        return {
            each.log_partition: Head(0, each.next_offset, each.next_offset)
            for each in heads
        }

    def read(self, part: OffsetRange) -> Iterator[Rows]:
        """The rows of a range, in order."""
        lake = Lake.open(self.where)
        at = ds.field("log_offset")
        rows = lake.read(
            RECORDS.name,
            filters=(ds.field("log_partition") == part.log_partition)
            & (at >= part.from_offset)
            & (at < part.until_offset),
        )
        for batch in _in_order(rows):
            upto = batch["log_offset"][batch.num_rows - 1].as_py() + 1
            yield Rows(batch, _no(QUARANTINE), _no(LOG_GAPS), upto)
        nothing = _no(RECORDS), _no(QUARANTINE), _no(LOG_GAPS)
        yield Rows(*nothing, part.until_offset)


def backfill(job: Job) -> tuple[str, ...]:
    """Make silver and gold anew, as two versions; the names of the gold tables.

    Raises LogError when another run writes to the lake.
    """
    lake, bronze = job.lake, Bronze(str(job.lake.storage))
    number = lake.version.number + 1
    names = tuple(name for name in LANDED if name not in _KEPT)
    ranges = plan(bronze.heads(), {})
    where = str(lake.storage)
    for name in LANDED:
        lake.storage.make(folder_of(name))
    tasks = [
        Task(bronze, where, number, some, names)
        for some in divided(ranges, job.step.tasks)
    ]
    is_small = lake.version.of(RECORDS.name).rows < job.step.alone_below
    landed = gathered(
        map(do, tasks) if is_small else done_by_workers(job.spark, tasks), number
    )
    tables = without_gold(dict(lake.version.tables))
    for name in names:
        files = landed.files.get(name, ())
        if name == QUARANTINE.name:
            files = (*files, *_bytes_that_were_no_batch(lake, number))
        tables[name] = TableFiles(files, changed=number)
    lake.commit(
        msgspec.structs.replace(
            lake.version, number=number, tables=tables, moved=number
        )
    )
    tell = job.progress.building
    return tuple(refresh(job.spark, lake, job.settings, job.gold, tell=tell))


def _bytes_that_were_no_batch(lake: Lake, number: int) -> tuple[File, ...]:
    rows = lake.read(QUARANTINE.name, filters=ds.field("position").is_valid())
    if not rows.num_rows:
        return ()
    path = f"{folder_of(QUARANTINE.name)}/{number:06}-{uuid4().hex[:12]}.parquet"
    size = write(lake.storage, path, QUARANTINE, rows.cast(QUARANTINE.schema))
    return (File(path, rows.num_rows, size, number),)


def _in_order(rows: Any) -> list[Any]:
    offsets = rows["log_offset"].to_numpy()
    if (offsets[1:] <= offsets[:-1]).any():  # files of one step may lie in any order
        rows = rows.sort_by("log_offset")
    batches: list[Any] = rows.cast(RECORDS.schema).to_batches(128 * 1024)
    return [each for each in batches if each.num_rows]


def _no(table: Any) -> Any:
    arrays = [pa.array([], each.type) for each in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
