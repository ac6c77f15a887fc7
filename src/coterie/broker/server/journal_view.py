"""A view of a store with journals and segments, which a server may be writing.

The state of such a store is that of its manifest, with the frames of the journals that
follow it. A checkpoint copies frames to segments, commits the manifest, and then lets a
journal be overwritten. So the journals are read between two reads of the manifest, and
again when a checkpoint was committed meanwhile. Nothing is locked or changed, and
segments are not opened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from crc32c import crc32c

from coterie.broker.log.directory import MANIFEST_NAME
from coterie.broker.log.journal_frames import (
    Frame,
    decode_operations,
    find_newer,
    read_frames,
)
from coterie.broker.log.log import (
    Create,
    Delete,
    LogPartition,
    Put,
    StoredPartition,
    Truncate,
)
from coterie.broker.log.manifest import (
    PartitionRow,
    SegmentRow,
    log_error,
    refusal,
    row_crc,
)
from coterie.errors import LogError, SettingError

JOURNALS: Final = ("journal/0.journal", "journal/1.journal")
_ATTEMPTS: Final = 50
"""The number of times that checkpoints may interrupt a read."""


_BUSY_S: Final = 10.0
"""The time to wait for a server that is starting or stopping."""


@dataclass(frozen=True, slots=True)
class StoreFile:
    """The manifest in a server's data directory, which a server may be writing.

    The file is opened read-only, without the lock, and no file is created beside it.
    Each query opens its own short connection. With a write-ahead log beside the file,
    SQLite lets readers and the writer work concurrently. Without one there is no
    writer: then the file is opened as immutable, because SQLite would otherwise create
    files of its own, which the server might have no right to open. If a server starts
    during such a query, the query is repeated.
    """

    directory: Path

    @property
    def path(self) -> Path:
        return self.directory / MANIFEST_NAME

    def query(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        Raises SettingError if the manifest is missing, or is of another application or
        version, and LogError when SQLite fails.
        """
        wal = self.path.with_name(f"{MANIFEST_NAME}-wal")
        is_immutable = not wal.exists()
        rows = self._query(query, values, is_immutable=is_immutable)
        if is_immutable and wal.exists():
            return self._query(query, values, is_immutable=False)
        return rows

    def _query(
        self, query: str, values: Sequence[Any], *, is_immutable: bool
    ) -> list[tuple[Any, ...]]:
        if not self.path.is_file():
            raise SettingError(
                f"{self.directory} has no {MANIFEST_NAME}: give the directory that"
                " `coterie serve` has as --data"
            )
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        if is_immutable:
            uri += "&immutable=1"
        try:
            with closing(sqlite3.connect(uri, timeout=_BUSY_S, uri=True)) as connection:
                reason = refusal(connection, self.path)
                if reason is not None:
                    raise SettingError(reason)
                return connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise log_error(self.path, error) from None


class JournalView:
    """The state of a store when it was last read. See the module's docstring.

    As in recovery, a frame that is not as it was written, with later ones after it, is
    an error. Raises LogError.
    """

    def __init__(self, file: StoreFile) -> None:
        self._file = file
        self.partitions: dict[int, PartitionRow] = {}
        """The partitions by number, with the segments that have not been removed."""
        self._values: dict[tuple[str, bytes], bytes | None] = {}
        """The changes of the key-value store in the journals."""
        self.frames = 0
        """The number of frames that follow the manifest."""
        self._position = (0, b"")
        """The last sequence in the manifest, and the salt, when it was read."""
        self._read()

    def items(self, space: str) -> list[tuple[bytes, bytes]]:
        """Return the keys and values of a namespace, in order of keys."""
        query = "SELECT key, value FROM small_values WHERE space = ?"
        rows = self._file.query(query, (space,))
        while self._read_position() != self._position:  # a checkpoint was committed
            self._read()
            rows = self._file.query(query, (space,))
        values: dict[bytes, bytes | None] = dict(rows)
        values |= {
            key: value for (of, key), value in self._values.items() if of == space
        }
        return [
            (key, value) for key, value in sorted(values.items()) if value is not None
        ]

    def _read(self) -> None:
        for _ in range(_ATTEMPTS):
            applied, salt = position = self._read_position()
            self._read_manifest()
            frames = self._read_frames(applied, crc32c(salt))
            if frames is not None and self._read_position() == position:
                self._position, self.frames = position, len(frames)
                self._apply(frames)
                return
        raise LogError(
            f"{self._file.directory}: the writes after number {applied} are not in the"
            " journals, or checkpoints are too frequent to read them: if the server"
            " does not start, restore the directory from a backup"
        )

    def _read_frames(self, applied: int, seed: int) -> list[Frame] | None:
        """Return the frames after the sequence `applied`, in order.

        Return None when frames are missing between others: a journal was overwritten
        meanwhile, or is damaged.
        """
        found: list[Frame] = []
        for name in JOURNALS:
            path = self._file.directory / name
            try:
                data = path.read_bytes()
            except OSError as error:
                raise LogError(f"{path}: {error.strerror}") from None
            frames = read_frames(data, seed)
            end = frames[-1].end if frames else 0
            last = max(applied, frames[-1].sequence if frames else 0)
            if find_newer(data, end, seed, last) is not None:
                return None
            found += [each for each in frames if each.sequence > applied]
        found.sort(key=lambda each: each.sequence)
        expected = range(applied + 1, applied + 1 + len(found))
        return found if [each.sequence for each in found] == [*expected] else None

    def _read_position(self) -> tuple[int, bytes]:
        rows = self._file.query("SELECT applied, salt, crc FROM journal")
        [(applied, salt)] = self._checked("journal", rows)
        return applied, salt

    def _read_manifest(self) -> None:
        rows = self._file.query(
            "SELECT number, base_offset, version, size_bytes, end_offset,"
            " max_timestamp_ms, crc FROM segments ORDER BY number, base_offset"
        )
        segments: dict[int, list[SegmentRow]] = {}
        for number, *fields in self._checked("segments", rows):
            segments.setdefault(number, []).append(SegmentRow(*fields))
        rows = self._file.query(
            "SELECT number, topic_id, partition, log_start_offset, next_offset, crc"
            " FROM partitions"
        )
        self.partitions = {}
        for fields in self._checked("partitions", rows):
            number, topic_id, partition, start, end = fields
            self.partitions[number] = PartitionRow(
                number,
                LogPartition(topic_id, partition),
                start,
                end,
                # A checkpoint between the two queries is found afterwards.
                tuple(segments.get(number, ())),
            )
        self._values = {}

    def _checked(
        self, table: str, rows: Sequence[Sequence[object]]
    ) -> Iterator[list[Any]]:
        """Yield rows without their checksum, which is the last column."""
        for *fields, crc in rows:
            if crc != row_crc(*fields):
                raise LogError(
                    f"{self._file.path} is damaged: the row {fields[0]} of {table}:"
                    " restore the directory from a backup"
                )
            yield fields

    def _apply(self, frames: Sequence[Frame]) -> None:
        parts = {
            number: StoredPartition(each.partition, number)
            for number, each in self.partitions.items()
        }
        for frame in frames:
            for operation in decode_operations(frame.body, parts, StoredPartition):
                match operation:
                    case Put(space, key, value):
                        self._values[space, key] = value
                    case Create(part):
                        row = PartitionRow(part.number, part.partition, 0, 0, ())
                        self.partitions[part.number] = row
                    case Delete(part):
                        del self.partitions[part.number]
                    case Truncate(part, before):
                        row = self.partitions[part.number]
                        start = max(row.log_start_offset, before)
                        row = row._replace(log_start_offset=start)
                        self.partitions[part.number] = row
        for number, row in self.partitions.items():
            start = row.log_start_offset
            kept = tuple(each for each in row.segments if each.end_offset > start)
            self.partitions[number] = row._replace(segments=kept)
