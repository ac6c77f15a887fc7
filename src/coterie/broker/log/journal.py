"""The log made for appending: journals for all partitions, and segments for each.

A flush is one write to a journal and one sync. What the journals contain is also in
memory, so they are read at start only, after an unclean stop. A checkpoint moves a full
journal to segment files in Kafka's format and to the manifest, an SQLite file that also
contains the key-value store.

Reads see three layers: the segments, the batches that are still in a journal
("pending"), and batches replaced by compaction since the last checkpoint.

docs/decisions/0014-journal-and-segments.md has the measurements and the alternatives.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import struct
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from crc32c import crc32c

from coterie import portable_os
from coterie.broker.log.checkpoint import Checkpointer, Moved
from coterie.broker.log.directory import (
    CLEAN_NAME,
    MANIFEST_NAME,
    lock_directory,
    open_file,
)
from coterie.broker.log.journal_file import JournalFile, check_present, recover
from coterie.broker.log.journal_frames import Frame, Parts, decode_operations
from coterie.broker.log.journal_writer import JournalWriter, LastWrites, Writes
from coterie.broker.log.log import (
    Append,
    Create,
    Delete,
    Log,
    LogPartition,
    Operation,
    Put,
    Replace,
    StagedWrite,
    StoredPartition,
    Truncate,
)
from coterie.broker.log.manifest import Manifest, PartitionRow, is_new
from coterie.broker.log.segments import (
    SEGMENTS_NAME,
    Segment,
    SegmentReader,
    check_files,
    partition_directory,
    segment_path,
)
from coterie.errors import LogCorrupt, LogError, MalformedFrame
from coterie.files import make_private_directory
from coterie.types import LogOffset
from coterie.wire.record_batch import BatchHeader, read_header

_LOGGER = logging.getLogger(__name__)

JOURNAL_NAME: Final = "journal"
JOURNAL_BYTES: Final = 32 * 1024 * 1024
"""The size of each of the two journals; about as much is in memory for each."""
SEGMENT_BYTES: Final = 64 * 1024 * 1024
"""The size at which a segment is ended. Larger ones make retention coarser, smaller
ones need more files."""
_HEADERS_MAX: Final = 256
_ADOPTED_MIN: Final = 32
"""The partitions and values whose checkpoint is taken over after each flush."""


class JournalPartition(StoredPartition):
    """A partition with what is read of it: segments and pending batches."""

    __slots__ = ("pending", "replaced", "segments")

    def __init__(
        self,
        partition: LogPartition,
        number: int,
        log_start_offset: LogOffset = 0,
        flushed_offset: LogOffset = 0,
    ) -> None:
        super().__init__(partition, number, log_start_offset, flushed_offset)
        self.segments: list[Segment] = []
        self.pending: list[Append] = []
        """The flushed batches that are in a journal only, in order."""
        self.replaced: dict[LogOffset, tuple[int, bytes | None]] = {}
        """Batches replaced by compaction, each with the generation of its journal."""


class JournalLog(Log):
    """A log in a directory, which is created if it does not exist.

    `is_synced` makes each flush durable; without it a power failure may lose flushed
    writes. `verify` checks each batch that is read from a segment.

    Raises LogError when the directory is another application's or another version's, or
    when another process uses it, and LogCorrupt when it is damaged.
    """

    def __init__(
        self,
        directory: Path,
        *,
        is_synced: bool = True,
        verify: bool = False,
        journal_bytes: int = JOURNAL_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        super().__init__()
        self.directory = self._directory = directory
        self._is_synced = is_synced
        self._reader = SegmentReader(verify=verify)
        self._values: dict[str, dict[bytes, tuple[int, bytes | None]]] = {}
        """Values that are in a journal only, with the generation of their journal."""
        self._generation = 0
        self._adoption: Iterator[None] | None = None
        with contextlib.ExitStack() as opened:
            try:
                self._open(opened, journal_bytes, segment_bytes)
            except OSError as error:
                raise LogError(f"{directory}: {error}") from error
            self._resources = opened.pop_all()

    def headers(
        self, partition: LogPartition, offset: LogOffset = 0
    ) -> Iterator[BatchHeader]:
        part = self._parts.get(partition)
        if part is None:
            return
        assert isinstance(part, JournalPartition)
        count = 1  # most callers need one
        while True:
            offset = max(offset, part.log_start_offset)
            found = self._next_headers(part, offset, count)
            if not found:
                return
            for header in found:
                if header.base_offset in part.replaced:
                    replaced = part.replaced[header.base_offset][1]
                    if replaced is not None:
                        yield read_header(replaced)
                else:
                    yield header
            offset = found[-1].last_offset + 1
            count = min(4 * count, _HEADERS_MAX)

    def find_timestamp(
        self, partition: LogPartition, timestamp_ms: int, offset: LogOffset = 0
    ) -> BatchHeader | None:
        part = self._parts.get(partition)
        if part is None:
            return None
        assert isinstance(part, JournalPartition)
        offset = max(offset, part.log_start_offset)
        for segment in part.segments[_segment_at(part, offset) :]:
            if part.replaced:
                break
            found = self._reader.find_timestamp(segment, timestamp_ms, offset)
            if found is not None:
                return found
            offset = max(offset, segment.row.end_offset)
        for header in self.headers(partition, offset):
            if header.max_timestamp_ms >= timestamp_ms:
                return header
        return None

    def get(self, space: str, key: bytes) -> bytes | None:
        changed = self._values.get(space)
        if changed is not None and key in changed:
            return changed[key][1]
        return self._manifest.get(space, key)

    def items(self, space: str) -> Iterator[tuple[bytes, bytes]]:
        changed = dict(self._values.get(space, ()))
        keys = deque(sorted(changed))
        for stored_key, stored_value in self._manifest.items(space):
            while keys and keys[0] < stored_key:
                key = keys.popleft()
                value = changed[key][1]
                if value is not None:
                    yield key, value
            if stored_key not in changed:
                yield stored_key, stored_value
        for key in keys:
            value = changed[key][1]
            if value is not None:
                yield key, value

    def checkpoint(self) -> None:
        """Move everything flushed to segments and manifest, and wait until it is."""
        self._writer.switch()
        self._writer.wait()
        while self._writer.moved or self._adoption is not None:
            self._adopt(_ADOPTED_MIN)

    def close(self) -> None:
        """Flush, move the journals, close, and release the lock on the directory."""
        with self._resources:
            self.flush()
            self.checkpoint()
            os.close(open_file(self._directory / CLEAN_NAME))

    # Writing.

    def settle(self, staged: StagedWrite) -> None:
        assert isinstance(staged, _JournalWrite)
        self._generation = staged.generation
        super().settle(staged)
        # At least as many steps as operations, so that it keeps up with checkpoints.
        self._adopt(_ADOPTED_MIN + len(staged.operations))

    def _staged_write(
        self, operations: list[Operation], size_bytes: int
    ) -> StagedWrite:
        return _JournalWrite(self._writer, operations, size_bytes)

    def _new_part(self, partition: LogPartition, number: int) -> StoredPartition:
        return JournalPartition(partition, number)

    def _keep(self, append: Append) -> None:
        part = append.part
        assert isinstance(part, JournalPartition)
        part.pending.append(append)

    def _make_visible(self, operation: Operation) -> None:
        super()._make_visible(operation)
        match operation:
            case Put(space, key, value):
                self._values.setdefault(space, {})[key] = (self._generation, value)
            case Replace(part, base_offset, batch):
                assert isinstance(part, JournalPartition)
                part.replaced[base_offset] = (self._generation, batch)
            case Delete(part):
                assert isinstance(part, JournalPartition)
                self._drop(part.segments)
                unused = partition_directory(self._directory, part.partition)
                self._writer.run(partial(shutil.rmtree, unused, ignore_errors=True))
            case Truncate(part, _):
                assert isinstance(part, JournalPartition)
                unused_count = _segment_at(part, part.log_start_offset)
                self._drop(part.segments[:unused_count])
                del part.segments[:unused_count]

    def _drop(self, segments: Sequence[Segment]) -> None:
        """Delete segments that a durable write has made unused."""
        for segment in segments:
            self._reader.forget(segment.path)
            self._writer.run(partial(segment.path.unlink, missing_ok=True))

    # Reading.

    def _read_part(
        self, part: StoredPartition, offset: LogOffset, bytes_max: int
    ) -> Sequence[bytes]:
        assert isinstance(part, JournalPartition)
        offset = max(offset, part.log_start_offset)
        found: list[bytes] = []
        size = 0
        while batches := self._next_batches(part, offset, bytes_max - size):
            for batch in batches:
                base_offset = int.from_bytes(batch[:8], "big")
                kept: bytes | None = batch
                if part.replaced and base_offset in part.replaced:
                    kept = part.replaced[base_offset][1]
                if kept is None:
                    continue
                if found and size + len(kept) > bytes_max:
                    return found
                found.append(kept)
                size += len(kept)
            if found and size >= bytes_max:
                break
            offset = read_header(batches[-1]).last_offset + 1
        return found

    def _next_batches(
        self, part: JournalPartition, offset: LogOffset, bytes_max: int
    ) -> list[bytes]:
        """Return stored batches from one segment or of the pending ones."""
        for segment in part.segments[_segment_at(part, offset) :]:
            found = self._reader.read(segment, offset, max(bytes_max, 0))
            if found:
                return found
        found, size = [], 0
        for append in part.pending[_pending_at(part, offset) :]:
            if found and size + len(append.batch) > bytes_max:
                break
            found.append(append.batch)
            size += len(append.batch)
        return found

    def _next_headers(
        self, part: JournalPartition, offset: LogOffset, count: int
    ) -> list[BatchHeader]:
        """Return the headers of stored batches, from one segment or pending."""
        for segment in part.segments[_segment_at(part, offset) :]:
            found = self._reader.headers(segment, offset, count)
            if found:
                return found
        at = _pending_at(part, offset)
        return [append.header for append in part.pending[at : at + count]]

    def _measure(self, part: StoredPartition) -> int:
        assert isinstance(part, JournalPartition)
        if part.replaced:
            headers = self.headers(part.partition)
            return sum(header.size_bytes for header in headers)
        start = part.log_start_offset
        segments = part.segments[_segment_at(part, start) :]
        size = sum(segment.row.size_bytes for segment in segments)
        if segments:
            size -= self._reader.size_before(segments[0], start)
        pending = part.pending[_pending_at(part, start) :]
        return size + sum(append.header.size_bytes for append in pending)

    # Checkpoints.

    def _adopt(self, steps: int) -> None:
        """Take over some results of checkpoints: batches are no longer pending.

        Until then they are read from memory, and the files that compaction replaced
        remain. So the results of many partitions need not be taken over at once.
        """
        for _ in range(steps):
            if self._adoption is None:
                if not self._writer.moved:
                    return
                self._adoption = self._adopt_each(self._writer.moved.popleft())
            if next(self._adoption, False) is False:
                self._adoption = None

    def _adopt_each(self, moved: Moved) -> Iterator[None]:
        """Take over a result, one partition or value a step."""
        for part, row in moved.rows:
            assert isinstance(part, JournalPartition)
            if not part.is_gone:
                self._adopt_part(part, row, moved)
            yield
        for space, key in moved.values:
            changed = self._values.get(space, {})
            found = changed.get(key)
            if found is not None and found[0] <= moved.generation:
                del changed[key]
            yield

    def _adopt_part(
        self, part: JournalPartition, row: PartitionRow, moved: Moved
    ) -> None:
        directory = partition_directory(self._directory, part.partition)
        known = {each.path: each for each in part.segments}
        part.segments = []
        for segment_row in row.segments:
            path = segment_path(directory, segment_row)
            segment = known.pop(path, None) or Segment(path, segment_row)
            segment.extend(segment_row)
            for entry in moved.indexes.get(path, ()):
                segment.add(*entry)
            if segment_row.end_offset > part.log_start_offset:
                part.segments.append(segment)
        self._drop(list(known.values()))
        del part.pending[: _pending_at(part, row.next_offset)]
        assert not part.pending or part.pending[0].header.base_offset >= row.next_offset
        if part.replaced:
            part.size_bytes = None
            part.replaced = {
                base_offset: replaced
                for base_offset, replaced in part.replaced.items()
                if replaced[0] > moved.generation
            }

    # Opening.

    def _open(
        self, opened: contextlib.ExitStack, journal_bytes: int, segment_bytes: int
    ) -> None:
        make_private_directory(self._directory)
        opened.callback(os.close, lock_directory(self._directory))
        clean = self._directory / CLEAN_NAME
        is_clean = clean.exists()
        journals = self._open_journals(journal_bytes, opened)
        self._manifest = Manifest(
            self._directory / MANIFEST_NAME, is_synced=self._is_synced
        )
        opened.callback(self._manifest.close)
        if not is_clean:
            self._manifest.check_pages()
        clean.unlink(missing_ok=True)
        rows = list(self._manifest.partitions())
        self._load(rows)
        checkpointer = Checkpointer(
            self._manifest, rows, segment_bytes=segment_bytes, sync=self._is_synced
        )
        opened.callback(checkpointer.close)
        opened.callback(self._reader.close)
        self._recover(journals, checkpointer, opened, is_clean=is_clean)
        for each in (self._directory, self._directory.parent):
            portable_os.sync_directory(each)

    def _load(self, rows: Sequence[PartitionRow]) -> None:
        for row in rows:
            part = JournalPartition(
                row.partition, row.number, row.log_start_offset, row.next_offset
            )
            directory = partition_directory(self._directory, row.partition)
            for segment_row in row.segments:
                path = segment_path(directory, segment_row)
                part.segments.append(Segment(path, segment_row))
            self._load_part(part)
        self._last_number = max(self._last_number, self._manifest.last_number())

    def _open_journals(
        self, journal_bytes: int, opened: contextlib.ExitStack
    ) -> list[JournalFile]:
        directory = self._directory / JOURNAL_NAME
        paths = [directory / f"{number}.journal" for number in range(2)]
        check_present(paths, is_new=is_new(self._directory / MANIFEST_NAME))
        make_private_directory(directory)
        make_private_directory(self._directory / SEGMENTS_NAME)
        journals = []
        for path in paths:
            journal = JournalFile(path, journal_bytes, sync=self._is_synced)
            opened.callback(journal.close)
            journals.append(journal)
        portable_os.sync_directory(directory)
        return journals

    def _recover(
        self,
        journals: list[JournalFile],
        checkpointer: Checkpointer,
        opened: contextlib.ExitStack,
        *,
        is_clean: bool,
    ) -> None:
        applied, salt = self._manifest.journal()
        seed = crc32c(salt)
        current, other = journals
        before: Writes = []
        writes: Writes = []
        if not is_clean:
            found = recover(journals, seed, applied)
            (other, frames_before), (current, frames) = found.journals
            parts = {part.number: part for part in self._parts.values()}
            before = [self._decode(other, each, parts) for each in frames_before]
            writes = [self._decode(current, each, parts) for each in frames]
            if found.torn_bytes:
                _LOGGER.warning(
                    "%s: the last write was not finished and is dropped (%d bytes)",
                    current.path.parent,
                    found.torn_bytes,
                )
        # Everything of the other journal is one generation older.
        writer = JournalWriter(
            current,
            other,
            checkpointer,
            seed=seed,
            last=LastWrites(writes, applied + len(before) + len(writes), 2),
        )
        opened.callback(writer.end)
        self._writer = writer
        for generation, replayed in ((1, before), (2, writes)):
            self._generation = generation
            for operations in replayed:
                self._replay(operations)
        if not is_clean:
            writer.wait_for_work()
            parts_left = [*self._parts.values()]
            check_files(self._directory, _segments_of(parts_left))
        if before:
            writer.start_move(before, applied + len(before), 1)

    def _decode(
        self, journal: JournalFile, frame: Frame, parts: Parts
    ) -> list[Operation]:
        try:
            return decode_operations(frame.body, parts, self._new_part)
        except (
            MalformedFrame,
            ValueError,
            KeyError,
            IndexError,
            struct.error,
        ) as error:
            raise LogCorrupt(
                f"{journal.path}: write {frame.sequence} at byte {frame.start} does not"
                f" follow from the writes before it ({error!r}). Restore the data"
                " directory from a backup."
            ) from error

    def _replay(self, operations: Sequence[Operation]) -> None:
        """Apply a write that was recovered from a journal."""
        for operation in operations:
            if isinstance(operation, Create):
                self._load_part(operation.part)
            elif isinstance(operation, Append):
                operation.part.next_offset = operation.header.last_offset + 1
        super().settle(StagedWrite([*operations], 0))


class _JournalWrite(StagedWrite):
    """A write to the journals, as one frame."""

    def __init__(
        self, writer: JournalWriter, operations: list[Operation], size_bytes: int
    ) -> None:
        super().__init__(operations, size_bytes)
        self._writer = writer
        self.generation = 0

    def write(self) -> None:
        if self.operations:
            self._writer.write(self.operations)
            self.generation = self._writer.generation
            assert self.generation > 0


def _segments_of(parts: Iterable[StoredPartition]) -> Iterator[Segment]:
    for part in parts:
        assert isinstance(part, JournalPartition)
        yield from part.segments


def _segment_at(part: JournalPartition, offset: LogOffset) -> int:
    """Return the index of the segment that contains an offset, or of the next one."""
    return bisect_right(part.segments, offset, key=_segment_end)


def _segment_end(segment: Segment) -> LogOffset:
    return segment.row.end_offset


def _pending_at(part: JournalPartition, offset: LogOffset) -> int:
    """Return the index of the pending batch that contains an offset, or of the next
    one."""
    return bisect_left(part.pending, offset, key=_last_offset)


def _last_offset(append: Append) -> LogOffset:
    return append.header.last_offset
