"""Segment files: consecutive batches of one partition, as Kafka stores them.

A segment's index in memory has the offset and the position of about every
`INDEX_BYTES`th byte. Checkpoints extend it. In segments from before the start it goes
as far as they have been searched, so a start reads no segment.
"""

from __future__ import annotations

import base64
import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from coterie import portable_os
from coterie.broker.log.directory import os_error
from coterie.broker.log.log import LogPartition
from coterie.broker.log.manifest import SegmentRow
from coterie.errors import LogCorrupt
from coterie.types import LogOffset
from coterie.wire.record_batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    crc_matches,
    header_at,
)

SEGMENTS_NAME: Final = "segments"
INDEX_BYTES: Final = 32 * 1024
READ_BYTES: Final = 64 * 1024
DESCRIPTORS_MAX: Final = 128
"""The most segment files that are open for reading."""
_HEAD: Final = struct.Struct(">q15xi8xq18x")
"""Base offset, last offset delta and max timestamp of a batch."""
MAGIC_AT: Final = 16
_LEAST_MS: Final = -(1 << 63)
_DAMAGED: Final = (
    "{path} is damaged at byte {at}: {reason}. Stop the server and restore its data"
    " directory from a backup."
)


def partition_directory(directory: Path, where: LogPartition) -> Path:
    """Return the directory of a partition's segments, named by Kafka's form of the
    topic id and the partition."""
    topic_id = base64.urlsafe_b64encode(where.topic_id).rstrip(b"=").decode()
    return directory / SEGMENTS_NAME / f"{topic_id}-{where.partition}"


def segment_path(partition: Path, row: SegmentRow) -> Path:
    """Return the file of a segment."""
    version = f".{row.version}" if row.version else ""
    return partition / f"{row.base_offset:020}{version}.log"


Place: TypeAlias = tuple[LogOffset, int, int, bytes]
"""End offset, max timestamp, position and header of a batch."""


class Segment:
    """A segment and its index."""

    __slots__ = (
        "_greatest_ms",
        "_greatest_yet_ms",
        "_offsets",
        "_positions",
        "_searched",
        "path",
        "resume",
        "row",
    )

    def __init__(self, path: Path, row: SegmentRow) -> None:
        self.path = path
        self.row = row
        self.resume = (row.base_offset, 0)
        """An offset, where the last read ended, and its position."""
        self._offsets = array("q", [row.base_offset])
        self._positions = array("q", [0])
        self._greatest_ms = array("q", [_LEAST_MS])
        """The greatest timestamp before each position."""
        self._searched = 0
        """The position up to which the index goes."""
        self._greatest_yet_ms = _LEAST_MS
        """The greatest timestamp before `_searched`."""

    def extend(self, row: SegmentRow) -> None:
        """Take over the row of a segment to which batches were appended."""
        assert row.base_offset == self.row.base_offset
        assert row.size_bytes >= self.row.size_bytes
        self.row = row

    def position_of(self, offset: LogOffset) -> int:
        """Return an indexed position at or before the batch with the offset."""
        return self._positions[max(0, bisect_right(self._offsets, offset) - 1)]

    def position_at_time(self, timestamp_ms: int) -> int:
        """Return an indexed position before which all timestamps are lower."""
        return self._positions[max(0, bisect_left(self._greatest_ms, timestamp_ms) - 1)]

    def add(self, offset: LogOffset, timestamp_ms: int, start: int, end: int) -> None:
        """Add consecutive batches to the index, if they follow those that it has."""
        assert start < end
        if start != self._searched:
            return
        if start >= self._positions[-1] + INDEX_BYTES:
            self._offsets.append(offset)
            self._positions.append(start)
            self._greatest_ms.append(self._greatest_yet_ms)
        self._searched = end
        self._greatest_yet_ms = max(self._greatest_yet_ms, timestamp_ms)


class SegmentReader:
    """Reads segment files, a limited number of which stays open."""

    def __init__(self, *, verify: bool) -> None:
        self._verify = verify
        self._open: OrderedDict[Path, int] = OrderedDict()

    def read(self, segment: Segment, offset: LogOffset, bytes_max: int) -> list[bytes]:
        """Return batches, starting with the one that contains `offset` or the next one;
        at least one if any is left in the segment.

        Raises LogCorrupt when the first one is damaged; a later one ends the result.
        """
        at = self._locate(segment, offset)
        if at >= segment.row.size_bytes:
            return []
        # One more header, to compare the offsets of the last batch with.
        data = self._pread(segment, at, max(bytes_max, READ_BYTES) + HEADER_BYTES)
        size = self._batch_size(segment, at, data, 0)
        if size + HEADER_BYTES > len(data):
            data = self._pread(segment, at, size + HEADER_BYTES)
        found: list[bytes] = []
        here, least = 0, segment.row.base_offset
        try:
            while here + HEADER_BYTES <= len(data):
                size = self._batch_size(segment, at, data, here)
                if found and here + size > min(bytes_max, len(data)):
                    break
                least = self._end_offset(segment, at, data, here, least)
                batch = data[here : here + size]
                if self._verify and not crc_matches(batch):
                    raise corrupt(segment.path, at + here, "a wrong checksum")
                found.append(batch)
                here += size
        except LogCorrupt:
            if not found:
                raise
        segment.resume = (header_at(found[-1]).last_offset + 1, at + here)
        return found

    def headers(
        self, segment: Segment, offset: LogOffset, count_max: int
    ) -> list[BatchHeader]:
        """Return the headers of some batches, starting with the one that contains
        `offset` or the next one."""
        assert count_max > 0
        at = self._locate(segment, offset)
        heads = islice(self._heads(segment, at), count_max)
        return [header_at(header) for *_, header in heads]

    def find_timestamp(
        self, segment: Segment, timestamp_ms: int, offset: LogOffset
    ) -> BatchHeader | None:
        """Return the header of the first batch from the one with `offset` on whose max
        timestamp is at least `timestamp_ms`."""
        if segment.row.max_timestamp_ms < timestamp_ms:
            return None
        at = max(segment.position_of(offset), segment.position_at_time(timestamp_ms))
        for end, time_ms, _, header in self._heads(segment, at):
            if time_ms >= timestamp_ms and end > offset:
                return header_at(header)
        return None

    def size_before(self, segment: Segment, offset: LogOffset) -> int:
        """Return the size of the batches that end before an offset."""
        return self._locate(segment, offset)

    def forget(self, path: Path) -> None:
        """Close a file that is no longer used."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        for path in list(self._open):
            self.forget(path)

    def _locate(self, segment: Segment, offset: LogOffset) -> int:
        """Return the position of the batch that contains the offset, or the next."""
        if offset == segment.resume[0]:
            return segment.resume[1]
        at = segment.position_of(offset)
        for end, _, start, _ in self._heads(segment, at):
            if end > offset:
                return start
        return segment.row.size_bytes

    def _heads(self, segment: Segment, at: int) -> Iterator[Place]:
        """Yield the places of the batches from a position on."""
        size = segment.row.size_bytes
        data, data_at = b"", at
        least = segment.row.base_offset
        while at < size:
            here = at - data_at
            if len(data) - here < HEADER_BYTES:
                data, data_at, here = self._pread(segment, at, READ_BYTES), at, 0
            end = at + self._batch_size(segment, data_at, data, here)
            next_data, next_at = data, data_at
            if end < size and end + HEADER_BYTES > data_at + len(data):
                next_data, next_at = self._pread(segment, end, READ_BYTES), end
            header = data[here : here + HEADER_BYTES]
            base, _, time_ms = _HEAD.unpack(header)
            following = next_data[end - next_at : end - next_at + 8]
            end_offset = self._check_offsets(segment, at, header, following, least)
            segment.add(base, time_ms, at, end)
            yield end_offset, time_ms, at, header
            at, least, data, data_at = end, end_offset, next_data, next_at

    def _end_offset(
        self, segment: Segment, data_at: int, data: bytes, here: int, least: LogOffset
    ) -> LogOffset:
        """Return the offset after a batch of `data`; see `_check_offsets`."""
        header = data[here : here + HEADER_BYTES]
        end = here + int.from_bytes(header[8:LENGTH_END], "big") + LENGTH_END
        following = data[end : end + 8]
        return self._check_offsets(segment, data_at + here, header, following, least)

    @staticmethod
    def _check_offsets(
        segment: Segment, at: int, header: bytes, following: bytes, least: LogOffset
    ) -> LogOffset:
        """Return the offset after a batch.

        The checksum of a batch does not cover its base offset. So it must be at least
        `least`, and that of the following batch, if there is one, must be greater than
        its last offset.
        """
        base, delta, _ = _HEAD.unpack(header)
        end_offset: LogOffset = base + delta + 1
        limit = segment.row.end_offset
        if len(following) == 8:
            limit = min(limit, int.from_bytes(following, "big", signed=True))
        if not least <= base < end_offset <= limit:
            raise corrupt(segment.path, at, f"a batch of offset {base}")
        return end_offset

    @staticmethod
    def _batch_size(segment: Segment, data_at: int, data: bytes, here: int) -> int:
        """Return the size of the batch whose header is in `data`."""
        at = data_at + here
        if len(data) - here < HEADER_BYTES:
            raise corrupt(segment.path, at, "the file ends there")
        size = int.from_bytes(data[here + 8 : here + LENGTH_END], "big") + LENGTH_END
        magic = data[here + MAGIC_AT]
        if magic != MAGIC or not HEADER_BYTES <= size <= segment.row.size_bytes - at:
            raise corrupt(segment.path, at, "no batch begins there")
        return size

    def _pread(self, segment: Segment, at: int, size: int) -> bytes:
        """Read at most to the end of the segment."""
        assert 0 <= at < segment.row.size_bytes
        size = min(size, segment.row.size_bytes - at)
        try:
            data = portable_os.pread(self._descriptor(segment.path), size, at)
        except FileNotFoundError:
            raise corrupt(segment.path, 0, "the file is missing") from None
        except OSError as error:
            raise os_error(segment.path, error) from error
        if len(data) < size:
            raise corrupt(segment.path, at + len(data), "the file ends there")
        return data

    def _descriptor(self, path: Path) -> int:
        descriptor = self._open.get(path)
        if descriptor is not None:
            self._open.move_to_end(path)
            return descriptor
        descriptor = os.open(path, os.O_RDONLY | portable_os.BINARY)
        self._open[path] = descriptor
        if len(self._open) > DESCRIPTORS_MAX:
            _, oldest = self._open.popitem(last=False)
            os.close(oldest)
        return descriptor


def check_files(directory: Path, segments: Iterable[Segment]) -> None:
    """Cut the files in a store to their valid lengths, and remove unknown segments.

    Raises LogCorrupt for a file that is missing or too short.
    """
    rows = {str(segment.path): segment.row for segment in segments}
    for partition in list(os.scandir(directory / SEGMENTS_NAME)):
        for file in list(os.scandir(partition)):
            row = rows.pop(file.path, None)
            if row is not None:
                length = file.stat().st_size
                if length < row.size_bytes:
                    raise corrupt(Path(file.path), length, "the file ends there")
                if length > row.size_bytes:
                    os.truncate(file.path, row.size_bytes)
            elif file.name.endswith(".log"):
                Path(file.path).unlink()
    for missing in rows:
        raise corrupt(Path(missing), 0, "the file is missing")


def corrupt(path: Path, at: int, reason: str) -> LogCorrupt:
    """Return the error for a damaged segment."""
    return LogCorrupt(_DAMAGED.format(path=path, at=at, reason=reason))
