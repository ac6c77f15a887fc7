"""Scan the batches of a log partition file by file: each offset once, in order.

A batch that ends at or before the position has been read already, or is a second copy,
and is left out. A scan may begin at the last batch of an earlier scan; if that batch is
no longer at its place, the scan begins with the first batch of a file instead.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from coterie.pipeline.segments.batch_headers import Flags, Ints
from coterie.pipeline.segments.scan import CHUNK_BYTES, Fault, ScannedChunk, scan
from coterie.pipeline.segments.transactions import (
    TransactionBatch,
    read_transaction_batch,
)
from coterie.pipeline.sources.head_tracker import BatchColumns, BatchPlace
from coterie.pipeline.sources.segment_files import (
    FileVanished,
    LogFile,
    LogFiles,
    first_file,
)
from coterie.pipeline.sources.source import Hint
from coterie.wire.record_batch import TRANSACTIONAL

LISTINGS_MAX: Final = 5
"""The number of times that files may vanish between listing and reading without
progress.
"""
_FRONT: Final = struct.Struct(">q15xi")
"""The base offset and the last offset delta of a batch."""


@dataclass(slots=True)
class NewBatches:
    """The new batches of a chunk, which have not been read before."""

    file: LogFile
    chunk: ScannedChunk
    indexes: Ints
    """Their indexes in the chunk."""
    position: int
    """The next offset before them; it may be within the first of them."""
    faults: list[tuple[int, Fault]]
    """Each with the number of the new batch that follows it."""
    begins_log: bool
    """Whether the first of them is the first batch of the log."""

    def transactional(self) -> list[TransactionBatch]:
        """Read the transactional batches that have a valid checksum."""
        has = self.chunk.headers.has(TRANSACTIONAL)[self.indexes]
        batches = [
            read_transaction_batch(self.chunk.batch(index))
            for index in self.indexes[has].tolist()
        ]
        return [each for each in batches if each is not None]

    def columns(self) -> BatchColumns:
        chunk, headers = self.chunk, self.chunk.headers
        return BatchColumns(
            bases=chunk.bases[self.indexes],
            ends=chunk.ends[self.indexes],
            records=headers.column("record_count")[self.indexes],
            size_bytes=headers.size_bytes[self.indexes],
            file=self.file.name,
            positions=chunk.at + headers.position[self.indexes],
        )


@dataclass
class LogScan:
    """One scan of a log partition. `position` is the next offset."""

    files: LogFiles
    log_partition: int
    position: int = 0
    hint: Hint | None = None
    """A `BatchPlace` as a dictionary: the batch that ends at the position."""
    chunk_bytes: int = CHUNK_BYTES
    _is_past_position: bool = field(default=False, init=False)
    """Whether the batch that ends at the position was passed: faults from here on are
    before a new batch."""
    _pending_faults: list[Fault] = field(default_factory=list, init=False)
    """Faults after the last new batch."""
    _is_at_log_start: bool = field(default=False, init=False)
    _scanned_end: int = field(default=0, init=False)
    """The greatest end of a scanned batch."""

    def new_batches(self) -> Iterator[NewBatches]:
        """Yield the chunks that have new batches. Raises LogError."""
        listings, reached = 0, -1
        while True:
            try:
                yield from self._scan_files()
            except FileVanished:
                # The broker compacted or deleted the file: list again, continue by
                # offset.
                listings = 1 if self.position > reached else listings + 1
                reached = self.position
                if listings == LISTINGS_MAX:
                    raise
            else:
                return

    def _scan_files(self) -> Iterator[NewBatches]:
        files = self.files.files(self.log_partition)
        first, at = self._first_place(files)
        self._is_past_position, self._pending_faults = self.position == 0, []
        self._is_at_log_start = first == 0 and at == 0
        for number, file in enumerate(files[first:], first + 1):
            with self.files.open(file) as opened:
                for chunk in scan(
                    opened,
                    file.name,
                    at,
                    first_offset=file.first_offset,
                    chunk_bytes=self.chunk_bytes,
                ):
                    if number == len(files):
                        chunk.drop_torn_tail()
                    batches = self._new_in(file, chunk)
                    if len(batches.indexes):
                        yield batches
            at = 0

    def _first_place(self, files: list[LogFile]) -> tuple[int, int]:
        """Return the index of the first file to scan, and the position in that file."""
        if self.hint is not None:
            place = BatchPlace(**{name: self.hint[name] for name in BatchPlace._fields})
            for number, file in enumerate(files):
                if file.name != place.file:
                    continue
                with self.files.open(file) as opened:
                    start = opened.read_at(_FRONT.size, place.position)
                if len(start) == _FRONT.size:
                    base, delta = _FRONT.unpack(start)
                    # If the batch is still at its place and ends before the position,
                    # no later batch can have moved before it, because compaction only
                    # removes batches.
                    if base == place.base_offset and base + delta < self.position:
                        return number, place.position
        return first_file(files, self.position), 0

    def _new_in(self, file: LogFile, chunk: ScannedChunk) -> NewBatches:
        ends, position = chunk.ends, self.position
        reached = np.maximum.accumulate(np.concatenate(([position], ends)))
        is_new = ends > reached[:-1]
        faults = self._faults_before_new(chunk, is_new)
        new = np.flatnonzero(is_new)
        old_ends = ends[: new[0]] if len(new) else ends
        self._scanned_end = max(self._scanned_end, int(old_ends.max(initial=0)))
        if len(new):
            base = int(chunk.bases[new[0]])
            if base < position:  # a range begins within the batch, or it is a copy
                position = max(base, self._scanned_end)
            self.position = self._scanned_end = int(ends[new[-1]])
        begins_log = self._is_at_log_start and bool(len(new)) and new[0] == 0
        begins_log = begins_log and not any(number == 0 for number, _ in faults)
        if len(ends):
            self._is_at_log_start = False
        return NewBatches(file, chunk, new, position, faults, begins_log)

    def _faults_before_new(
        self, chunk: ScannedChunk, is_new: Flags
    ) -> list[tuple[int, Fault]]:
        """Return the faults before new batches, each with the number of its next batch;
        retain the faults after the last new batch for the next chunk.
        """
        since = (
            0 if self._is_past_position else self._first_after_position(chunk, is_new)
        )
        pending = [] if since else [(0, fault) for fault in self._pending_faults]
        pending += [(index, fault) for index, fault in chunk.faults if index >= since]
        number = np.concatenate(([0], np.cumsum(is_new)))
        count = int(number[-1])
        numbered = [(int(number[index]), fault) for index, fault in pending]
        self._pending_faults = [fault for each, fault in numbered if each >= count]
        return [(each, fault) for each, fault in numbered if each < count]

    def _first_after_position(self, chunk: ScannedChunk, is_new: Flags) -> int:
        """Return the index of the first batch after the position. Faults before that
        batch belong to the range that ended at the position.
        """
        found = np.flatnonzero(is_new | (chunk.ends == self.position))
        if not len(found):
            return len(chunk.ends)
        self._is_past_position = True
        return int(found[0]) + (not is_new[found[0]])
