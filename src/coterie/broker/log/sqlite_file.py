"""The file of the embedded store: lock, schema, page checks and errors."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
from pathlib import Path
from typing import Final

from crc32c import crc32c

from coterie import portable_os
from coterie.errors import LogCorrupt, LogError, LogFull
from coterie.files import FILE_MODE

_LOGGER = logging.getLogger(__name__)

FILE_NAME: Final = "coterie.db"
LOCK_NAME: Final = "coterie.lock"
APPLICATION_ID: Final = 0x436F7465
SCHEMA_VERSION: Final = 2
"""Version 2 added the columns `crc`."""
CLEAN_NAME: Final = "coterie.clean"
"""The file that exists while no server uses the store and the last one was stopped."""
CHECKED_BYTES_MAX: Final = 32 * 1024 * 1024
"""After an unclean stop a store of up to this size is checked before the server starts:
a tenth of a second. A larger one is checked in the background."""
CHECKPOINT_PAGES: Final = 1_000
"""The length of the write-ahead log at which SQLite copies it into the database: 4
MB, a few milliseconds of one flush. More pages make no flush faster
(benchmarks/server/store.py)."""
WAL_BYTES: Final = (CHECKPOINT_PAGES + 64) * (4_096 + 24)
"""The length to which the write-ahead log is extended at start. The sync of a file that
grows also waits for the file system's journal, which doubles its time."""
COMMON_TABLES: Final = """
CREATE TABLE partitions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    topic_id BLOB NOT NULL,
    partition INTEGER NOT NULL,
    log_start_offset INTEGER NOT NULL DEFAULT 0,
    next_offset INTEGER NOT NULL DEFAULT 0,
    crc INTEGER,
    UNIQUE (topic_id, partition)
);
CREATE TABLE small_values (
    space TEXT NOT NULL,
    key BLOB NOT NULL,
    value BLOB NOT NULL,
    crc INTEGER,
    PRIMARY KEY (space, key)
) WITHOUT ROWID;
"""
"""The tables of both stores."""
_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
{COMMON_TABLES}
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
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
UPGRADE: Final = """
BEGIN IMMEDIATE;
ALTER TABLE partitions ADD COLUMN crc INTEGER;
ALTER TABLE small_values ADD COLUMN crc INTEGER;
PRAGMA user_version = 2;
COMMIT;
"""
_NOT_A_STORE: Final = (
    "{path} is not a Coterie store. Name another directory with --data, or move that"
    " file away."
)
_NEWER_STORE: Final = (
    "{path} was written by a newer Coterie (store version {found}; this one supports"
    " {known}). Start that version, or name another directory with --data."
)
_DAMAGED: Final = (
    "{path} is damaged: {reason}. Stop the server and restore its directory from a"
    " backup, or copy what is readable into a new store:"
    " sqlite3 {path} .recover | sqlite3 new.db"
)
_IN_USE: Final = (
    "{path} is in use by another server."
    " Stop it, or name another directory with --data."
)


def lock_store(path: Path) -> int:
    """Lock the store until this process ends.

    Raises LogError when another process holds the lock.
    """
    descriptor = open_file(path)
    if not portable_os.lock_file(descriptor):
        os.close(descriptor)
        raise LogError(_IN_USE.format(path=path.parent))
    return descriptor


def open_file(path: Path) -> int:
    """Open a file; create it readable for this user only if it does not exist.

    The store contains credentials and messages. SQLite creates the files beside a
    database with that database's mode.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | portable_os.BINARY, FILE_MODE)


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def check_application(
    connection: sqlite3.Connection, path: Path, newest: int = SCHEMA_VERSION
) -> int:
    """Return the version of a store, 0 for a new one.

    Raises LogError for another application's file and for a newer version than
    `newest`, before the file is changed.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    is_new = application == 0 and version == 0 and tables == 0
    if not is_new and application != APPLICATION_ID:
        raise LogError(_NOT_A_STORE.format(path=path))
    if version > newest:
        raise LogError(_NEWER_STORE.format(path=path, found=version, known=newest))
    return int(version)


def prepare(writer: sqlite3.Connection, synchronous: str) -> None:
    """Configure the writing connection, and create the tables of a new store."""
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute(f"PRAGMA synchronous = {synchronous}")
    writer.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    (version,) = writer.execute("PRAGMA user_version").fetchone()
    if version == 0:
        writer.executescript(_SCHEMA)
    elif version == 1:
        writer.executescript(UPGRADE)
    writer.create_function("row_crc", -1, row_crc, deterministic=True)


def extend(wal: Path) -> None:
    """Extend the write-ahead log with zeros to its usual length.

    SQLite stops reading at the first frame whose salt is not the header's, which zeros
    never match. When the disk is full, the file is not extended.
    """
    descriptor = open_file(wal)
    try:
        length = os.fstat(descriptor).st_size
        try:
            at = length
            while at < WAL_BYTES:
                at += portable_os.pwrite(descriptor, bytes(WAL_BYTES - at), at)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, length)
    finally:
        os.close(descriptor)


def row_crc(*fields: object) -> int:
    """Return the checksum of the fields of a row."""
    return crc32c(repr(fields).encode("utf-8", "surrogatepass"))


def value_crc(space: str, key: bytes, value: bytes) -> int:
    """Return the checksum of a row of small_values."""
    front = f"{space} {len(key)} ".encode()
    return crc32c(value, crc32c(key, crc32c(front)))


def mark_clean(path: Path) -> None:
    """Create the file that says that the last server was stopped."""
    os.close(open_file(path.with_name(CLEAN_NAME)))


def mark_unclean(path: Path, connection: sqlite3.Connection) -> None:
    """Remove the file of `mark_clean`. Without it, check the pages of the store.

    Raises LogCorrupt.
    """
    try:
        path.with_name(CLEAN_NAME).unlink()
    except FileNotFoundError:
        if path.stat().st_size > CHECKED_BYTES_MAX:
            threading.Thread(
                target=_check_pages, args=(path,), name="check", daemon=True
            ).start()
        elif (reason := damage_of(connection)) is not None:
            raise damaged(path, reason) from None


def damaged(path: Path, reason: str) -> LogCorrupt:
    """Return the error for a damaged store."""
    return LogCorrupt(_DAMAGED.format(path=path, reason=reason))


def damage_of(connection: sqlite3.Connection) -> str | None:
    """Return what is wrong with the pages of the store; None if nothing is."""
    try:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if found == "ok" else str(found).replace("\n", " ")


def _check_pages(path: Path) -> None:
    """Check a large store in the background, and log the result."""
    try:
        with contextlib.closing(connect(path)) as connection:
            reason = damage_of(connection)
    except sqlite3.Error as error:
        reason = str(error)
    if reason is not None:
        _LOGGER.error(_DAMAGED.format(path=path, reason=reason))


def log_error(path: Path, error: sqlite3.Error | UnicodeDecodeError) -> LogError:
    """Translate an error of SQLite."""
    if isinstance(error, UnicodeDecodeError):
        return damaged(path, str(error))
    # The low byte is the primary error code; the others refine it.
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return LogFull(f"{path}: {error}")
        case sqlite3.SQLITE_CORRUPT:
            return damaged(path, str(error))
        case sqlite3.SQLITE_NOTADB:
            return LogError(_NOT_A_STORE.format(path=path))
    return LogError(f"{path}: {error}")
