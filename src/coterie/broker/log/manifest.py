"""The manifest of a store with journals: what its segment files contain.

It is an SQLite file with the partitions, the lengths of their segments, the key-value
store, and the sequence number of the last write of the journals that is contained in
all of these. One transaction changes them together.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from coterie.broker.log.log import LogPartition
from coterie.broker.log.sqlite_file import (
    APPLICATION_ID,
    COMMON_TABLES,
    connect,
    log_error,
    open_file,
    row_crc,
)
from coterie.broker.log.sqlite_reader import SqliteReader, is_partition, put_value
from coterie.types import LogOffset

MANIFEST_VERSION: Final = 3
"""The store version in which batches are in segment files."""
_SALT_BYTES: Final = 8
SEGMENT_TABLES: Final = """
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
CREATE TABLE journal (applied INTEGER NOT NULL, salt BLOB NOT NULL, crc INTEGER);
"""
_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
{COMMON_TABLES}
{SEGMENT_TABLES}
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {MANIFEST_VERSION};
COMMIT;
"""


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
    """The open manifest of a store. `read` belongs to the thread that owns the log.

    Raises LogError, LogFull and LogCorrupt.
    """

    def __init__(self, path: Path, synchronous: str) -> None:
        self.path = path
        os.close(open_file(path))
        with contextlib.ExitStack() as undo:
            try:
                self._writer = undo.enter_context(contextlib.closing(connect(path)))
                self._prepare(synchronous)
                self.read = SqliteReader(path)
            except sqlite3.Error as error:
                raise log_error(path, error) from error
            undo.pop_all()

    def journal(self) -> tuple[int, bytes]:
        """Return the sequence number of the last contained write, and the salt."""
        row = self.read.first("SELECT applied, salt, crc FROM journal")
        if row is None or row[2] != row_crc(*row[:2]) or not isinstance(row[1], bytes):
            raise self.read.corrupt("the row of the table journal")
        return int(row[0]), row[1]

    def partitions(self) -> Iterator[PartitionRow]:
        """Yield all partitions with their segments."""
        segments: dict[int, list[SegmentRow]] = {}
        sql = (
            "SELECT number, base_offset, version, size_bytes, end_offset,"
            " max_timestamp_ms, crc FROM segments ORDER BY number, base_offset"
        )
        for number, *fields, crc in self.read.query(sql):
            if crc != row_crc(number, *fields) or not _are_ints(number, *fields):
                raise self.read.corrupt(f"segment {fields[0]} of partition {number}")
            segments.setdefault(number, []).append(SegmentRow(*fields))
        sql = (
            "SELECT number, topic_id, partition, log_start_offset, next_offset, crc"
            " FROM partitions"
        )
        for *fields, crc in self.read.query(sql):
            number, topic_id, partition, start, end = fields
            is_right = is_partition(fields) and start <= end
            if not is_right or crc != row_crc(*fields):
                raise self.read.corrupt(f"the row {number} of partitions")
            where = LogPartition(topic_id, partition)
            rows = tuple(segments.pop(number, ()))
            yield PartitionRow(number, where, start, end, rows)
        if segments:
            raise self.read.corrupt(f"segments of unknown partitions {[*segments]}")

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
                write_partition(writer, row)
            for (space, key), value in changes.values.items():
                put_value(writer, space, key, value)
            _, salt = self._writer.execute(
                "SELECT applied, salt FROM journal"
            ).fetchone()
            write_journal(writer, changes.applied, salt)
            writer.execute("COMMIT")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                writer.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise log_error(self.path, error) from error
            raise

    def close(self) -> None:
        self.read.close()
        self._writer.close()

    def _prepare(self, synchronous: str) -> None:
        writer = self._writer
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute(f"PRAGMA synchronous = {synchronous}")
        (version,) = writer.execute("PRAGMA user_version").fetchone()
        assert version in {0, MANIFEST_VERSION}
        if version == 0:
            writer.executescript(_SCHEMA)
        if writer.execute("SELECT count(*) FROM journal").fetchone() == (0,):
            writer.execute("BEGIN IMMEDIATE")
            write_journal(writer, 0, os.urandom(_SALT_BYTES))
            writer.execute("COMMIT")
            # Without the salt the journals could not be read, so it must not depend on
            # another file.
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def write_partition(writer: sqlite3.Connection, row: PartitionRow) -> None:
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
    _insert_segments(
        writer, number, [segment for segment in segments if segment not in kept]
    )


def _insert_segments(
    writer: sqlite3.Connection, number: int, segments: Iterable[SegmentRow]
) -> None:
    for segment in segments:
        assert segment.size_bytes >= 0
        assert segment.end_offset >= segment.base_offset
        writer.execute(
            "INSERT INTO segments VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, *segment, row_crc(number, *segment)),
        )


def write_journal(writer: sqlite3.Connection, applied: int, salt: bytes) -> None:
    """Store the row of the table journal."""
    assert len(salt) == _SALT_BYTES
    writer.execute("DELETE FROM journal")
    writer.execute(
        "INSERT INTO journal VALUES (?, ?, ?)", (applied, salt, row_crc(applied, salt))
    )


def _are_ints(*values: object) -> bool:
    return all(isinstance(each, int) for each in values)
