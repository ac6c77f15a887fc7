"""The log in a data directory with journals and segments.

Segments are opened when their batches are read. If one is gone by then, since
compaction or retention removed its batches, the state of the store is read again, and
reading continues at the next offset.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Final, NamedTuple, TypeVar

from coterie import portable_os
from coterie.broker.catalog.entries import EntryKind, decode_entry, space_of
from coterie.broker.catalog.topics import Topic
from coterie.broker.log.journal_view import (
    ATTEMPTS,
    JournalView,
    ViewPartition,
)
from coterie.broker.log.manifest import SegmentRow
from coterie.broker.log.segments import partition_directory, segment_path
from coterie.broker.log.store_file import StoreFile
from coterie.errors import LogError
from coterie.pipeline.segments.batches import Fault, ScannedChunk, scan
from coterie.pipeline.sources.stored_log import (
    Growth,
    NumberedPartition,
    SampledPositions,
    StoredBatch,
    StoredHeader,
    StoredRun,
)
from coterie.types import TopicId
from coterie.wire.record_batch import (
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL,
)

T = TypeVar("T")

OFFSET_MAX: Final = (1 << 63) - 1
_MINUTE_MS: Final = 60_000
_BLOCK_BYTES: Final = 64 * 1024
_ATTRIBUTES: Final = struct.Struct(">h")
_ATTRIBUTES_AT: Final = 21
_CUT_SHORT: Final = "the file is shorter than when it was written"


class _BatchTime(NamedTuple):
    """The offsets and the time of a batch."""

    base_offset: int
    last_offset: int
    max_timestamp_ms: int


class _SegmentGone(LogError):
    """The error when a segment of the manifest no longer exists."""


class JournalStore:
    """The log as it is when this object is created. See the module's docstring."""

    def __init__(self, file: StoreFile) -> None:
        self.directory = file.directory
        self._view = JournalView(file)

    def topics(self) -> list[Topic]:
        topics = []
        for key, value in self._view.items(space_of(EntryKind.TOPIC)):
            entry = decode_entry(EntryKind.TOPIC, key, value)
            assert entry.value is not None
            topics.append(Topic.from_value(entry.name, entry.value))
        return topics

    def partitions(self, topic_id: TopicId) -> list[NumberedPartition]:
        return sorted(
            NumberedPartition(each.where.partition, number, each.next_offset)
            for number, each in self._view.partitions.items()
            if each.where.topic_id == topic_id
        )

    def start_offset(self, number: int) -> int:
        def first() -> int:
            times = self._times(self._partition(number))
            return next((each.base_offset for each in times), OFFSET_MAX)

        return self._repeated(first)

    def headers(self, number: int, offset: int) -> Iterator[list[StoredHeader]]:
        for run in self.batches(number, offset):
            yield [
                (base, last, len(content), _if_transactional(content))
                for base, last, _, content in run.batches
            ]

    def batches(self, number: int, offset: int) -> Iterator[StoredRun]:
        attempts = 0
        while True:
            try:
                for run in self._runs(self._partition(number), offset):
                    yield run
                    offset, attempts = run.batches[-1][1] + 1, 0
            except _SegmentGone:
                attempts += 1
                if attempts == ATTEMPTS:
                    raise
                self._view.read()
            else:
                return

    def growth(
        self, positions: SampledPositions, after_ms: int, now_ms: int
    ) -> list[Growth]:
        def read() -> list[Growth]:
            found = []
            for _, part in sorted(self._view.partitions.items()):
                if (position := positions.get(part.where)) is not None:
                    minutes = self._minutes(part, position, after_ms, now_ms)
                    start, end = part.log_start_offset, part.next_offset
                    found.append(Growth.of(part.where, start, end, minutes))
            return found

        return self._repeated(read)

    def _repeated(self, read: Callable[[], T]) -> T:
        """Read; again with the new state when a segment is gone."""
        for _ in range(ATTEMPTS - 1):
            try:
                return read()
            except _SegmentGone:
                self._view.read()
        return read()

    def _partition(self, number: int) -> ViewPartition:
        part = self._view.partitions.get(number)
        if part is None:
            raise LogError(f"{self.directory} no longer has partition number {number}")
        return part

    # Batches.

    def _runs(self, part: ViewPartition, offset: int) -> Iterator[StoredRun]:
        """Yield the batches that end at or after an offset."""
        offset = max(offset, part.log_start_offset)
        faults: Sequence[Fault] = ()
        for segment in part.segments:
            if segment.end_offset <= offset:
                continue
            with self._opened(part, segment) as file:
                for chunk in scan(file, file.name, first_offset=segment.base_offset):
                    run, faults = _segment_run(part, file, chunk, offset, faults)
                    if run.batches:
                        yield run
        of_files = groupby(part.tail.items(), key=lambda each: each[1].file)
        for name, batches in of_files:
            rows = [
                (base, each.last_offset, each.position, each.content)
                for base, each in batches
                if each.last_offset >= offset
            ]
            if rows:
                yield StoredRun(name, rows, [(0, fault) for fault in faults])
                faults = ()

    def _times(
        self, part: ViewPartition, offset: int = 0, after_ms: int | None = None
    ) -> Iterator[_BatchTime]:
        """Yield the offsets and times of the batches from an offset on; those of
        segments without times after `after_ms` are left out."""
        offset = max(offset, part.log_start_offset)
        for segment in part.segments:
            if segment.end_offset <= offset:
                continue
            if after_ms is not None and segment.max_timestamp_ms <= after_ms:
                continue
            with self._opened(part, segment) as file:
                for each in _scan_times(file):
                    is_removed = part.replaced.get(each.base_offset, b"") is None
                    if each.last_offset >= offset and not is_removed:
                        yield each
        for base, batch in part.tail.items():
            if batch.last_offset >= offset:
                yield _BatchTime(base, batch.last_offset, batch.max_timestamp_ms)

    def _minutes(
        self, part: ViewPartition, position: int, after_ms: int, now_ms: int
    ) -> list[tuple[int, int]]:
        """Return the last time and the end of a partition in each minute in which it
        grew after a position and a time."""
        minutes: dict[int, tuple[int, int]] = {}
        at_ms = after_ms
        for each in self._times(part, position, after_ms):
            if each.max_timestamp_ms <= now_ms:
                at_ms = max(at_ms, each.max_timestamp_ms)
                if at_ms > after_ms:
                    minutes[at_ms // _MINUTE_MS] = (at_ms, each.last_offset + 1)
        return [*minutes.values()]

    @contextmanager
    def _opened(
        self, part: ViewPartition, segment: SegmentRow
    ) -> Iterator[_SegmentFile]:
        path = segment_path(partition_directory(self.directory, part.where), segment)
        name = path.relative_to(self.directory).as_posix()
        try:
            descriptor = os.open(path, os.O_RDONLY | portable_os.BINARY)
        except FileNotFoundError:
            raise _SegmentGone(f"{path} does not exist") from None
        except OSError as error:
            raise LogError(f"{path}: {error.strerror}") from None
        try:
            yield _SegmentFile(descriptor, name, segment.size_bytes)
        finally:
            os.close(descriptor)


class _SegmentFile:
    """The part of a segment that the manifest has."""

    def __init__(self, descriptor: int, name: str, size_bytes: int) -> None:
        self._descriptor = descriptor
        self.name = name
        self.size_bytes = size_bytes

    def size(self) -> int:
        """Return the size in bytes; less than in the manifest when bytes are lost."""
        return min(os.fstat(self._descriptor).st_size, self.size_bytes)

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Read up to `nbytes` bytes at a position."""
        try:
            return portable_os.pread(self._descriptor, nbytes, offset)
        except OSError as error:
            raise LogError(f"{self.name}: {error.strerror}") from None


def _segment_run(
    part: ViewPartition,
    file: _SegmentFile,
    chunk: ScannedChunk,
    offset: int,
    faults: Sequence[Fault],
) -> tuple[StoredRun, Sequence[Fault]]:
    """Return the batches of a chunk that end at or after an offset, and the faults
    after them. `faults` are those after the last batch of the chunks before.
    """
    before: dict[int, list[Fault]] = {0: [*faults]}
    for index, fault in chunk.faults:
        before.setdefault(index, []).append(fault)
    if chunk.is_at_file_end and chunk.end < file.size_bytes:
        lost = Fault(file.name, chunk.end, file.size_bytes - chunk.end, _CUT_SHORT)
        before.setdefault(len(chunk.bases), []).append(lost)
    rows: list[StoredBatch] = []
    found: list[tuple[int, Fault]] = []
    positions = (chunk.at + chunk.headers.position).tolist()
    spans = zip(chunk.bases.tolist(), chunk.ends.tolist(), strict=True)
    for index, (base, end) in enumerate(spans):
        # Faults before a batch belong to the range that contains the batch.
        if end <= offset:
            found.clear()
            continue
        found += [(len(rows), fault) for fault in before.get(index, ())]
        content = part.replaced.get(base, chunk.batch(index))
        if content is not None:
            rows.append((base, end - 1, positions[index], content))
    if not rows:
        after = [fault for _, fault in found]
        found = []
    else:
        after = [fault for index, fault in found if index == len(rows)]
        found = [each for each in found if each[0] < len(rows)]
    after += before.get(len(chunk.bases), []) if len(chunk.bases) else before[0]
    return StoredRun(file.name, rows, found), after


def _scan_times(file: _SegmentFile) -> Iterator[_BatchTime]:
    """Yield the offsets and times in the headers of a segment's batches, up to the
    first header that is impossible. The records of large batches are not read."""
    at, size, block, block_at = 0, file.size(), b"", 0
    while at + HEADER_BYTES <= size:
        if at + HEADER_BYTES > block_at + len(block):
            block, block_at = file.read_at(min(_BLOCK_BYTES, size - at), at), at
            if len(block) < HEADER_BYTES:
                return
        fields = HEADER.unpack_from(block, at - block_at)
        base_offset, length, _, magic, _, _, delta, _, max_timestamp_ms, *_ = fields
        if magic != MAGIC or length < HEADER_BYTES - LENGTH_END or delta < 0:
            return
        yield _BatchTime(base_offset, base_offset + delta, max_timestamp_ms)
        at += LENGTH_END + length


def _if_transactional(batch: bytes | memoryview) -> bytes | memoryview | None:
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
    return batch if attributes & (TRANSACTIONAL | CONTROL) else None
