"""A view of a store with journals and segments, which a server may be writing.

The state of such a store is that of its manifest, with the frames of the journals that
follow it. A checkpoint copies frames to segments, commits the manifest, and then lets a
journal be overwritten. So the journals are read between two reads of the manifest, and
again when a checkpoint was committed meanwhile. Their batches are kept in memory.
Segments are not opened: they may be removed later, when compaction or retention has
removed their batches.

Nothing is locked or changed. A frame is in the journal before it is durable. Journals
are therefore synced before their frames are used: a view has nothing that a power
failure could still remove.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from coterie import portable_os
from coterie.broker.log.journal_frames import (
    FRAME_HEADER,
    FRAME_MAGIC,
    Frame,
    decode_operations,
    find_newer,
    read_frames,
)
from coterie.broker.log.log import (
    Append,
    Create,
    Delete,
    LogPartition,
    Operation,
    Put,
    Replace,
    StoredPartition,
    Truncate,
)
from coterie.broker.log.manifest import SegmentRow, row_crc
from coterie.broker.log.store_file import StoreFile
from coterie.errors import LogError

JOURNALS: Final = ("journal/0.journal", "journal/1.journal")
BLOCK_BYTES: Final = 1 << 20
"""The size of the first read of a journal."""
ATTEMPTS: Final = 50
"""The number of times that checkpoints may interrupt a read."""


class TailBatch(NamedTuple):
    """A batch in a journal."""

    file: str
    position: int
    """The position of its frame."""
    last_offset: int
    max_timestamp_ms: int
    content: bytes


@dataclass(slots=True)
class ViewPartition:
    """The state of a partition."""

    where: LogPartition
    log_start_offset: int = 0
    next_offset: int = 0
    segments: list[SegmentRow] = field(default_factory=list)
    tail: dict[int, TailBatch] = field(default_factory=dict)
    """The batches in the journals, by base offset, in order."""
    replaced: dict[int, bytes | None] = field(default_factory=dict)
    """The compacted forms of batches in the segments, by base offset; None for a
    removed one."""


class _JournalFrame(NamedTuple):
    """A frame, and the name of its journal."""

    file: str
    frame: Frame


class JournalView:
    """The state of a store when it was last read. See the module's docstring.

    `verify` reads the journals to their ends, as recovery does: a frame that is not as
    it was written, with later ones after it, is then an error. Raises LogError.
    """

    def __init__(self, file: StoreFile, *, verify: bool = False) -> None:
        self._file = file
        self._verify = verify
        self.partitions: dict[int, ViewPartition] = {}
        """The partitions by number."""
        self._values: dict[tuple[str, bytes], bytes | None] = {}
        """The changes of the key-value store in the journals."""
        self.frames = 0
        """The number of frames that follow the manifest."""
        self._at = (0, b"")
        """The last sequence in the manifest, and the salt, when it was read."""
        self.read()

    def items(self, space: str) -> list[tuple[bytes, bytes]]:
        """Return the keys and values of a namespace, in order of keys."""
        query = "SELECT key, value FROM small_values WHERE space = ?"
        rows = self._file.query(query, (space,))
        while self._position() != self._at:  # a checkpoint was committed meanwhile
            self.read()
            rows = self._file.query(query, (space,))
        values: dict[bytes, bytes | None] = dict(rows)
        values |= {
            key: value for (of, key), value in self._values.items() if of == space
        }
        return [
            (key, value) for key, value in sorted(values.items()) if value is not None
        ]

    def read(self) -> None:
        """Read the state again."""
        for _ in range(ATTEMPTS):
            applied, salt = position = self._position()
            self._read_manifest()
            frames = self._read_frames(applied, crc32c(salt))
            if frames is not None and self._position() == position:
                self._at, self.frames = position, len(frames)
                self._apply(frames)
                return
        raise LogError(
            f"{self._file.directory}: the writes after number {applied} are not in the"
            " journals, or checkpoints are too frequent to read them: if the server"
            " does not start, restore the directory from a backup"
        )

    def _read_frames(self, applied: int, seed: int) -> list[_JournalFrame] | None:
        """Return the durable frames after the sequence `applied`, in order.

        Return None when frames are missing between others: a journal was overwritten
        meanwhile, or is damaged.
        """
        found: list[_JournalFrame] = []
        for name in JOURNALS:
            path = self._file.directory / name
            data, frames = _read_journal(path, seed, is_whole=self._verify)
            if self._verify:
                end = frames[-1].end if frames else 0
                last = max(applied, frames[-1].sequence if frames else 0)
                if find_newer(data, end, seed, last) is not None:
                    return None
            found += [
                _JournalFrame(name, each) for each in frames if each.sequence > applied
            ]
        found.sort(key=lambda each: each.frame.sequence)
        expected = range(applied + 1, applied + 1 + len(found))
        return found if [each.frame.sequence for each in found] == [*expected] else None

    def _position(self) -> tuple[int, bytes]:
        """Return the last sequence in the manifest, and the salt of the journals."""
        rows = self._file.query("SELECT applied, salt, crc FROM journal")
        [(applied, salt)] = self._checked("journal", rows)
        return applied, salt

    def _read_manifest(self) -> None:
        rows = self._file.query(
            "SELECT number, topic_id, partition, log_start_offset, next_offset, crc"
            " FROM partitions"
        )
        self.partitions = {
            number: ViewPartition(LogPartition(topic_id, partition), start, end)
            for number, topic_id, partition, start, end in self._checked(
                "partitions", rows
            )
        }
        rows = self._file.query(
            "SELECT number, base_offset, version, size_bytes, end_offset,"
            " max_timestamp_ms, crc FROM segments ORDER BY number, base_offset"
        )
        for number, *fields in self._checked("segments", rows):
            # A checkpoint between the two queries is found afterwards.
            if (part := self.partitions.get(number)) is not None:
                part.segments.append(SegmentRow(*fields))
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

    def _apply(self, frames: Sequence[_JournalFrame]) -> None:
        parts = {
            number: StoredPartition(each.where, number)
            for number, each in self.partitions.items()
        }
        for file, frame in frames:
            for each in decode_operations(frame.body, parts, StoredPartition):
                if isinstance(each, Put):
                    self._apply_put(each)
                else:
                    self._apply_change(each, file, frame)
        for part in self.partitions.values():  # others may be gone
            start = part.log_start_offset
            part.segments = [each for each in part.segments if each.end_offset > start]

    def _apply_put(self, operation: Put) -> None:
        self._values[operation.space, operation.key] = operation.value

    def _apply_change(self, operation: Operation, file: str, frame: Frame) -> None:
        assert not isinstance(operation, Put)
        number = operation.part.number
        if isinstance(operation, Create):
            self.partitions[number] = ViewPartition(operation.part.partition)
        part = self.partitions[number]
        match operation:
            case Delete():
                del self.partitions[number]
            case Append(_, batch, header):
                part.tail[header.base_offset] = TailBatch(
                    file,
                    frame.start,
                    header.last_offset,
                    header.max_timestamp_ms,
                    batch,
                )
                part.next_offset = header.last_offset + 1
            case Truncate(_, before):
                part.log_start_offset = max(part.log_start_offset, before)
                part.next_offset = max(part.next_offset, before)
            case Replace(_, base_offset, batch):
                _replace(part, base_offset, batch)


def _read_journal(
    path: Path, seed: int, *, is_whole: bool
) -> tuple[bytes, list[Frame]]:
    """Read a journal, at least up to the end of its frames, and make them durable."""
    try:
        descriptor = os.open(path, portable_os.SYNCABLE | portable_os.BINARY)
        try:
            size = BLOCK_BYTES
            # Most of a journal may be zeros. It is not mapped into memory, because it
            # may become shorter meanwhile.
            while True:
                if is_whole:
                    size = os.fstat(descriptor).st_size
                data = portable_os.pread(descriptor, size, 0)
                frames = read_frames(data, seed)
                if is_whole or len(data) < size or not _is_cut(data, frames):
                    break
                size *= 4
            portable_os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise LogError(f"{path}: {error.strerror}") from None
    return data, frames


def _is_cut(data: bytes, frames: Sequence[Frame]) -> bool:
    """Return whether another frame may begin in the data and end after it."""
    end = frames[-1].end if frames else 0
    header = data[end : end + FRAME_HEADER.size]
    if len(header) < FRAME_HEADER.size:
        return True
    magic, _, _, length = FRAME_HEADER.unpack(header)
    return bool(magic == FRAME_MAGIC and end + FRAME_HEADER.size + length > len(data))


def _replace(part: ViewPartition, base_offset: int, content: bytes | None) -> None:
    batch = part.tail.get(base_offset)
    if batch is None:
        part.replaced[base_offset] = content
    elif content is None:
        del part.tail[base_offset]
    else:
        part.tail[base_offset] = batch._replace(content=content)
