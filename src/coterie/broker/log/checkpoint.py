"""The checkpoint: it moves the writes of a full journal to segments and manifest.

First the batches are appended to the segment files and synced; then one transaction of
the manifest makes them valid, together with all other changes of the journal. A crash
or an error before that leaves bytes behind the valid length of a segment, or unknown
files, which the next checkpoint overwrites and the next start removes.

It runs in a worker thread. Of the partitions it only reads how far they are truncated
and whether they are deleted, which may be ahead of the journal: the files of what was
dropped by a durable write may be missing already.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from coterie import portable_os
from coterie.broker.log.directory import open_file, os_error, write_all
from coterie.broker.log.log import (
    Append,
    Create,
    Delete,
    Operation,
    Put,
    Replace,
    StoredPartition,
    Truncate,
)
from coterie.broker.log.manifest import Changes, Manifest, PartitionRow, SegmentRow
from coterie.broker.log.segments import INDEX_BYTES, partition_directory, segment_path
from coterie.errors import MalformedFrame
from coterie.files import make_private_directory
from coterie.types import LogOffset
from coterie.wire.record_batch import BatchHeader, header_at, read_header

_LOGGER = logging.getLogger(__name__)

SYNCED_ONE_BY_ONE: Final = 64
"""The most files that are synced one by one; above it the file system is synced."""
_PIECES_MAX: Final = 512
"""Batches of one system call; Linux allows 1,024."""
_LEAST_MS: Final = -(1 << 63)


_Batch: TypeAlias = tuple[bytes, BatchHeader]
IndexEntry: TypeAlias = tuple[LogOffset, int, int, int]
"""Base offset, max timestamp, start and end of some consecutive batches."""


@dataclass
class Moved:
    """The result of a checkpoint."""

    generation: int
    rows: list[tuple[StoredPartition, PartitionRow]]
    values: Iterable[tuple[str, bytes]]
    """The keys that were set or deleted."""
    indexes: dict[Path, list[IndexEntry]]
    """The batches that were appended to each segment, as `Segment.add` takes them, one
    about every `INDEX_BYTES` bytes."""


@dataclass
class _PartChanges:
    """The changes of one partition in a journal."""

    part: StoredPartition
    appends: list[Append] = field(default_factory=list)
    replaced: dict[LogOffset, bytes | None] = field(default_factory=dict)

    def batches(self, start: LogOffset) -> list[_Batch]:
        """Return the appended batches, those below the log start left out."""
        found: list[_Batch] = []
        for append in self.appends:
            batch: bytes | None = append.batch
            if self.replaced:
                batch = self.replaced.get(append.header.base_offset, batch)
            if batch is not None and append.header.last_offset >= start:
                found.append((batch, append.header))
        return found


class Checkpointer:
    """Moves writes to the segments of a store. `rows` is what the manifest contains."""

    def __init__(
        self,
        manifest: Manifest,
        rows: Iterable[PartitionRow],
        *,
        segment_bytes: int,
        sync: bool,
    ) -> None:
        assert segment_bytes > 0
        self._manifest = manifest
        self._directory = manifest.path.parent
        self._rows = {each.number: each for each in rows}
        self._segment_bytes = segment_bytes
        self._must_sync = sync
        self._file_system = _FileSystem(self._directory)
        self._indexes: dict[Path, list[IndexEntry]] = {}
        self._files: list[Path] = []
        self._directories: list[Path] = []

    def close(self) -> None:
        self._file_system.close()

    def move(
        self, writes: Iterable[Sequence[Operation]], applied: int, generation: int
    ) -> Moved:
        """Move the writes up to sequence number `applied`.

        It may be repeated when it failed. Raises LogError and LogFull.
        """
        changes = Changes(applied)
        parts: dict[int, _PartChanges] = {}
        for operations in writes:
            _collect(operations, parts, changes)
        self._indexes = {}
        self._files, self._directories = [], []
        # Not those deleted by a later write: recovery applies that write to them.
        gone = frozenset(changes.deleted)
        try:
            moved = [
                (each.part, self._move_part(each))
                for each in parts.values()
                if each.part.number not in gone
            ]
            self._sync()
        except OSError as error:
            raise os_error(self._directory, error) from error
        changes.changed = [row for _, row in moved]
        self._manifest.commit(changes)
        for number in changes.deleted:
            self._rows.pop(number, None)
        self._rows.update((row.number, row) for row in changes.changed)
        return Moved(generation, moved, changes.values.keys(), self._indexes)

    def _move_part(self, changes: _PartChanges) -> PartitionRow:
        """Write the changes of a partition to its files; return its new row."""
        part = changes.part
        number = part.number
        row = self._rows.get(number) or PartitionRow(number, part.partition, 0, 0, ())
        next_offset = row.next_offset
        if changes.appends:
            next_offset = max(next_offset, changes.appends[-1].header.last_offset + 1)
        start = min(max(row.log_start_offset, part.log_start_offset), next_offset)
        segments = [each for each in row.segments if each.end_offset > start]
        directory = partition_directory(self._directory, part.partition)
        if changes.replaced:
            segments = self._rewrite_all(directory, segments, changes.replaced, start)
        batches = changes.batches(start)
        if batches:
            self._append_all(directory, segments, batches)
        return PartitionRow(number, part.partition, start, next_offset, tuple(segments))

    def _append_all(
        self, directory: Path, segments: list[SegmentRow], batches: list[_Batch]
    ) -> None:
        """Append batches to the last segment and to new ones, and change the rows."""
        if not segments:  # the directory may be new
            make_private_directory(directory)
            self._directories.append(directory.parent)
        active = segments.pop() if segments else None
        if active is not None and _length(directory, active) < active.size_bytes:
            segments.append(active)  # damaged: new batches are put elsewhere
            active = None
        size = active.size_bytes if active is not None else 0
        run: list[_Batch] = []
        for batch, header in batches:
            if size > 0 and size + len(batch) > self._segment_bytes:
                segments.append(self._extend(directory, active, run))
                active, run, size = None, [], 0
            run.append((batch, header))
            size += len(batch)
        segments.append(self._extend(directory, active, run))

    def _extend(
        self, directory: Path, active: SegmentRow | None, run: list[_Batch]
    ) -> SegmentRow:
        """Append batches to a segment, or to a new one; return its row."""
        if not run:
            assert active is not None
            return active
        batches = [batch for batch, _ in run]
        greatest_ms = max([header.max_timestamp_ms for _, header in run])
        first, last = run[0][1], run[-1][1]
        if active is None:
            active = SegmentRow(first.base_offset, 0, 0, 0, greatest_ms)
        assert active.end_offset <= first.base_offset
        row = SegmentRow(
            active.base_offset,
            active.version,
            active.size_bytes + sum(map(len, batches)),
            last.last_offset + 1,
            max(active.max_timestamp_ms, greatest_ms),
        )
        self._append(directory, row, active.size_bytes, batches)
        entries = _index_entries(run, active.size_bytes)
        assert entries[-1][-1] == row.size_bytes
        self._indexes[segment_path(directory, row)] = entries
        return row

    def _append(
        self, directory: Path, row: SegmentRow, at: int, batches: list[bytes]
    ) -> None:
        """Write batches behind the valid bytes of a segment."""
        assert at + sum(map(len, batches)) == row.size_bytes
        path = segment_path(directory, row)
        if at == 0:
            self._directories.append(directory)
        descriptor = open_file(path)
        start = at
        try:
            if os.fstat(descriptor).st_size > at:
                os.ftruncate(descriptor, at)
            for first in range(0, len(batches), _PIECES_MAX):
                at += write_all(descriptor, batches[first : first + _PIECES_MAX], at)
            assert at == row.size_bytes
            if self._must_sync and len(self._files) < SYNCED_ONE_BY_ONE:
                # Begin writing all files before waiting for one.
                portable_os.start_writing(descriptor, start, at - start)
        finally:
            os.close(descriptor)
        self._files.append(path)

    def _rewrite_all(
        self,
        directory: Path,
        segments: list[SegmentRow],
        replaced: dict[LogOffset, bytes | None],
        start: LogOffset,
    ) -> list[SegmentRow]:
        """Write the segments that contain replaced batches to new files."""
        rewritten: list[SegmentRow] = []
        for row in segments:
            bases = [each for each in replaced if _contains(row, each)]
            if not bases:
                rewritten.append(row)
                continue
            try:
                new = self._rewrite(directory, row, replaced, start)
            except (MalformedFrame, ValueError, FileNotFoundError) as error:
                # Reads report the damage. The segment remains as it is.
                path = segment_path(directory, row)
                _LOGGER.error("%s is damaged and not compacted: %s", path, error)
                new = row
            if new.size_bytes > 0:
                rewritten.append(new)
        return rewritten

    def _rewrite(
        self,
        directory: Path,
        row: SegmentRow,
        replaced: dict[LogOffset, bytes | None],
        start: LogOffset,
    ) -> SegmentRow:
        """Write a segment without what was removed to a new file; return its row.

        Raises MalformedFrame, ValueError or FileNotFoundError for a damaged segment.
        """
        kept: list[bytes] = []
        greatest_ms, at = _LEAST_MS, 0
        with (
            segment_path(directory, row).open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            while at < row.size_bytes:
                header = header_at(data, at)
                end = at + header.size_bytes
                if end > min(len(data), row.size_bytes):
                    raise MalformedFrame(f"the file ends before byte {end}")
                if header.last_offset_delta < 0:
                    raise MalformedFrame(f"no batch at byte {at}")
                batch = replaced.get(header.base_offset, data[at:end])
                if batch is not None and header.last_offset >= start:
                    kept.append(batch)
                    time_ms = read_header(batch).max_timestamp_ms
                    greatest_ms = max(greatest_ms, time_ms)
                at = end
        assert at == row.size_bytes
        size = sum(map(len, kept))
        new = SegmentRow(
            row.base_offset, row.version + 1, size, row.end_offset, greatest_ms
        )
        if kept:
            self._append(directory, new, 0, kept)
        return new

    def _sync(self) -> None:
        """Make all written files durable."""
        if not self._must_sync:
            return
        directories = list(dict.fromkeys(self._directories))
        count = len(self._files) + len(directories)
        if count > SYNCED_ONE_BY_ONE and self._file_system.sync():
            return
        for path in self._files:
            portable_os.sync_file(path)
        for directory in directories:
            portable_os.sync_directory(directory)


class _FileSystem:
    """The file system of a directory, to be synced at once.

    Each sync of a file waits for the disk to empty its cache, so those of 10,000
    partitions took a minute.
    """

    def __init__(self, directory: Path) -> None:
        self._descriptor: int | None = None
        if _reports_errors():
            # Errors are reported if they occur after the directory is opened.
            self._descriptor = os.open(directory, os.O_RDONLY)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def sync(self) -> bool:
        """Sync; return False where this is not supported. Raises OSError."""
        if self._descriptor is None:
            return False
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(self._descriptor) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return True


def _reports_errors() -> bool:
    """Return whether the system has `syncfs`, and reports errors of writing by it."""
    if sys.platform != "linux":
        return False
    version = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return version is not None and tuple(map(int, version.groups())) >= (5, 8)


def _index_entries(run: list[_Batch], at: int) -> list[IndexEntry]:
    """Return the entries for batches that are written from a position on."""
    entries: list[IndexEntry] = []
    start, offset, greatest_ms = at, run[0][1].base_offset, _LEAST_MS
    for batch, header in run:
        if at - start >= INDEX_BYTES:
            entries.append((offset, greatest_ms, start, at))
            start, offset, greatest_ms = at, header.base_offset, _LEAST_MS
        greatest_ms = max(greatest_ms, header.max_timestamp_ms)
        at += len(batch)
    entries.append((offset, greatest_ms, start, at))
    return entries


def _collect(
    operations: Sequence[Operation], parts: dict[int, _PartChanges], changes: Changes
) -> None:
    """Add the operations of a write to the changes by partition."""
    for operation in operations:
        if isinstance(operation, Put):
            changes.values[operation.space, operation.key] = operation.value
            continue
        number = operation.part.number
        found = parts.get(number)
        if found is None:
            found = parts[number] = _PartChanges(operation.part)
        if isinstance(operation, Append):
            found.appends.append(operation)
        elif isinstance(operation, Replace):
            found.replaced[operation.base_offset] = operation.batch
        elif isinstance(operation, Delete):
            changes.deleted.append(number)
        else:
            assert isinstance(operation, Create | Truncate)


def _contains(row: SegmentRow, offset: LogOffset) -> bool:
    return row.base_offset <= offset < row.end_offset


def _length(directory: Path, row: SegmentRow) -> int:
    try:
        return segment_path(directory, row).stat().st_size
    except FileNotFoundError:
        return -1
