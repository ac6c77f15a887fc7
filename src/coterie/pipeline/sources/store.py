"""A source that reads Coterie's embedded store, even while its server runs.

A row of the store is a record batch with its offsets in columns, so the driver reads
only the content of transactional batches to find the stable offset.

The store is opened read-only, and no file is created beside it. Each query opens its
own short connection. With a write-ahead log beside the file, SQLite lets readers and
the writer work concurrently. Without one there is no writer: then the file is opened as
immutable, because SQLite would otherwise create files of its own, which the server
might have no right to open. If a server starts during such a query, the query is
repeated.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from coterie.broker.catalog.entries import EntryKind, decode_entry, space_of
from coterie.broker.catalog.topics import OFFSETS_TOPIC, Topic
from coterie.broker.log.log import OFFSET_BITS, OFFSET_MAX
from coterie.broker.log.sqlite_file import APPLICATION_ID, FILE_NAME, SCHEMA_VERSION
from coterie.errors import LogError, SettingError
from coterie.pipeline.segments.transactions import (
    MarkerOutcomes,
    TransactionBatch,
    read_transaction_batch,
)
from coterie.pipeline.sources.head_tracker import BatchColumns, HeadTracker
from coterie.pipeline.sources.row_builder import BatchRun, RowBuilder
from coterie.pipeline.sources.source import Head, OffsetRange, Rows
from coterie.pipeline.tables.gold_offsets import PARTITION_END_SAMPLES

QueryValues: TypeAlias = Sequence[Any] | Mapping[str, Any]

_BUSY_S: Final = 10.0
"""The time to wait for a server that is starting or stopping."""
_QUERY_BYTES: Final = 8 * 1024 * 1024
"""The size of batches in one query."""
_QUERY_BATCHES: Final = 50_000
_LOG_SPAN: Final = """
FROM batches WHERE place BETWEEN coalesce(
    (SELECT place FROM batches WHERE place BETWEEN :low AND :from
     ORDER BY place DESC LIMIT 1), :low) AND :high
    AND last_offset >= :from & :offset_max
"""
"""The batches of a log partition from the one that holds an offset."""
_HEAD_QUERY: Final = f"""
SELECT place, last_offset, size_bytes, CASE WHEN flags & 3 THEN bytes END {_LOG_SPAN}
ORDER BY place LIMIT {_QUERY_BATCHES}
"""
_BATCHES_QUERY: Final = f"SELECT place, last_offset, bytes {_LOG_SPAN} ORDER BY place"
_TRANSACTIONAL_QUERY: Final = (
    f"SELECT place, bytes {_LOG_SPAN} AND flags & 3 ORDER BY place"
)
_PARTITION_SPAN: Final = (
    f"place BETWEEN number << {OFFSET_BITS} AND number << {OFFSET_BITS} | {OFFSET_MAX}"
)
_GROWTH_QUERY: Final = """
SELECT topic_id, partition, max(max_timestamp_ms), 0, max(last_offset) + 1
FROM partitions JOIN batches ON {span}
WHERE topic_id NOT IN ({internal}) AND max_timestamp_ms BETWEEN ? AND ?
GROUP BY number, max_timestamp_ms / 60000
ORDER BY number, max_timestamp_ms / 60000
"""
"""The end of each partition in each minute in which it grew."""
_TRUNCATED_QUERY: Final = """
SELECT topic_id, partition, ?, log_start_offset, max(next_offset, coalesce(
    (SELECT max(last_offset) + 1 FROM batches WHERE {span}), 0))
FROM partitions
WHERE topic_id NOT IN ({internal}) AND log_start_offset > 0
ORDER BY number
"""
"""The current start and end of each partition whose first records were deleted."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def open_store(where: str) -> StoreSource:
    """Open the store in a server's data directory.

    Raises SettingError if the store is missing or has a newer version.
    """
    source = StoreSource(StoreFile(Path(where).absolute()))
    source.file.topic(OFFSETS_TOPIC)
    return source


@dataclass(frozen=True, slots=True)
class StoreFile:
    """The SQLite file in a server's data directory."""

    directory: Path

    @property
    def path(self) -> Path:
        return self.directory / FILE_NAME

    def query(
        self, query: str, values: QueryValues = (), *, bytes_max: int | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query; with `bytes_max` only the first rows, until the
        total size of their last column reaches it. Raises SettingError if the store is
        missing or has a newer version, and LogError when SQLite fails.
        """
        wal = self.path.with_name(f"{FILE_NAME}-wal")
        is_immutable = not wal.exists()
        rows = self._query(query, values, bytes_max, is_immutable=is_immutable)
        if is_immutable and wal.exists():
            return self._query(query, values, bytes_max, is_immutable=False)
        return rows

    def topics(self) -> list[Topic]:
        rows = self.query(
            "SELECT key, value FROM small_values WHERE space = ? ORDER BY key",
            (space_of(EntryKind.TOPIC),),
        )
        return [_decode_topic(key, value) for key, value in rows]

    def topic(self, name: str) -> Topic | None:
        """Return a topic of the catalog; None when it does not exist."""
        rows = self.query(
            "SELECT value FROM small_values WHERE space = ? AND key = ?",
            (space_of(EntryKind.TOPIC), name.encode()),
        )
        return _decode_topic(name.encode(), rows[0][0]) if rows else None

    def _query(
        self,
        query: str,
        values: QueryValues,
        bytes_max: int | None,
        *,
        is_immutable: bool,
    ) -> list[tuple[Any, ...]]:
        if not self.path.is_file():
            raise SettingError(
                f"{self.directory} has no {FILE_NAME}: give the directory that"
                " `coterie serve` has as --data"
            )
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        if is_immutable:
            uri += "&immutable=1"
        try:
            with closing(sqlite3.connect(uri, _BUSY_S, uri=True)) as connection:
                self._check_version(connection)
                cursor = connection.execute(query, values)
                if bytes_max is None:
                    return cursor.fetchall()
                rows, size = [], 0
                for row in cursor:
                    rows.append(row)
                    size += len(row[-1])
                    if size >= bytes_max:
                        break
                cursor.close()
                return rows
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
                raise self._not_a_store() from None
            raise LogError(f"{self.path}: {error}") from None

    def _check_version(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise self._not_a_store()
        if version > SCHEMA_VERSION:
            raise SettingError(
                f"{self.path} was written by a newer Coterie (store version {version};"
                f" this one supports {SCHEMA_VERSION}): read it with that version"
            )

    def _not_a_store(self) -> SettingError:
        return SettingError(
            f"{self.path} is not a Coterie store: give the directory that"
            " `coterie serve` has as --data"
        )


def _decode_topic(key: bytes, value: bytes) -> Topic:
    entry = decode_entry(EntryKind.TOPIC, bytes(key), bytes(value))
    assert entry.value is not None
    return Topic.from_value(entry.name, entry.value)


@dataclass(frozen=True, slots=True)
class StoreSource:
    """A source that reads the log from a store. See the module's docstring."""

    file: StoreFile

    def describe(self) -> str:
        return f"store:{self.file.directory}"

    def heads(self, since: Mapping[int, int] | None = None) -> Mapping[int, Head]:
        heads = {}
        for partition, number, next_offset in self._partitions():
            tracker = HeadTracker((since or {}).get(partition, 0))
            while rows := self.file.query(
                _HEAD_QUERY, _span_values(number, tracker.position)
            ):
                tracker.add(*_batch_columns(rows))
            end = max(tracker.position, next_offset)
            start = min(self._start_offset(number), tracker.position)
            heads[partition] = tracker.head(start, end)
        return heads

    def read(self, part: OffsetRange) -> Iterator[Rows]:
        numbers = {each[0]: each[1] for each in self._partitions()}
        if (number := numbers.get(part.log_partition)) is None:
            raise LogError(
                f"{self.file.path} no longer has log partition {part.log_partition}"
            )
        outcomes = MarkerOutcomes(self._transactional(number, part.from_offset))
        builder = RowBuilder(part.log_partition, part.from_offset, outcomes.outcome)
        begins_log = part.from_offset <= self._start_offset(number)
        while rows := self.file.query(
            _BATCHES_QUERY,
            _span_values(number, builder.position),
            bytes_max=_QUERY_BYTES,
        ):
            own = [row for row in rows if row[1] < part.until_offset]
            if own:
                builder.position = min(builder.position, own[0][0] & OFFSET_MAX)
                places, lasts, blobs = zip(*own, strict=True)
                positions = np.array(places, np.int64)
                run = BatchRun.of_blobs(
                    self.file.path.name,
                    blobs,
                    bases=positions & OFFSET_MAX,
                    ends=np.array(lasts, np.int64) + 1,
                    positions=positions,
                    begins_log=begins_log,
                )
                yield from builder.rows(run)
                begins_log = False
            if len(own) < len(rows) and builder.position < part.until_offset:
                next_base = rows[len(own)][0] & OFFSET_MAX
                yield from builder.finish(part.until_offset, next_base)
            if builder.position >= part.until_offset:
                return
        raise LogError(
            f"{self.file.path}: log partition {part.log_partition} ends at offset"
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
        topics = {each.topic_id: each for each in self.file.topics()}
        internal = [each.topic_id for each in topics.values() if each.is_internal]
        after_ms = 0
        if after_ts is not None:
            after_ms = (after_ts - _EPOCH) // timedelta(milliseconds=1) + 1
        now_ms = time.time_ns() // 1_000_000
        parts = {"span": _PARTITION_SPAN, "internal": ", ".join("?" * len(internal))}
        grown = self.file.query(
            _GROWTH_QUERY.format(**parts), [*internal, after_ms, now_ms]
        )
        truncated = self.file.query(
            _TRUNCATED_QUERY.format(**parts), [now_ms, *internal]
        )
        samples = []
        for (topic_id, partition), rows in groupby(
            [*grown, *truncated], key=lambda row: row[:2]
        ):
            end = 0
            for _, _, at_ms, start, row_end in rows:
                # Timestamps come from the clocks of producers, which differ, but end
                # offsets never decrease.
                end = max(end, row_end)
                if (topic := topics.get(topic_id)) is None:
                    continue
                samples.append(
                    {
                        "topic": topic.name,
                        "topic_id": topic.topic_id.hex(),
                        "partition": partition,
                        "sample_ts": at_ms * 1_000,
                        "log_start_offset": start,
                        "high_watermark": end,
                        "partition_count": topic.partition_count,
                    }
                )
        return pa.Table.from_pylist(samples, schema=PARTITION_END_SAMPLES.schema)

    def _partitions(self) -> list[tuple[int, int, int]]:
        """Return the log partitions: index, number in the store, and next offset, which
        is kept when compaction removes the last batch."""
        topic = self.file.topic(OFFSETS_TOPIC)
        if topic is None:
            return []
        return self.file.query(
            "SELECT partition, number, next_offset FROM partitions"
            " WHERE topic_id = ? ORDER BY partition",
            (topic.topic_id,),
        )

    def _start_offset(self, number: int) -> int:
        """Return the first offset of a log partition; OFFSET_MAX for an empty one."""
        rows = self.file.query(
            "SELECT min(place) FROM batches WHERE place BETWEEN :low AND :high",
            _span_values(number, 0),
        )
        return OFFSET_MAX if rows[0][0] is None else int(rows[0][0]) & OFFSET_MAX

    def _transactional(
        self, number: int, offset: int
    ) -> Iterator[list[TransactionBatch]]:
        """Yield the transactional batches from an offset to the log's end."""
        while rows := self.file.query(
            _TRANSACTIONAL_QUERY, _span_values(number, offset), bytes_max=_QUERY_BYTES
        ):
            batches = [read_transaction_batch(blob) for _, blob in rows]
            yield [each for each in batches if each is not None]
            offset = (rows[-1][0] & OFFSET_MAX) + 1


def _span_values(number: int, offset: int) -> dict[str, int]:
    low = number << OFFSET_BITS
    return {
        "low": low,
        "high": low | OFFSET_MAX,
        "from": low | min(offset, OFFSET_MAX),
        "offset_max": OFFSET_MAX,
    }


def _batch_columns(
    rows: Sequence[tuple[int, int, int, bytes | None]],
) -> tuple[BatchColumns, list[TransactionBatch]]:
    places, lasts, sizes, blobs = zip(*rows, strict=True)
    bases, ends = np.array(places, np.int64) & OFFSET_MAX, np.array(lasts, np.int64) + 1
    batches = [read_transaction_batch(blob) for blob in blobs if blob is not None]
    columns = BatchColumns(
        bases=bases,
        ends=ends,
        records=ends - bases,  # the count is in the unread header
        size_bytes=np.array(sizes, np.int64),
    )
    return columns, [each for each in batches if each is not None]
