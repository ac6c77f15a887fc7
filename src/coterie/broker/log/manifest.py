"""The manifest of a data directory: what its segment files contain.

It is an SQLite file with the partitions, the lengths of their segments, the key-value
store, and the sequence number of the last write of the journals that is contained in
all of these. One transaction changes them together.

SQLite does not notice a changed byte, so each row has a checksum.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from coterie.broker.log.directory import open_file
from coterie.broker.log.log import LogPartition
from coterie.errors import LogCorrupt, LogError, LogFull
from coterie.types import LogOffset

_LOGGER = logging.getLogger(__name__)

APPLICATION_ID: Final = 0x436F7465
STORE_VERSION: Final = 3
CHECKED_BYTES_MAX: Final = 32 * 1024 * 1024
"""After an unclean stop a manifest of up to this size is checked before the server
starts: a tenth of a second. A larger one is checked in the background."""
_SALT_BYTES: Final = 8
_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE partitions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    topic_id BLOB NOT NULL,
    partition INTEGER NOT NULL,
    log_start_offset INTEGER NOT NULL DEFAULT 0,
    next_offset INTEGER NOT NULL DEFAULT 0,
    crc INTEGER NOT NULL,
    UNIQUE (topic_id, partition)
);
CREATE TABLE small_values (
    space TEXT NOT NULL,
    key BLOB NOT NULL,
    value BLOB NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (space, key)
) WITHOUT ROWID;
CREATE TABLE segments (
    number INTEGER NOT NULL,
    base_offset INTEGER NOT NULL,
    version INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    end_offset INTEGER NOT NULL,
    max_timestamp_ms INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (number, base_offset)
) WITHOUT ROWID;
CREATE TABLE journal (
    applied INTEGER NOT NULL,
    salt BLOB NOT NULL,
    crc INTEGER NOT NULL
);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {STORE_VERSION};
"""
_NOT_A_STORE: Final = (
    "{path} is not a Coterie store. Name another directory with --data, or move that"
    " file away."
)
_OTHER_VERSION: Final = (
    "{path} was written by another version of Coterie (store version {found}; this one"
    " supports {known}). Start that version, or name another directory with --data."
)
_DAMAGED: Final = (
    "{path} is damaged: {reason}. Stop the server and restore its directory from a"
    " backup."
)


class SegmentRow(NamedTuple):
    """A segment file: its first `size_bytes` bytes are valid.

    `version` is increased when compaction writes the segment to another file.
    `end_offset` is greater than all its offsets, also after compaction removed the last
    batch. No batch has a greater timestamp than `max_timestamp_ms`.
    """

    base_offset: LogOffset
    version: int
    size_bytes: int
    end_offset: LogOffset
    max_timestamp_ms: int


class PartitionRow(NamedTuple):
    """A partition with its segments, in order of offsets."""

    number: int
    partition: LogPartition
    log_start_offset: LogOffset
    next_offset: LogOffset
    segments: tuple[SegmentRow, ...]


@dataclass
class Changes:
    """The changes of one checkpoint."""

    applied: int
    """The sequence number of the last write that is contained."""
    changed: list[PartitionRow] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)
    values: dict[tuple[str, bytes], bytes | None] = field(default_factory=dict)


class Manifest:
    """The open manifest of a data directory, which is created if it does not exist.

    Of its two connections one writes, in the thread that runs checkpoints; the other
    one reads, in the thread that owns the log.

    All methods raise LogError, and LogFull and LogCorrupt.
    """

    def __init__(self, path: Path, *, is_synced: bool) -> None:
        self.path = path
        os.close(open_file(path))
        with contextlib.ExitStack() as undo:
            try:
                self._writer = undo.enter_context(contextlib.closing(_connect(path)))
                self._prepare(is_synced=is_synced)
                self._reader = _connect(path)
            except sqlite3.Error as error:
                raise log_error(path, error) from error
            undo.pop_all()

    def check_pages(self) -> None:
        """Check the pages of the file, a large one in the background.

        Raises LogCorrupt.
        """
        if self.path.stat().st_size > CHECKED_BYTES_MAX:
            threading.Thread(
                target=_check_pages, args=(self.path,), name="check", daemon=True
            ).start()
        elif (reason := damage_of(self._reader)) is not None:
            raise self._corrupt(reason)

    def journal(self) -> tuple[int, bytes]:
        """Return the sequence number of the last contained write, and the salt."""
        row = self._first("SELECT applied, salt, crc FROM journal")
        if row is None or row[2] != row_crc(*row[:2]) or not isinstance(row[1], bytes):
            raise self._corrupt("the row of the table journal")
        return int(row[0]), row[1]

    def partitions(self) -> Iterator[PartitionRow]:
        """Yield all partitions with their segments."""
        segments: dict[int, list[SegmentRow]] = {}
        sql = (
            "SELECT number, base_offset, version, size_bytes, end_offset,"
            " max_timestamp_ms, crc FROM segments ORDER BY number, base_offset"
        )
        for number, *fields, crc in self._rows(sql):
            if crc != row_crc(number, *fields) or not _are_ints(number, *fields):
                raise self._corrupt(f"segment {fields[0]} of partition {number}")
            segments.setdefault(number, []).append(SegmentRow(*fields))
        sql = (
            "SELECT number, topic_id, partition, log_start_offset, next_offset, crc"
            " FROM partitions"
        )
        for *fields, crc in self._rows(sql):
            if not _is_partition(fields) or crc != row_crc(*fields):
                raise self._corrupt(f"the row {fields[0]} of partitions")
            number, topic_id, partition, start, end = fields
            where = LogPartition(topic_id, partition)
            rows = tuple(segments.pop(number, ()))
            yield PartitionRow(number, where, start, end, rows)
        if segments:
            raise self._corrupt(f"segments of unknown partitions {[*segments]}")

    def last_number(self) -> int:
        """Return the largest number a partition has had: none is used again."""
        (number,) = self._first("SELECT max(seq) FROM sqlite_sequence")
        if not isinstance(number, int | None):
            raise self._corrupt("the table sqlite_sequence")
        return number or 0

    def get(self, space: str, key: bytes) -> bytes | None:
        """Return a value of the key-value store."""
        row = self._first(
            "SELECT key, value, crc FROM small_values WHERE space = ? AND key = ?",
            (space, key),
        )
        return None if row is None else self._value(space, row)[1]

    def items(self, space: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values of a namespace, in order of keys."""
        rows = self._rows(
            "SELECT key, value, crc FROM small_values WHERE space = ? ORDER BY key",
            (space,),
        )
        for row in rows:
            yield self._value(space, row)

    def commit(self, changes: Changes) -> None:
        """Store the changes, all or none."""
        writer = self._writer
        assert changes.applied >= 0
        try:
            writer.execute("BEGIN IMMEDIATE")
            for number in changes.deleted:
                writer.execute("DELETE FROM segments WHERE number = ?", (number,))
                writer.execute("DELETE FROM partitions WHERE number = ?", (number,))
            for row in changes.changed:
                _write_partition(writer, row)
            for (space, key), value in changes.values.items():
                _put_value(writer, space, key, value)
            [(salt,)] = writer.execute("SELECT salt FROM journal")
            _write_journal(writer, changes.applied, salt)
            writer.execute("COMMIT")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                writer.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise log_error(self.path, error) from error
            raise

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def _prepare(self, *, is_synced: bool) -> None:
        writer = self._writer
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'OFF'}")
        if _is_empty(writer):
            writer.executescript(_SCHEMA)
            _write_journal(writer, 0, os.urandom(_SALT_BYTES))
            writer.execute("COMMIT")
            # Without the salt the journals could not be read, so it must not depend on
            # another file.
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _rows(self, sql: str, values: tuple[object, ...] = ()) -> Iterator[Any]:
        try:
            cursor = self._reader.execute(sql, values)
            while (row := cursor.fetchone()) is not None:
                yield row
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise log_error(self.path, error) from error

    def _first(self, sql: str, values: tuple[object, ...] = ()) -> Any:
        """Return the first row of a query; None without rows."""
        try:
            cursor = self._reader.execute(sql, values)
            row = cursor.fetchone()
            cursor.close()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise log_error(self.path, error) from error
        return row

    def _value(self, space: str, row: Any) -> tuple[bytes, bytes]:
        key, value, crc = row
        if not (isinstance(key, bytes) and isinstance(value, bytes)):
            raise self._corrupt(f"{space}: a key or value is not bytes")
        if crc != _value_crc(space, key, value):
            raise self._corrupt(f"{space}: wrong checksum of the value of {key!r}")
        return key, value

    def _corrupt(self, reason: str) -> LogCorrupt:
        return LogCorrupt(_DAMAGED.format(path=self.path, reason=reason))


def is_new(path: Path) -> bool:
    """Return whether a manifest is to be created: there is no file, or an empty one.

    Raises LogError for a file of another application or of another version, which is
    not changed.
    """
    if not path.exists():
        return True
    with contextlib.closing(_connect(path)) as connection:
        try:
            if _is_empty(connection):
                return True
            reason = refusal(connection, path)
        except sqlite3.Error as error:
            raise log_error(path, error) from error
    if reason is not None:
        raise LogError(reason)
    return False


def refusal(connection: sqlite3.Connection, path: Path) -> str | None:
    """Return why a file is no manifest of this version; None for one that is."""
    try:
        [(application,)] = connection.execute("PRAGMA application_id")
        [(version,)] = connection.execute("PRAGMA user_version")
    except sqlite3.DatabaseError as error:
        if _primary_code(error) != sqlite3.SQLITE_NOTADB:
            raise
        return _NOT_A_STORE.format(path=path)
    if application != APPLICATION_ID:
        return _NOT_A_STORE.format(path=path)
    if version != STORE_VERSION:
        return _OTHER_VERSION.format(path=path, found=version, known=STORE_VERSION)
    return None


def _is_empty(connection: sqlite3.Connection) -> bool:
    [(application,)] = connection.execute("PRAGMA application_id")
    [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_master")
    return bool(application == tables == 0)


def row_crc(*fields: object) -> int:
    """Return the checksum of the fields of a row."""
    return crc32c(repr(fields).encode("utf-8", "surrogatepass"))


def damage_of(connection: sqlite3.Connection) -> str | None:
    """Return what is wrong with the pages of the file; None if nothing is."""
    try:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if found == "ok" else str(found).replace("\n", " ")


def log_error(path: Path, error: sqlite3.Error | UnicodeDecodeError) -> LogError:
    """Translate an error of SQLite."""
    if isinstance(error, UnicodeDecodeError):
        return LogCorrupt(_DAMAGED.format(path=path, reason=error))
    match _primary_code(error):
        case sqlite3.SQLITE_FULL:
            return LogFull(f"{path}: {error}")
        case sqlite3.SQLITE_CORRUPT:
            return LogCorrupt(_DAMAGED.format(path=path, reason=error))
        case sqlite3.SQLITE_NOTADB:
            return LogError(_NOT_A_STORE.format(path=path))
    return LogError(f"{path}: {error}")


def _primary_code(error: sqlite3.Error) -> int:
    """Return the error code of SQLite without the higher bytes, which refine it."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def _check_pages(path: Path) -> None:
    """Check a large file in the background, and log the result."""
    try:
        with contextlib.closing(_connect(path)) as connection:
            reason = damage_of(connection)
    except sqlite3.Error as error:
        reason = str(error)
    if reason is not None:
        _LOGGER.error(_DAMAGED.format(path=path, reason=reason))


def _write_partition(writer: sqlite3.Connection, row: PartitionRow) -> None:
    """Store a partition and exactly its segments."""
    number, (topic_id, partition), start, end, segments = row
    assert 0 <= start <= end
    fields = (number, topic_id, partition, start, end)
    writer.execute(
        "INSERT INTO partitions VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (number)"
        " DO UPDATE SET log_start_offset = excluded.log_start_offset,"
        " next_offset = excluded.next_offset, crc = excluded.crc",
        (*fields, row_crc(*fields)),
    )
    stored = writer.execute(
        "SELECT base_offset, version, size_bytes, end_offset, max_timestamp_ms"
        " FROM segments WHERE number = ?",
        (number,),
    ).fetchall()
    kept = {SegmentRow(*each) for each in stored}
    for segment in kept.difference(segments):
        writer.execute(
            "DELETE FROM segments WHERE number = ? AND base_offset = ?",
            (number, segment.base_offset),
        )
    for segment in segments:
        if segment in kept:
            continue
        assert segment.size_bytes >= 0
        assert segment.end_offset >= segment.base_offset
        writer.execute(
            "INSERT INTO segments VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, *segment, row_crc(number, *segment)),
        )


def _put_value(
    writer: sqlite3.Connection, space: str, key: bytes, value: bytes | None
) -> None:
    if value is None:
        writer.execute(
            "DELETE FROM small_values WHERE space = ? AND key = ?", (space, key)
        )
        return
    writer.execute(
        "INSERT INTO small_values VALUES (?, ?, ?, ?) ON CONFLICT (space, key)"
        " DO UPDATE SET value = excluded.value, crc = excluded.crc",
        (space, key, value, _value_crc(space, key, value)),
    )


def _value_crc(space: str, key: bytes, value: bytes) -> int:
    front = f"{space} {len(key)} ".encode()
    return crc32c(value, crc32c(key, crc32c(front)))


def _write_journal(writer: sqlite3.Connection, applied: int, salt: bytes) -> None:
    assert len(salt) == _SALT_BYTES
    writer.execute("DELETE FROM journal")
    writer.execute(
        "INSERT INTO journal VALUES (?, ?, ?)", (applied, salt, row_crc(applied, salt))
    )


def _is_partition(fields: Sequence[object]) -> bool:
    """Return whether the fields of a row of partitions have their types and bounds."""
    number, topic_id, partition, start, end = fields
    return (
        isinstance(topic_id, bytes)
        and len(topic_id) == 16
        and all(isinstance(each, int) and each >= 0 for each in (number, partition))
        and isinstance(start, int)
        and isinstance(end, int)
        and 0 <= start <= end
    )


def _are_ints(*values: object) -> bool:
    return all(isinstance(each, int) for each in values)
