"""A source that reads Kafka's log segments in a folder or an object store: dumps,
copies of a broker's disk, or that disk itself.

The driver scans the headers of new batches and finds the stable offset; workers decode
the batches. A running driver continues its scan; a restarted driver begins with the
file that contains its position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from coterie.errors import LogError, SettingError
from coterie.pipeline.segments.scan import (
    BAD_CHECKSUM,
    CHUNK_BYTES,
    bad_checksums,
    scan,
)
from coterie.pipeline.segments.transactions import MarkerOutcomes
from coterie.pipeline.sources.head_tracker import HeadTracker
from coterie.pipeline.sources.log_scan import LISTINGS_MAX, LogScan, NewBatches
from coterie.pipeline.sources.row_builder import BatchRun, RowBuilder
from coterie.pipeline.sources.segment_files import (
    TOPIC,
    FileVanished,
    LogFile,
    LogFiles,
)
from coterie.pipeline.sources.source import Head, Hint, OffsetRange, Rows

_CHUNK_BYTES_MIN: Final = 64 * 1024


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
        """Check that there are segments, and record batches in them unless all are
        empty. Raises SettingError, LogError."""
        found = self.files.find()
        starts = (self._start_offset(*each) for each in found.items())
        if any(start is not None for start in starts):
            return
        if any(self.files.size(each) for files in found.values() for each in files):
            raise SettingError(
                f"{self.where} has *.log files without record batches: give a folder"
                f" with segments of {TOPIC} in it"
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
        for _ in range(LISTINGS_MAX - 1):
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
