"""The conversion of a store with batches in SQLite to one with segments.

A new manifest and the segments are written beside the old file, which is replaced by
the manifest at the end. Until then the old file is not changed, and an interrupted
conversion begins again.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from coterie import portable_os
from coterie.broker.log.checkpoint import Checkpointer
from coterie.broker.log.journal_frames import read_info
from coterie.broker.log.log import (
    OFFSET_BITS,
    OFFSET_MAX,
    Append,
    Create,
    LogPartition,
    Operation,
    Put,
    StoredPartition,
)
from coterie.broker.log.manifest import (
    MANIFEST_VERSION,
    Manifest,
    PartitionRow,
)
from coterie.broker.log.segments import SEGMENTS_NAME
from coterie.broker.log.sqlite_file import (
    CLEAN_NAME,
    FILE_NAME,
    UPGRADE,
    check_application,
    damage_of,
    damaged,
    log_error,
    row_crc,
)
from coterie.broker.log.sqlite_reader import SqliteReader, is_partition
from coterie.errors import LogFull

_LOGGER = logging.getLogger(__name__)

NEW_NAME: Final = "coterie.db.converting"
_NO_SPACE: Final = (
    "{directory} must be converted to segment files, for which {needed} MB must be free"
    " on its disk: {free} MB are. Delete other files, or start the version of Coterie"
    " that wrote it."
)


def store_version(path: Path) -> int:
    """Return the version of a store, 0 for a new one.

    Raises LogError for a file that is not a store, or that is a newer one.
    """
    if not path.exists():
        return 0
    with contextlib.closing(SqliteReader(path)) as reader:
        try:
            return check_application(reader.connection, path, MANIFEST_VERSION)
        except sqlite3.Error as error:
            raise log_error(path, error) from error


def convert_store(directory: Path, synchronous: str, segment_bytes: int) -> None:
    """Convert a store of version 1 or 2.

    Raises LogCorrupt when it is damaged, and LogFull when the disk has not enough
    space.
    """
    path = directory / FILE_NAME
    remove_converting(directory)
    with contextlib.closing(SqliteReader(path)) as reader:
        try:
            if check_application(reader.connection, path) == 1:
                reader.connection.executescript(UPGRADE)
            _convert(directory, reader, synchronous, segment_bytes)
            # Its write-ahead log must not be found beside the new file.
            reader.connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            raise log_error(path, error) from error
    new = directory / NEW_NAME
    assert not new.with_name(f"{NEW_NAME}-wal").exists()
    new.chmod(path.stat().st_mode & 0o777)
    new.replace(path)
    portable_os.sync_directory(directory)
    _LOGGER.info("%s: converted", directory)


def remove_converting(directory: Path) -> None:
    """Remove the manifest of an interrupted conversion. Its segments remain until the
    next one."""
    for path in directory.glob(f"{NEW_NAME}*"):
        path.unlink()


def _convert(
    directory: Path, reader: SqliteReader, synchronous: str, segment_bytes: int
) -> None:
    size = reader.path.stat().st_size
    free = shutil.disk_usage(directory).free
    if size > free:
        text = _NO_SPACE.format(
            directory=directory, needed=(size >> 20) + 1, free=free >> 20
        )
        raise LogFull(text)
    if not (directory / CLEAN_NAME).exists():
        reason = damage_of(reader.connection)
        if reason is not None:
            raise damaged(reader.path, reason)
    rows = list(_partitions(reader))
    _LOGGER.info(
        "%s: the batches of %d partitions (%.1f MB) are moved to segment files, once",
        directory,
        len(rows),
        size / 1e6,
    )
    shutil.rmtree(directory / SEGMENTS_NAME, ignore_errors=True)
    with contextlib.ExitStack() as opened:
        manifest = Manifest(directory / NEW_NAME, synchronous)
        opened.callback(manifest.close)
        checkpointer = Checkpointer(
            manifest, rows, segment_bytes=segment_bytes, sync=synchronous == "FULL"
        )
        opened.callback(checkpointer.close)
        operations: list[Operation] = []
        step_bytes = 0
        for operation, size_bytes in _operations(reader, rows):
            operations.append(operation)
            step_bytes += size_bytes
            if step_bytes >= segment_bytes // 4:  # all of a step is in memory
                checkpointer.move([operations], 0, 0)
                operations, step_bytes = [], 0
        checkpointer.move([operations], 0, 0)


def _operations(
    reader: SqliteReader, rows: list[PartitionRow]
) -> Iterator[tuple[Operation, int]]:
    """Yield the contents of a store as operations, and their sizes."""
    for row in rows:
        part = StoredPartition(
            row.partition, row.number, row.log_start_offset, row.next_offset
        )
        yield Create(part), 0
        for append in _appends(reader, part):
            yield append, len(append.batch)
    spaces = reader.query("SELECT DISTINCT space FROM small_values")
    for (space,) in list(spaces):
        for key, value in reader.items(space):
            yield Put(space, key, value), len(key) + len(value)


def _appends(reader: SqliteReader, part: StoredPartition) -> Iterator[Append]:
    low = part.number << OFFSET_BITS
    sql = "SELECT place, bytes FROM batches WHERE place BETWEEN ? AND ? ORDER BY place"
    for place, batch in reader.query(sql, (low, low | OFFSET_MAX)):
        try:
            info = read_info(batch)
            is_right = info[0] == place & OFFSET_MAX and info.size_bytes == len(batch)
        except (TypeError, ValueError, struct.error):
            is_right = False
        if not is_right:
            raise reader.corrupt(f"the batch in row {place} of batches")
        yield Append(part, batch, info)


def _partitions(reader: SqliteReader) -> Iterator[PartitionRow]:
    """Yield the partitions of the old store, without segments."""
    sql = (
        "SELECT number, topic_id, partition, log_start_offset, next_offset, crc"
        " FROM partitions"
    )
    for *fields, crc in list(reader.query(sql)):
        # Rows of version 1 have no checksum.
        number, topic_id, partition, start, end = fields
        is_right = is_partition(fields) and start <= end
        if not is_right or crc not in {None, row_crc(*fields)}:
            raise reader.corrupt(f"the row {number} of partitions")
        where = LogPartition(topic_id, partition)
        yield PartitionRow(number, where, start, end, ())
