"""A source that reads the log of Coterie's server from its data directory, even while
the server runs.

A store has the offsets of a batch beside it, so the driver reads only the content of
transactional batches to find the stable offset.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.broker.catalog.topics import OFFSETS_TOPIC, Topic
from coterie.broker.log.store_file import StoreFile
from coterie.errors import LogError
from coterie.pipeline.segments.transactions import (
    MarkerOutcomes,
    TransactionBatch,
    read_transaction_batch,
)
from coterie.pipeline.sources.head_tracker import BatchColumns, HeadTracker
from coterie.pipeline.sources.journal_store import JournalStore
from coterie.pipeline.sources.partition_ends import LastSamples, SampledOffsets
from coterie.pipeline.sources.row_builder import BatchRun, RowBuilder
from coterie.pipeline.sources.source import Head, OffsetRange, Rows
from coterie.pipeline.sources.stored_log import (
    Growth,
    NumberedPartition,
    StoredBatch,
    StoredHeader,
    StoredLog,
    StoredRun,
)
from coterie.pipeline.tables.gold_offsets import PARTITION_END_SAMPLES
from coterie.types import TopicId

_AFTER_LAST_US: Final = 1_000


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
        return JournalStore(StoreFile(self.directory))

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

    def sample_ends(
        self, last: LastSamples, at_us: int = 0, *, is_until: bool = False
    ) -> Any:
        """Return samples of the ends of partitions, as rows of `partition_end_samples`.

        There is one sample for each minute after the last samples in which a partition
        grew, and one of all partitions at the newest of these times and `at_us`: an
        idle partition has the same offsets as at its last batch. If the offsets changed
        and no time is newer, for example when records were deleted, that sample follows
        the last ones after 1 ms. With `is_until`, growth after `at_us` has no samples.
        Raises LogError.
        """
        log = self.open()
        topics = {each.topic_id: each for each in log.topics() if not each.is_internal}
        positions = {
            (each.topic_id, partition): last.end_offset(each.topic_id.hex(), partition)
            for each in topics.values()
            for partition in range(each.partition_count)
        }
        now_ms = at_us // 1_000 if is_until else time.time_ns() // 1_000_000
        growth = log.growth(positions, last.at_us // 1_000, now_ms)
        newest_ms = max(
            (int(each.minutes[:, 0].max(initial=0)) for each in growth), default=0
        )
        at_us = max(at_us, last.at_us, newest_ms * 1_000)
        if at_us == last.at_us:
            offsets = {
                (each.topic_id.hex(), each.partition): SampledOffsets(
                    each.log_start_offset, each.end_offset
                )
                for each in growth
            }
            if at_us == 0 or offsets == last.offsets:
                return PARTITION_END_SAMPLES.schema.empty_table()
            at_us += _AFTER_LAST_US
        return _sample_rows(growth, topics, last, at_us)


def _sample_rows(
    growth: Sequence[Growth],
    topics: Mapping[TopicId, Topic],
    last: LastSamples,
    at_us: int,
) -> Any:
    """Return the samples of all partitions as rows of `partition_end_samples`."""
    rows = [_offsets_over_time(each, last, at_us) for each in growth]
    of_topic = [topics[each.topic_id] for each in growth]
    counts = np.array([len(each) for each in rows], np.int64)
    values = np.concatenate([np.zeros((0, 3), np.int64), *rows])
    columns = {
        "topic": [each.name for each in of_topic],
        "topic_id": [each.topic_id.hex() for each in of_topic],
        "partition": [each.partition for each in growth],
        "partition_count": [each.partition_count for each in of_topic],
    }
    index = np.repeat(np.arange(len(growth)), counts)
    schema = PARTITION_END_SAMPLES.schema
    arrays = {
        name: pa.array(column, schema.field(name).type).take(pa.array(index))
        for name, column in columns.items()
    }
    names = ("sample_ts", "log_start_offset", "high_watermark")
    arrays |= {name: pa.array(values[:, i]) for i, name in enumerate(names)}
    return pa.table(
        {
            field.name: arrays[field.name].cast(field.type)
            if field.name in arrays
            else pa.nulls(len(index), field.type)
            for field in schema
        },
        schema,
    )


def _offsets_over_time(
    growth: Growth, last: LastSamples, at_us: int
) -> NDArray[np.int64]:
    """Return rows of the times, start and end offsets of a partition's samples, up to
    a time.

    The log start offset in a minute is unknown: it is at least the last sampled one.
    """
    known = last.offsets.get((growth.topic_id.hex(), growth.partition))
    start = 0 if known is None else known.log_start_offset
    times = growth.minutes[:, 0] * 1_000
    is_new = (times > last.at_us) & (times < at_us)
    ends = growth.minutes[is_new, 1]
    minutes = np.stack([times[is_new], np.full(len(ends), start), ends], axis=1)
    return np.vstack([minutes, [at_us, growth.log_start_offset, growth.end_offset]])


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
