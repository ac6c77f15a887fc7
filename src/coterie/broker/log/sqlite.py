"""The embedded store: one SQLite file in WAL mode, synced at every flush.

Each record batch is a row: Kafka's own bytes, and beside them the fields of
`BatchInfo`, so that a search for a timestamp or a producer decodes no batch. The row id
("place") has the partition's number in its high bits and the base offset in its low
ones: a partition is a contiguous range of one b-tree, and an append is one insertion.

There are two connections: one writes, in the thread that runs the flush; one reads, in
the thread that owns the log. WAL mode allows both at the same time.

docs/decisions/0006-log-in-sqlite.md has the measurements and the alternatives.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from coterie.broker.log.log import (
    OFFSET_BITS,
    OFFSET_MAX,
    Append,
    BatchInfo,
    Create,
    Delete,
    FlushedPartition,
    LogPartition,
    Operation,
    Put,
    Replace,
    StagedWrite,
    StagingLog,
    Truncate,
)
from coterie.errors import LogCorrupt, LogError, LogFull
from coterie.files import FILE_MODE, make_private_directory
from coterie.types import LogOffset

FILE_NAME: Final = "coterie.db"
LOCK_NAME: Final = "coterie.lock"
APPLICATION_ID: Final = 0x436F7465
SCHEMA_VERSION: Final = 1
CHECKPOINT_PAGES: Final = 1_000
"""The length of the write-ahead log at which SQLite copies it into the database: 4
MB, a few milliseconds of one flush. More pages make no flush faster
(benchmarks/server/store.py)."""
WAL_BYTES: Final = (CHECKPOINT_PAGES + 64) * (4_096 + 24)
"""The length to which the write-ahead log is extended at start. The sync of a file that
grows also waits for the file system's journal, which doubles its time."""
TRANSACTIONAL, CONTROL = 1, 2

_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE partitions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    topic_id BLOB NOT NULL,
    partition INTEGER NOT NULL,
    log_start_offset INTEGER NOT NULL DEFAULT 0,
    next_offset INTEGER NOT NULL DEFAULT 0,
    UNIQUE (topic_id, partition)
);
CREATE TABLE batches (
    place INTEGER PRIMARY KEY,
    last_offset INTEGER NOT NULL,
    max_timestamp_ms INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    producer_id INTEGER NOT NULL,
    producer_epoch INTEGER NOT NULL,
    base_sequence INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL,
    flags INTEGER NOT NULL,
    bytes BLOB NOT NULL
);
CREATE TABLE small_values (
    space TEXT NOT NULL,
    key BLOB NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (space, key)
) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_INFOS: Final = """
SELECT place, last_offset, max_timestamp_ms, size_bytes, producer_id, producer_epoch,
    base_sequence, last_sequence, flags
FROM batches WHERE place BETWEEN ? AND ? AND max_timestamp_ms >= ? ORDER BY place
"""
_ANY_TIME: Final = -(1 << 63)
_NOT_A_STORE: Final = (
    "{path} is not a Coterie store. Name another directory with --data, or move that"
    " file away."
)
_NEWER_STORE: Final = (
    "{path} was written by a newer Coterie (store version {found}; this one supports"
    " {known}). Start that version, or name another directory with --data."
)
_IN_USE: Final = (
    "{path} is in use by another server."
    " Stop it, or name another directory with --data."
)


class SqliteLog(StagingLog):
    """A log in a directory, which is created if it does not exist.

    `synchronous` is SQLite's setting. Anything but "FULL" may lose flushed writes at a
    power failure, and is for measurements only.

    Raises LogError when the directory holds another file of that name or a newer
    store, or when another process uses it.
    """

    def __init__(self, directory: Path, *, synchronous: str = "FULL") -> None:
        super().__init__()
        make_private_directory(directory)
        self._lock = _lock(directory / LOCK_NAME)
        self.directory = directory
        self.path = directory / FILE_NAME
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, self._lock)
            os.close(_open_file(self.path))
            self._open(synchronous, undo)
            _sync_directory(directory)
            _sync_directory(directory.parent)
            undo.pop_all()
        self.numbers = {each: part.number for each, part in self._flushed.items()}

    def batch_infos(
        self, partition: LogPartition, offset: LogOffset = 0
    ) -> Iterator[BatchInfo]:
        part = self._flushed.get(partition)
        if part is None:
            return
        low, high = self._span(part, offset)
        for row in self._reader.execute(_INFOS, (low, high, _ANY_TIME)):
            yield _info(row)

    def find_timestamp(
        self, partition: LogPartition, timestamp_ms: int, offset: LogOffset = 0
    ) -> BatchInfo | None:
        part = self._flushed.get(partition)
        if part is None:
            return None
        low, high = self._span(part, offset)
        found = self._reader.execute(_INFOS, (low, high, timestamp_ms))
        row = found.fetchone()
        found.close()
        return None if row is None else _info(row)

    def get(self, space: str, key: bytes) -> bytes | None:
        row = self._reader.execute(
            "SELECT value FROM small_values WHERE space = ? AND key = ?", (space, key)
        ).fetchone()
        return None if row is None else bytes(row[0])

    def items(self, space: str) -> Iterator[tuple[bytes, bytes]]:
        yield from self._reader.execute(
            "SELECT key, value FROM small_values WHERE space = ? ORDER BY key", (space,)
        )

    def close(self) -> None:
        """Flush, close, and release the lock on the directory."""
        try:
            self.flush()
        finally:
            self._reader.close()
            self.writer.close()
            os.close(self._lock)

    def _open(self, synchronous: str, undo: contextlib.ExitStack) -> None:
        try:
            self.writer = undo.enter_context(contextlib.closing(_connect(self.path)))
            _check(self.writer, self.path)
            _prepare(self.writer, synchronous)
            _extend(self.path.with_name(f"{FILE_NAME}-wal"))
            self._reader = undo.enter_context(contextlib.closing(_connect(self.path)))
            self._load()
        except sqlite3.Error as error:
            raise _log_error(self.path, error) from error

    def _load(self) -> None:
        rows = self._reader.execute(
            "SELECT number, topic_id, partition, log_start_offset, next_offset"
            " FROM partitions"
        ).fetchall()
        for number, topic_id, partition, log_start_offset, next_offset in rows:
            part = FlushedPartition(number, log_start_offset, next_offset)
            last = self._reader.execute(
                "SELECT last_offset FROM batches WHERE place BETWEEN ? AND ?"
                " ORDER BY place DESC LIMIT 1",
                (_place(number, 0), _place(number, OFFSET_MAX)),
            ).fetchone()
            if last is not None:
                part.flushed_offset = max(next_offset, last[0] + 1)
            self._flushed[LogPartition(topic_id, partition)] = part

    def _staged_write(self, operations: list[Operation]) -> StagedWrite:
        return _SqliteWrite(self, operations)

    def _created(self, partition: LogPartition) -> FlushedPartition:
        assert partition not in self._flushed
        return FlushedPartition(self.numbers[partition], 0, 0)

    def _span(self, part: FlushedPartition, offset: LogOffset) -> tuple[int, int]:
        """Return the first and the last row id of the flushed batches, starting with
        the batch that contains `offset`."""
        low = _place(part.number, 0)
        high = _place(part.number, part.flushed_offset) - 1
        row = self._reader.execute(
            "SELECT place, last_offset FROM batches WHERE place BETWEEN ? AND ?"
            " ORDER BY place DESC LIMIT 1",
            (low, _place(part.number, offset)),
        ).fetchone()
        if row is None:
            return low, high
        assert row[0] & OFFSET_MAX <= row[1]
        return row[0] if row[1] >= offset else row[0] + 1, high

    def _read_store(
        self, part: FlushedPartition, offset: LogOffset, bytes_max: int
    ) -> Sequence[bytes]:
        found: list[bytes] = []
        size = 0
        rows = self._reader.execute(
            "SELECT bytes FROM batches WHERE place BETWEEN ? AND ? ORDER BY place",
            self._span(part, offset),
        )
        for (batch,) in rows:
            if found and size + len(batch) > bytes_max:
                break
            found.append(batch)
            size += len(batch)
        rows.close()
        return found

    def _measure(self, part: FlushedPartition) -> int:
        low, high = _place(part.number, 0), _place(part.number, OFFSET_MAX)
        (size,) = self._reader.execute(
            "SELECT coalesce(sum(size_bytes), 0) FROM batches"
            " WHERE place BETWEEN ? AND ?",
            (low, high),
        ).fetchone()
        return int(size)


class _SqliteWrite(StagedWrite):
    """A write in one transaction of SQLite, with one sync."""

    def __init__(self, log: SqliteLog, operations: list[Operation]) -> None:
        super().__init__(operations)
        self._log = log

    def write(self) -> None:
        if not self.operations:
            return
        writer = self._log.writer
        numbers = dict(self._log.numbers) if self._changes_numbers() else None
        try:
            writer.execute("BEGIN IMMEDIATE")
            self._write_all(writer)
            writer.execute("COMMIT")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                writer.execute("ROLLBACK")
            if numbers is not None:
                self._log.numbers = numbers
            if isinstance(error, sqlite3.Error):
                raise _log_error(self._log.path, error) from error
            raise

    def _changes_numbers(self) -> bool:
        return any(isinstance(each, Create | Delete) for each in self.operations)

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
        partition, batch, info = operation
        return (
            _place(self._log.numbers[partition], info.base_offset),
            info.last_offset,
            info.max_timestamp_ms,
            info.size_bytes,
            info.producer_id,
            info.producer_epoch,
            info.base_sequence,
            info.last_sequence,
            TRANSACTIONAL * info.is_transactional + CONTROL * info.is_control,
            batch,
        )

    def _write_one(self, writer: sqlite3.Connection, operation: Operation) -> None:
        match operation:
            case Create(partition):
                cursor = writer.execute(
                    "INSERT INTO partitions (topic_id, partition) VALUES (?, ?)",
                    partition,
                )
                assert cursor.lastrowid is not None
                self._log.numbers[partition] = cursor.lastrowid
            case Delete(partition):
                self._delete(writer, self._log.numbers.pop(partition))
            case Truncate(partition, before):
                self._truncate(writer, self._log.numbers[partition], before)
            case Replace(partition, base_offset, batch):
                _replace(writer, self._log.numbers[partition], base_offset, batch)
            case Put(space, key, value):
                _put(writer, space, key, value)

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
        writer.execute(
            "DELETE FROM batches WHERE place BETWEEN ? AND ? AND last_offset < ?",
            (_place(number, 0), _place(number, before), before),
        )


def _place(number: int, offset: LogOffset) -> int:
    assert 0 <= offset <= OFFSET_MAX
    return number << OFFSET_BITS | offset


def _info(row: tuple[int, int, int, int, int, int, int, int, int]) -> BatchInfo:
    assert row[1] >= row[0] & OFFSET_MAX
    place, last_offset, timestamp_ms, size, producer, epoch, base, last, flags = row
    return BatchInfo(
        base_offset=place & OFFSET_MAX,
        last_offset=last_offset,
        max_timestamp_ms=timestamp_ms,
        size_bytes=size,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=base,
        last_sequence=last,
        is_transactional=bool(flags & TRANSACTIONAL),
        is_control=bool(flags & CONTROL),
    )


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
    writer.execute("DELETE FROM batches WHERE place = ?", (place,))


def _put(
    writer: sqlite3.Connection, space: str, key: bytes, value: bytes | None
) -> None:
    if value is None:
        writer.execute(
            "DELETE FROM small_values WHERE space = ? AND key = ?", (space, key)
        )
        return
    writer.execute(
        "INSERT INTO small_values VALUES (?, ?, ?)"
        " ON CONFLICT (space, key) DO UPDATE SET value = excluded.value",
        (space, key, value),
    )


def _lock(path: Path) -> int:
    """Lock the store until this process ends.

    Raises LogError when another process holds the lock.
    """
    descriptor = _open_file(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise LogError(_IN_USE.format(path=path.parent)) from None
    return descriptor


def _open_file(path: Path) -> int:
    """Open a file; create it readable for this user only if it does not exist.

    The store contains credentials and messages. SQLite creates the files beside a
    database with that database's mode.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)


def _sync_directory(directory: Path) -> None:
    """Sync a directory: otherwise a new file may be lost at a power failure."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise LogError for another application's file, before it is changed."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    is_new = application == 0 and version == 0 and tables == 0
    if not is_new and application != APPLICATION_ID:
        raise LogError(_NOT_A_STORE.format(path=path))
    if version > SCHEMA_VERSION:
        raise LogError(
            _NEWER_STORE.format(path=path, found=version, known=SCHEMA_VERSION)
        )


def _prepare(writer: sqlite3.Connection, synchronous: str) -> None:
    """Configure the writing connection, and create the tables of a new store."""
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute(f"PRAGMA synchronous = {synchronous}")
    writer.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    (version,) = writer.execute("PRAGMA user_version").fetchone()
    if version == 0:
        writer.executescript(_SCHEMA)


def _extend(wal: Path) -> None:
    """Extend the write-ahead log with zeros to its usual length.

    SQLite stops reading at the first frame whose salt is not the header's, which zeros
    never match. When the disk is full, the file is not extended.
    """
    descriptor = os.open(wal, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        length = os.fstat(descriptor).st_size
        try:
            at = length
            while at < WAL_BYTES:
                at += os.pwrite(descriptor, bytes(WAL_BYTES - at), at)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, length)
    finally:
        os.close(descriptor)


def _log_error(path: Path, error: sqlite3.Error) -> LogError:
    """Translate an error of SQLite."""
    # The low byte is the primary error code; the others refine it.
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return LogFull(f"{path}: {error}")
        case sqlite3.SQLITE_CORRUPT:
            return LogCorrupt(f"{path}: {error}")
        case sqlite3.SQLITE_NOTADB:
            return LogError(_NOT_A_STORE.format(path=path))
    return LogError(f"{path}: {error}")
