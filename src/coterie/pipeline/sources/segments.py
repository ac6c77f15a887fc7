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
    CHUNK_BYTES,
    Fault,
    Flags,
    ScannedChunk,
    scan,
)
from coterie.pipeline.segments.transactions import MarkerOutcomes
from coterie.pipeline.sources.head_tracker import HeadTracker
from coterie.pipeline.sources.row_builder import BatchRun, RowBuilder
from coterie.pipeline.sources.segment_files import (
    FileVanished,
    LogFile,
    LogFiles,
    first_file,
)
from coterie.pipeline.sources.source import BatchPlace, Head, OffsetRange, Rows
from coterie.pipeline.tables.ingested import QUARANTINE
from coterie.types import OFFSETS_TOPIC

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
                f" with segments of {OFFSETS_TOPIC} in it"
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
                f"{self.where}: none of the first {count} records is one of"
                f" {OFFSETS_TOPIC}: is this the folder of another topic? Give a folder"
                f" with segments of {OFFSETS_TOPIC} in it"
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
            for run in log.runs():
                tracker.add(run)
            start = self._start_offset(number, files)
            heads[number] = tracker.head(tracker.position if start is None else start)
        return heads

    def read(self, part: OffsetRange) -> Iterator[Rows]:
        """Read a range. Raises LogError, also when the log ends before the range."""
        number, position = part.log_partition, part.from_offset
        # A second scan reads ahead to the transaction markers if there are
        # transactions.
        ahead = self._scan(number, position, part.after).runs()
        outcomes = MarkerOutcomes(run.transactional() for run in ahead)
        builder = RowBuilder(number, position, outcomes.outcome)
        for run in self._scan(number, position, part.after).runs():
            count = int(np.searchsorted(run.ends, part.until_offset, side="right"))
            if count:
                yield from builder.rows(run.part(slice(0, count)))
            if count < len(run.ends) and builder.position < part.until_offset:
                yield from builder.finish(part.until_offset, int(run.bases[count]))
            if builder.position >= part.until_offset:
                return
        raise LogError(
            f"{self.where}: log partition {number} ends at offset {builder.position},"
            f" and ended at {part.until_offset} when the range was planned:"
            " were files removed?"
        )

    def _scan(
        self, log_partition: int, position: int, after: BatchPlace | None
    ) -> LogScan:
        return LogScan(self.files, log_partition, position, after, self.chunk_bytes)

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


@dataclass
class LogScan:
    """One scan of a log partition. `position` is the next offset."""

    files: LogFiles
    log_partition: int
    position: int = 0
    after: BatchPlace | None = None
    """The batch that ends at the position, if known."""
    chunk_bytes: int = CHUNK_BYTES
    _is_past_position: bool = field(default=False, init=False)
    """Whether the batch that ends at the position was passed: faults from here on are
    before a new batch."""
    _pending_faults: list[Fault] = field(default_factory=list, init=False)
    """Faults after the last new batch."""
    _is_at_log_start: bool = field(default=False, init=False)
    _scanned_end: int = field(default=0, init=False)
    """The greatest end of a scanned batch."""

    def runs(self) -> Iterator[BatchRun]:
        """Yield the new batches of each chunk that has some. Raises LogError."""
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

    def _scan_files(self) -> Iterator[BatchRun]:
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
                    run = self._new_in(file, chunk)
                    if len(run.bases):
                        yield run
            at = 0

    def _first_place(self, files: list[LogFile]) -> tuple[int, int]:
        """Return the index of the first file to scan, and the position in that file."""
        if (place := self.after) is not None:
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

    def _new_in(self, file: LogFile, chunk: ScannedChunk) -> BatchRun:
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
        headers = chunk.headers.select(new)
        return BatchRun(
            source=file.name,
            data=chunk.data,
            headers=headers,
            is_bad=chunk.is_bad[new],
            bases=chunk.bases[new],
            ends=ends[new],
            places=chunk.at + headers.position,
            position=position,
            faults=faults,
            begins_log=begins_log,
        )

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
