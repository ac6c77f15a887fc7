"""A source that reads Kafka's log segments in a folder or an object store: dumps,
copies of a broker's disk, or that disk itself.

The driver scans the headers of new batches and finds the stable offset; workers decode
the batches. A running driver continues its scan at the last batch that it has scanned;
if that batch is no longer at its place, or the driver was restarted, it begins with the
file that contains its position. A batch that ends at or before the position has been
read already, or is a second copy, and is left out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from coterie.errors import LogError, SettingError
from coterie.pipeline.codec.decode import decode
from coterie.pipeline.segments.batches import (
    BAD_CHECKSUM,
    CHUNK_BYTES,
    Fault,
    Flags,
    Ints,
    ScannedChunk,
    bad_checksums,
    scan,
)
from coterie.pipeline.segments.transactions import (
    MarkerOutcomes,
    TransactionBatch,
    transaction_batches,
)
from coterie.pipeline.sources.head_tracker import (
    BatchColumns,
    BatchPlace,
    HeadTracker,
)
from coterie.pipeline.sources.row_builder import BatchRun, RowBuilder
from coterie.pipeline.sources.segment_files import (
    TOPIC,
    FileVanished,
    LogFile,
    LogFiles,
    first_file,
)
from coterie.pipeline.sources.source import Head, Hint, OffsetRange, Rows
from coterie.pipeline.tables.ingested import QUARANTINE

_CHUNK_BYTES_MIN: Final = 64 * 1024
_LISTINGS_MAX: Final = 5
"""The number of times that files may vanish between listing and reading without
progress.
"""
_FIRST_RECORDS: Final = 1_000
_LATER_TYPES: Final = range(9, 100)
"""Types of records of share and streams groups, and perhaps of later Kafka."""
_FRONT: Final = struct.Struct(">q15xi")
"""The base offset and the last offset delta of a batch."""


def open_segments(where: str, *, log_partition: int | str = 0) -> SegmentSource:
    """Open a folder, a file or a URI.

    `log_partition` applies to files whose folder name does not contain it. Raises
    SettingError.
    """
    if not str(log_partition).isdecimal():
        raise SettingError(
            f"log_partition: {log_partition!r} is not a number from 0 on"
        )
    if "://" not in where:
        where = str(Path(where).absolute())
    return SegmentSource(where, LogFiles.at(where, int(log_partition)))


@dataclass
class SegmentSource:
    """A source that reads the log from segment files. See the module's docstring."""

    where: str
    files: LogFiles
    chunk_bytes: int = CHUNK_BYTES
    _trackers: dict[int, HeadTracker] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __getstate__(self) -> dict[str, Any]:
        # Workers do not need the trackers.
        return {**self.__dict__, "_trackers": {}}

    def describe(self) -> str:
        return f"segments:{self.where}"

    def check(self) -> None:
        """Check that there are segments, record batches in them unless all are empty,
        and records of a coordinator unless the folder's name shows that. Raises
        SettingError, LogError."""
        found = self.files.find()
        starts = {number: self._start_offset(number, found[number]) for number in found}
        if any(start is not None for start in starts.values()):
            if not self.files.is_named:
                self._check_first_records()
            return
        if any(self.files.size(each) for files in found.values() for each in files):
            raise SettingError(
                f"{self.where} has *.log files without record batches: give a folder"
                f" with segments of {TOPIC} in it"
            )

    def _check_first_records(self) -> None:
        """Raise SettingError if none of the first records is one of a coordinator, as
        in the folder of another topic."""
        [(number, head)] = self.heads().items()
        until = min(head.start_offset + _FIRST_RECORDS, head.stable_offset)
        if until <= head.start_offset:  # nothing to read before an open transaction
            return
        count = 0
        for rows in self.read(OffsetRange(number, head.start_offset, until)):
            decoded = decode(rows.records)
            unreadable = decoded.pop(QUARANTINE.name)
            types = unreadable["record_type"].drop_null().to_pylist()
            if any(each.num_rows for each in decoded.values()) or any(
                each in _LATER_TYPES for each in types
            ):
                return
            count += unreadable.num_rows
        if count:
            raise SettingError(
                f"{self.where}: none of the first {count} records is one of {TOPIC}: is"
                " this the folder of another topic? Give a folder with segments of"
                f" {TOPIC} in it"
            )

    def heads(self, since: Mapping[int, int] | None = None) -> Mapping[int, Head]:
        """Return the head of each log partition. Raises SettingError, LogError."""
        heads = {}
        for number, files in self.files.find().items():
            begin = (since or {}).get(number, 0)
            tracker = self._trackers.get(number)
            if tracker is None or tracker.begin > begin:
                tracker = self._trackers[number] = HeadTracker(begin)
            tracker.forget(begin)
            log = self._scan(number, tracker.position, tracker.last_batch)
            for batches in log.new_batches():
                tracker.add(batches.columns(), batches.transactional())
            start = self._start_offset(number, files)
            heads[number] = tracker.head(tracker.position if start is None else start)
        return heads

    def read(self, part: OffsetRange) -> Iterator[Rows]:
        """Read a range. Raises LogError, also when the log ends before the range."""
        number, position = part.log_partition, part.from_offset
        # A second scan reads ahead to the transaction markers if there are
        # transactions.
        ahead = self._scan(number, position, part.hint).new_batches()
        outcomes = MarkerOutcomes(batches.transactional() for batches in ahead)
        builder = RowBuilder(number, position, outcomes.outcome)
        for batches in self._scan(number, position, part.hint).new_batches():
            ends = batches.chunk.ends[batches.indexes]
            count = int(np.searchsorted(ends, part.until_offset, side="right"))
            if count:
                builder.position = min(builder.position, batches.position)
                yield from builder.rows(_batch_run(batches, count))
            if count < len(ends) and builder.position < part.until_offset:
                base = int(batches.chunk.bases[batches.indexes[count]])
                yield from builder.finish(part.until_offset, base)
            if builder.position >= part.until_offset:
                return
        raise LogError(
            f"{self.where}: log partition {number} ends at offset {builder.position},"
            f" and ended at {part.until_offset} when the range was planned:"
            " were files removed?"
        )

    def _scan(self, log_partition: int, position: int, hint: Hint | None) -> LogScan:
        size = self.chunk_bytes
        if hint is not None and "size_bytes" in hint:
            size = min(size, max(_CHUNK_BYTES_MIN, int(hint["size_bytes"])))
        return LogScan(self.files, log_partition, position, hint, size)

    def _start_offset(self, log_partition: int, files: Sequence[LogFile]) -> int | None:
        """Return the first offset of the log; None for a log without batches."""
        for _ in range(_LISTINGS_MAX - 1):
            try:
                return self._first_offset(files)
            except FileVanished:
                files = self.files.files(log_partition)
        return self._first_offset(files)

    def _first_offset(self, files: Sequence[LogFile]) -> int | None:
        for file in files:
            with self.files.open(file) as opened:
                for chunk in scan(
                    opened,
                    file.name,
                    first_offset=file.first_offset,
                    chunk_bytes=_CHUNK_BYTES_MIN,
                ):
                    if len(chunk.bases):
                        return int(chunk.bases[0])
        return None


def _batch_run(batches: NewBatches, count: int) -> BatchRun:
    """Return the first `count` new batches after checking their checksums."""
    chunk, new = batches.chunk, batches.indexes[:count]
    headers = chunk.headers.select(new)
    bad = dict.fromkeys(bad_checksums(chunk.data, headers), BAD_CHECKSUM)
    good = np.setdiff1d(np.arange(count), list(bad)) if bad else np.arange(count)
    return BatchRun(
        source=batches.file.name,
        data=chunk.data,
        headers=headers.select(good),
        good=good,
        bad=bad,
        bases=chunk.bases[new],
        ends=chunk.ends[new],
        positions=chunk.at + headers.position,
        sizes=headers.size_bytes,
        faults=[each for each in batches.faults if each[0] < count],
        begins_log=batches.begins_log,
    )


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
        headers = self.chunk.headers.select(self.indexes)
        return transaction_batches(self.chunk.data, headers)

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
                if listings == _LISTINGS_MAX:
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
