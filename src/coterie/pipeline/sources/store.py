"""A source that reads the log of Coterie's server from its data directory, even while
the server runs.

A store has the offsets of a batch beside it, so the driver reads only the content of
transactional batches to find the stable offset.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from coterie.broker.catalog.topics import OFFSETS_TOPIC
from coterie.broker.log.manifest import MANIFEST_VERSION
from coterie.broker.log.store_file import StoreFile
from coterie.errors import LogError
from coterie.pipeline.segments.transactions import (
    MarkerOutcomes,
    TransactionBatch,
    read_transaction_batch,
)
from coterie.pipeline.sources.head_tracker import BatchColumns, HeadTracker
from coterie.pipeline.sources.journal_store import JournalStore
from coterie.pipeline.sources.row_builder import BatchRun, RowBuilder
from coterie.pipeline.sources.source import Head, OffsetRange, Rows
from coterie.pipeline.sources.sqlite_store import SqliteStore
from coterie.pipeline.sources.stored_log import (
    NumberedPartition,
    StoredBatch,
    StoredHeader,
    StoredLog,
    StoredRun,
)
from coterie.pipeline.tables.gold_offsets import PARTITION_END_SAMPLES

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def open_store(where: str) -> StoreSource:
    """Open the store in a server's data directory.

    Raises SettingError if the store is missing or has a newer version.
    """
    source = StoreSource(Path(where).absolute())
    source.check()
    return source


@dataclass(frozen=True, slots=True)
class StoreSource:
    """A source that reads the log from a store. See the module's docstring."""

    directory: Path

    def describe(self) -> str:
        return f"store:{self.directory}"

    def open(self) -> StoredLog:
        """Return the log as it is now. Raises LogError, SettingError."""
        file = StoreFile(self.directory)
        if file.version() < MANIFEST_VERSION:
            return SqliteStore(file)
        return JournalStore(file)

    def check(self) -> None:
        """Check that the store can be read. Raises LogError, SettingError."""
        self.open().topics()

    def heads(self, since: Mapping[int, int] | None = None) -> Mapping[int, Head]:
        heads, log = {}, self.open()
        for partition, number, next_offset in _log_partitions(log):
            tracker = HeadTracker((since or {}).get(partition, 0))
            for rows in log.headers(number, tracker.position):
                tracker.add(*_batch_columns(rows))
            end = max(tracker.position, next_offset)
            start = min(log.start_offset(number), tracker.position)
            heads[partition] = tracker.head(start, end)
        return heads

    def read(self, part: OffsetRange) -> Iterator[Rows]:
        log = self.open()
        numbers = {each.partition: each.number for each in _log_partitions(log)}
        if (number := numbers.get(part.log_partition)) is None:
            raise LogError(
                f"{self.directory} no longer has log partition {part.log_partition}"
            )
        outcomes = MarkerOutcomes(_transactional(log, number, part.from_offset))
        builder = RowBuilder(part.log_partition, part.from_offset, outcomes.outcome)
        begins_log = part.from_offset <= log.start_offset(number)
        for run in log.batches(number, part.from_offset):
            own = [row for row in run.batches if row[1] < part.until_offset]
            if own:
                builder.position = min(builder.position, own[0][0])
                yield from builder.rows(_batch_run(run, own, begins_log=begins_log))
                begins_log = False
            if len(own) < len(run.batches) and builder.position < part.until_offset:
                next_base = run.batches[len(own)][0]
                yield from builder.finish(part.until_offset, next_base)
            if builder.position >= part.until_offset:
                return
        raise LogError(
            f"{self.directory}: log partition {part.log_partition} ends at offset"
            f" {builder.position}, and ended at {part.until_offset} when the range was"
            " planned"
        )

    def sample_ends(self, after_ts: datetime | None = None) -> Any:
        """Return samples of the ends of partitions, as rows of `partition_end_samples`.

        There is one sample for each minute after `after_ts` in which a partition grew,
        at the timestamp of its last batch. Earlier log start offsets are unknown and
        therefore 0. Partitions whose first records were deleted have one more sample,
        with their current offsets. Raises LogError.
        """
        log = self.open()
        topics = {each.topic_id: each for each in log.topics()}
        internal = [each.topic_id for each in topics.values() if each.is_internal]
        after_ms = 0
        if after_ts is not None:
            after_ms = (after_ts - _EPOCH) // timedelta(milliseconds=1) + 1
        now_ms = time.time_ns() // 1_000_000
        ends = log.ends(internal, after_ms, now_ms)
        samples = []
        for _, rows in groupby(ends, key=lambda row: row[:2]):
            end = 0
            for row in rows:
                # Timestamps come from the clocks of producers, which differ, but end
                # offsets never decrease.
                end = max(end, row.end_offset)
                if (topic := topics.get(row.topic_id)) is None:
                    continue
                samples.append(
                    {
                        "topic": topic.name,
                        "topic_id": topic.topic_id.hex(),
                        "partition": row.partition,
                        "sample_ts": row.at_ms * 1_000,
                        "log_start_offset": row.log_start_offset,
                        "high_watermark": end,
                        "partition_count": topic.partition_count,
                    }
                )
        return pa.Table.from_pylist(samples, schema=PARTITION_END_SAMPLES.schema)


def _log_partitions(log: StoredLog) -> Sequence[NumberedPartition]:
    """Return the partitions of `__consumer_offsets`."""
    for topic in log.topics():
        if topic.name == OFFSETS_TOPIC:
            return log.partitions(topic.topic_id)
    return []


def _transactional(
    log: StoredLog, number: int, offset: int
) -> Iterator[list[TransactionBatch]]:
    """Yield the transactional batches from an offset to the log's end."""
    for rows in log.headers(number, offset):
        yield _batch_columns(rows)[1]


def _batch_run(
    run: StoredRun, own: Sequence[StoredBatch], *, begins_log: bool
) -> BatchRun:
    """Return the first batches of a run."""
    bases, lasts, positions, blobs = zip(*own, strict=True)
    made = BatchRun.of_blobs(
        run.file,
        blobs,
        bases=np.array(bases, np.int64),
        ends=np.array(lasts, np.int64) + 1,
        positions=np.array(positions, np.int64),
        begins_log=begins_log,
    )
    return replace(made, faults=[each for each in run.faults if each[0] < len(own)])


def _batch_columns(
    rows: Sequence[StoredHeader],
) -> tuple[BatchColumns, list[TransactionBatch]]:
    firsts, lasts, sizes, blobs = zip(*rows, strict=True)
    bases, ends = np.array(firsts, np.int64), np.array(lasts, np.int64) + 1
    batches = [read_transaction_batch(blob) for blob in blobs if blob is not None]
    columns = BatchColumns(
        bases=bases,
        ends=ends,
        records=ends - bases,  # the count is in the unread header
        size_bytes=np.array(sizes, np.int64),
    )
    return columns, [each for each in batches if each is not None]
