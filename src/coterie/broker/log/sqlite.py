"""The embedded store: one SQLite file in WAL mode, synced at every flush.

Each record batch is a row: Kafka's own bytes, and beside them the fields of
`BatchInfo`, so that a search for a timestamp or a producer decodes no batch. The row id
("place") has the partition's number in its high bits and the base offset in its low
ones: a partition is a contiguous range of one b-tree, and an append is one insertion.

There are two connections: one writes, in the thread that runs the flush; one reads, in
the thread that owns the log. WAL mode allows both at the same time.

What the store holds beside the batches, which have checksums of their own, has one in
each row, since SQLite does not notice a changed byte: rows of batches in the high bits
of `flags`, other rows in the column `crc`. Rows that were written before are not
checked.

docs/decisions/0006-log-in-sqlite.md has the measurements and the alternatives.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from crc32c import crc32c

from coterie import portable_os
from coterie.broker.log.log import (
    OFFSET_BITS,
    OFFSET_MAX,
    Append,
    BatchInfo,
    Create,
    Delete,
    LogPartition,
    Operation,
    Put,
    Replace,
    StagedWrite,
    StagingLog,
    StoredPartition,
    Truncate,
)
from coterie.broker.log.sqlite_file import (
    FILE_NAME,
    LOCK_NAME,
    check_application,
    connect,
    extend,
    lock_store,
    log_error,
    mark_clean,
    mark_unclean,
    open_file,
    prepare,
    row_crc,
)
from coterie.broker.log.sqlite_reader import SqliteReader, is_partition, put_value
from coterie.files import make_private_directory
from coterie.types import LogOffset
from coterie.wire.record_batch import LENGTH_END, crc_matches

TRANSACTIONAL, CONTROL, HAS_CHECKSUM = 1, 2, 4
_FLAG_BITS: Final = 8
"""Bits of `flags` below the checksum."""
_ROW: Final = struct.Struct(">8q")

TAIL_BYTES_MAX: Final = 64 * 1024 * 1024
"""The size of recently flushed batches kept in memory, of all partitions together."""
_CHECK_PARTITION: Final = """
UPDATE partitions
SET crc = row_crc(number, topic_id, partition, log_start_offset, next_offset)
WHERE number = ?
"""
_INFOS: Final = """
SELECT place, last_offset, max_timestamp_ms, size_bytes, producer_id, producer_epoch,
    base_sequence, last_sequence, flags
FROM batches WHERE place BETWEEN ? AND ? AND max_timestamp_ms >= ? ORDER BY place"""
_ANY_TIME: Final = -(1 << 63)


class SqlitePartition(StoredPartition):
    """A partition with its recent batches by base offset."""

    __slots__ = ("tail",)

    def __init__(
        self,
        partition: LogPartition,
        number: int,
        log_start_offset: LogOffset = 0,
        flushed_offset: LogOffset = 0,
    ) -> None:
        super().__init__(partition, number, log_start_offset, flushed_offset)
        self.tail: dict[LogOffset, tuple[bytes, LogOffset]] = {}
        """Batches and the offsets after them."""


class Tail:
    """The memory limit of all partitions' recent batches; the oldest are evicted
    first."""

    def __init__(self, bytes_max: int = TAIL_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._order: deque[tuple[SqlitePartition, LogOffset, int]] = deque()

    def add(self, part: SqlitePartition, batch: bytes, info: BatchInfo) -> None:
        """Add a flushed batch to the partition's recent batches, and evict the oldest
        ones."""
        assert info.base_offset not in part.tail
        part.tail[info.base_offset] = (batch, info.last_offset + 1)
        self._order.append((part, info.base_offset, len(batch)))
        self._bytes += len(batch)
        while self._bytes > self._bytes_max:
            owner, base_offset, size = self._order.popleft()
            owner.tail.pop(base_offset, None)
            self._bytes -= size
        assert self._bytes >= 0


class SqliteLog(StagingLog):
    """A log in a directory, which is created if it does not exist.

    `synchronous` is SQLite's setting. Anything but "FULL" may lose flushed writes at a
    power failure, and is for measurements only. `verify` checks each batch that is read
    from the file.

    Raises LogError when the directory holds another file of that name or a newer
    store, or when another process uses it.
    """

    def __init__(
        self, directory: Path, *, synchronous: str = "FULL", verify: bool = False
    ) -> None:
        super().__init__()
        self._tail = Tail()
        self._verify = verify
        make_private_directory(directory)
        self._lock = lock_store(directory / LOCK_NAME)
        self.directory = directory
        self.path = directory / FILE_NAME
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, self._lock)
            os.close(open_file(self.path))
            self._open(synchronous, undo)
            mark_unclean(self.path, self._reader.connection)
            portable_os.sync_directory(directory)
            portable_os.sync_directory(directory.parent)
            undo.pop_all()

    def batch_infos(
        self, partition: LogPartition, offset: LogOffset = 0
    ) -> Iterator[BatchInfo]:
        part = self._parts.get(partition)
        if part is None or not part.is_created:
            return
        low, high = self._span(part, offset)
        for row in self._reader.query(_INFOS, (low, high, _ANY_TIME)):
            yield self._info(row)

    def find_timestamp(
        self, partition: LogPartition, timestamp_ms: int, offset: LogOffset = 0
    ) -> BatchInfo | None:
        part = self._parts.get(partition)
        if part is None or not part.is_created:
            return None
        low, high = self._span(part, offset)
        row = self._reader.first(_INFOS, (low, high, timestamp_ms))
        return None if row is None else self._info(row)

    def get(self, space: str, key: bytes) -> bytes | None:
        return self._reader.get(space, key)

    def items(self, space: str) -> Iterator[tuple[bytes, bytes]]:
        return self._reader.items(space)

    def close(self) -> None:
        """Flush, close, and release the lock on the directory."""
        try:
            self.flush()
            mark_clean(self.path)
        finally:
            self._reader.close()
            self.writer.close()
            os.close(self._lock)

    def _info(self, row: Any) -> BatchInfo:
        place, last_offset, time_ms, size, producer, epoch, base, last, flags = row
        try:
            bits = flags & (TRANSACTIONAL | CONTROL)
            fields = (place, last_offset, time_ms, producer, epoch, base, last, bits)
            is_right = 0 <= last_offset - (place & OFFSET_MAX) < 1 << 31 and size >= 0
            if flags & HAS_CHECKSUM:
                is_right &= flags >> _FLAG_BITS == crc32c(_ROW.pack(*fields))
        except (TypeError, struct.error):
            is_right = False
        if not is_right:
            raise self._reader.corrupt(
                f"the row {place} of batches is not as it was written"
            )
        return BatchInfo(
            base_offset=place & OFFSET_MAX,
            last_offset=last_offset,
            max_timestamp_ms=time_ms,
            size_bytes=size,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=base,
            last_sequence=last,
            is_transactional=bool(flags & TRANSACTIONAL),
            is_control=bool(flags & CONTROL),
        )

    def _open(self, synchronous: str, undo: contextlib.ExitStack) -> None:
        try:
            self.writer = undo.enter_context(contextlib.closing(connect(self.path)))
            check_application(self.writer, self.path)
            prepare(self.writer, synchronous)
            extend(self.path.with_name(f"{FILE_NAME}-wal"))
            self._reader = undo.enter_context(
                contextlib.closing(SqliteReader(self.path))
            )
            self._load()
        except sqlite3.Error as error:
            raise log_error(self.path, error) from error

    def _load(self) -> None:
        rows = self._reader.query(
            "SELECT number, topic_id, partition, log_start_offset, next_offset, crc"
            " FROM partitions"
        )
        for *fields, crc in list(rows):
            if not is_partition(fields) or crc not in {None, row_crc(*fields)}:
                raise self._reader.corrupt(f"the row {fields[0]} of partitions")
            number, topic_id, partition, log_start_offset, next_offset = fields
            span = (_place(number, 0), _place(number, OFFSET_MAX), _ANY_TIME)
            last = self._reader.first(f"{_INFOS} DESC LIMIT 1", span)
            if last is not None:
                next_offset = max(next_offset, self._info(last).last_offset + 1)
            if log_start_offset > next_offset:
                raise self._reader.corrupt(f"the offsets of partition number {number}")
            where = LogPartition(topic_id, partition)
            self._load_part(
                SqlitePartition(where, number, log_start_offset, next_offset)
            )
        self._last_number = max(self._last_number, self._reader.last_number())

    def _staged_write(
        self, operations: list[Operation], size_bytes: int
    ) -> StagedWrite:
        return _SqliteWrite(self, operations, size_bytes)

    def _new_part(self, partition: LogPartition, number: int) -> StoredPartition:
        return SqlitePartition(partition, number)

    def _keep(self, append: Append) -> None:
        assert isinstance(append.part, SqlitePartition)
        self._tail.add(append.part, append.batch, append.info)

    def _make_visible(self, operation: Operation) -> None:
        super()._make_visible(operation)
        if isinstance(operation, Truncate | Replace):
            assert isinstance(operation.part, SqlitePartition)
            operation.part.tail.clear()

    def _span(self, part: StoredPartition, offset: LogOffset) -> tuple[int, int]:
        """Return the first and the last row id of the flushed batches, starting with
        the batch that contains `offset`."""
        low = _place(part.number, 0)
        high = _place(part.number, part.flushed_offset) - 1
        row = self._reader.first(
            "SELECT place, last_offset FROM batches WHERE place BETWEEN ? AND ?"
            " ORDER BY place DESC LIMIT 1",
            (low, _place(part.number, offset)),
        )
        if row is None:
            return low, high
        place, last_offset = row
        if not isinstance(last_offset, int) or place & OFFSET_MAX > last_offset:
            raise self._reader.corrupt(
                f"the row {place} of batches is not as it was written"
            )
        return place if last_offset >= offset else place + 1, high

    def _read_part(
        self, part: StoredPartition, offset: LogOffset, bytes_max: int
    ) -> Sequence[bytes]:
        assert isinstance(part, SqlitePartition)
        if offset in part.tail:
            return _read_tail(part, offset, bytes_max)
        found: list[bytes] = []
        size = 0
        try:
            rows = self._reader.connection.execute(
                "SELECT place, bytes FROM batches WHERE place BETWEEN ? AND ?"
                " ORDER BY place",
                self._span(part, offset),
            )
            for place, batch in rows:
                if self._verify and not _is_batch(batch, place & OFFSET_MAX):
                    if found:
                        break
                    raise self._reader.corrupt(f"the batch in row {place} of batches")
                if found and size + len(batch) > bytes_max:
                    break
                found.append(batch)
                size += len(batch)
            rows.close()
        except sqlite3.Error as error:
            raise log_error(self.path, error) from error
        return found

    def _measure(self, part: StoredPartition) -> int:
        low, high = _place(part.number, 0), _place(part.number, OFFSET_MAX)
        (size,) = self._reader.first(
            "SELECT coalesce(sum(size_bytes), 0) FROM batches"
            " WHERE place BETWEEN ? AND ?",
            (low, high),
        )
        if not isinstance(size, int) or size < 0:
            raise self._reader.corrupt(f"the sizes of partition number {part.number}")
        return size


class _SqliteWrite(StagedWrite):
    """A write in one transaction of SQLite, with one sync."""

    def __init__(
        self, log: SqliteLog, operations: list[Operation], size_bytes: int
    ) -> None:
        super().__init__(operations, size_bytes)
        self._log = log

    def write(self) -> None:
        if not self.operations:
            return
        writer = self._log.writer
        try:
            writer.execute("BEGIN IMMEDIATE")
            self._write_all(writer)
            writer.execute("COMMIT")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                writer.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise log_error(self._log.path, error) from error
            raise

    def _write_all(self, writer: sqlite3.Connection) -> None:
        rows = []
        for operation in self.operations:
            if isinstance(operation, Append):
                rows.append(self._row(operation))
                continue
            self._insert(writer, rows)
            rows = []
            self._write_one(writer, operation)
        self._insert(writer, rows)

    @staticmethod
    def _insert(writer: sqlite3.Connection, rows: list[tuple[object, ...]]) -> None:
        if rows:
            writer.executemany(
                "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
            )

    def _row(self, operation: Append) -> tuple[object, ...]:
        batch, info = operation.batch, operation.info
        place = _place(operation.part.number, info.base_offset)
        flags = TRANSACTIONAL * info.is_transactional + CONTROL * info.is_control
        fields = _ROW.pack(
            place,
            info.last_offset,
            info.max_timestamp_ms,
            info.producer_id,
            info.producer_epoch,
            info.base_sequence,
            info.last_sequence,
            flags,
        )
        return (
            place,
            info.last_offset,
            info.max_timestamp_ms,
            info.size_bytes,
            info.producer_id,
            info.producer_epoch,
            info.base_sequence,
            info.last_sequence,
            flags | HAS_CHECKSUM | crc32c(fields) << _FLAG_BITS,
            batch,
        )

    def _write_one(self, writer: sqlite3.Connection, operation: Operation) -> None:
        match operation:
            case Create(part):
                writer.execute(
                    "INSERT INTO partitions (number, topic_id, partition)"
                    " VALUES (?, ?, ?)",
                    (part.number, *part.partition),
                )
                writer.execute(_CHECK_PARTITION, (part.number,))
            case Delete(part):
                self._delete(writer, part.number)
            case Truncate(part, before):
                self._truncate(writer, part.number, before)
            case Replace(part, base_offset, batch):
                _replace(writer, part.number, base_offset, batch)
            case Put(space, key, value):
                put_value(writer, space, key, value)

    @staticmethod
    def _delete(writer: sqlite3.Connection, number: int) -> None:
        span = (_place(number, 0), _place(number, OFFSET_MAX))
        writer.execute("DELETE FROM batches WHERE place BETWEEN ? AND ?", span)
        writer.execute("DELETE FROM partitions WHERE number = ?", (number,))

    @staticmethod
    def _truncate(writer: sqlite3.Connection, number: int, before: int) -> None:
        writer.execute(
            "UPDATE partitions SET log_start_offset = max(log_start_offset, ?),"
            " next_offset = max(next_offset, ?) WHERE number = ?",
            (before, before, number),
        )
        writer.execute(_CHECK_PARTITION, (number,))
        writer.execute(
            "DELETE FROM batches WHERE place BETWEEN ? AND ? AND last_offset < ?",
            (_place(number, 0), _place(number, before), before),
        )


def _read_tail(
    part: SqlitePartition, offset: LogOffset, bytes_max: int
) -> Sequence[bytes]:
    found: list[bytes] = []
    size = 0
    while (kept := part.tail.get(offset)) is not None:
        batch, offset = kept
        if found and size + len(batch) > bytes_max:
            break
        found.append(batch)
        size += len(batch)
    return found


def _place(number: int, offset: LogOffset) -> int:
    assert 0 <= offset <= OFFSET_MAX
    return number << OFFSET_BITS | offset


def _replace(
    writer: sqlite3.Connection, number: int, base_offset: int, batch: bytes | None
) -> None:
    place = _place(number, base_offset)
    if batch is not None:
        writer.execute(
            "UPDATE batches SET bytes = ?, size_bytes = ? WHERE place = ?",
            (batch, len(batch), place),
        )
        return
    # At start, the next offset is computed from the last batch. Store it before
    # removing a batch, which may be the last one. The batch may already be truncated.
    writer.execute(
        "UPDATE partitions SET next_offset = max(next_offset, 1 + coalesce("
        "(SELECT last_offset FROM batches WHERE place = ?), -1)) WHERE number = ?",
        (place, number),
    )
    writer.execute(_CHECK_PARTITION, (number,))
    writer.execute("DELETE FROM batches WHERE place = ?", (place,))


def _is_batch(batch: object, base_offset: LogOffset) -> bool:
    """Return whether the bytes are those of a batch with that base offset."""
    return (
        isinstance(batch, bytes)
        and int.from_bytes(batch[:8], "big") == base_offset
        and int.from_bytes(batch[8:LENGTH_END], "big") == len(batch) - LENGTH_END
        and crc_matches(batch)
    )
