"""Find the record batches in the bytes of a log segment, and verify their checksums.

The position of a batch follows from the length of the previous one, as in Kafka's
DumpLogSegments. Bytes that are not a valid batch are a fault, and the scan continues
after it. (A broker's recovery, LogSegment.recover, truncates the log there; this scan
must not lose later batches.) The fault ends

1. at the end that the broken batch's length gives, if a valid batch or the end of the
   file follows: then the length is probably right and the content is not;
2. otherwise at the next batch whose checksum is right.

In the first case the header has the offsets of the broken batch, if it counts one
record for each offset: so they belong to the range of the log that contains them.

The result depends on the file's bytes alone, not on the limits of chunks, so the driver
and all workers find the same batches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from coterie.wire.record_batch import (
    CHECKED_FROM,
    CODEC_BITS,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    crc_matches,
    header_at,
)

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

CHUNK_BYTES: Final = 8 * 1024 * 1024
"""The size of a read."""
ZEROS: Final = "zeros, as in a preallocated file"
"""The reason of a fault without loss of data: only zeros follow in the file."""
BAD_CHECKSUM: Final = "the checksum is wrong: these are not the bytes that were written"
BAD_OFFSETS: Final = (
    "a batch with impossible offsets or an impossible number of records"
)
_MAGIC_AT: Final = 16
_OLD_HEADER_BYTES: Final = 26
"""The least size in formats 0 and 1: offset, length, checksum, magic, attributes, null
key and null value."""
_FRONT: Final = struct.Struct(">i4xbI")
"""The fields from the length to the checksum: length, magic and checksum."""
_SEGMENT_OFFSETS_MAX: Final = 2**31
"""The offsets of a segment span less: Kafka's index has relative offsets of 32 bits."""
_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("size_bytes", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
"""The layout in the log, with the field names of BatchHeader."""
_PLAIN_HEADER: Final = f"V{HEADER_BYTES}"
"""numpy copies elements without fields 17 times as fast."""
assert _HEADER.itemsize == HEADER_BYTES
assert _HEADER.names == BatchHeader._fields


@dataclass(frozen=True, slots=True, eq=False)
class BatchHeaders:
    """The positions of batches, and their headers."""

    position: Ints
    fields: Any
    """A numpy array of _HEADER; `size_bytes` as in the log, without LENGTH_END."""

    @classmethod
    def read(cls, data: bytes, position: Ints) -> BatchHeaders:
        if not len(position):
            return cls(position, np.zeros(0, _HEADER))
        # A view with stride 1 has an element at each byte, aligned or not.
        count = len(data) - HEADER_BYTES + 1
        view = np.ndarray((count,), _PLAIN_HEADER, data, strides=(1,))
        return cls(position, view[position].view(_HEADER))

    def __len__(self) -> int:
        return len(self.position)

    def select(self, rows: Ints | Flags | slice) -> BatchHeaders:
        """Return some of the headers, by a mask, by indexes or by a slice."""
        fields = self.fields.view(_PLAIN_HEADER)[rows].view(_HEADER)
        return BatchHeaders(self.position[rows], fields)

    def header(self, index: int) -> BatchHeader:
        header = BatchHeader(*self.fields[index].item())
        return header._replace(size_bytes=header.size_bytes + LENGTH_END)

    @property
    def base_offset(self) -> Ints:
        return self.column("base_offset")

    @property
    def last_offset(self) -> Ints:
        """The offset of the last record of each batch, even if compaction removed the
        record.
        """
        return self.column("base_offset") + self.column("last_offset_delta")

    @property
    def size_bytes(self) -> Ints:
        return self.column("size_bytes") + LENGTH_END

    @property
    def codec(self) -> Ints:
        return self.column("attributes") & CODEC_BITS

    def has(self, attribute: int) -> Flags:
        """Return a mask of the batches with the attribute LOG_APPEND_TIME,
        TRANSACTIONAL or CONTROL.
        """
        flags: Flags = (self.column("attributes") & attribute) != 0
        return flags

    def column(self, name: str) -> Ints:
        """Return a field of all headers, with the values in the log."""
        values: Ints = self.fields[name].astype(np.int64)
        return values


class SegmentFile(Protocol):
    """A file opened for reading at any position, like a pyarrow.NativeFile."""

    def size(self) -> int:
        """Return the size in bytes."""

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Read up to `nbytes` bytes at a position."""


class Fault(NamedTuple):
    """Bytes that are not a valid batch."""

    source: str
    """The file, or the cluster."""
    position: int
    """The byte in the file; without files, the base offset."""
    size_bytes: int
    reason: str

    def __str__(self) -> str:
        where = f"{self.source} at byte {self.position}"
        return f"{where}: {self.size_bytes} bytes left out: {self.reason}"


@dataclass(slots=True)
class ScannedChunk:
    """The batches in a part of a file, in order."""

    data: bytes
    at: int
    """The position of `data` in the file."""
    end: int
    """The position in the file up to which it was scanned."""
    headers: BatchHeaders
    """Positions are relative to `data`."""
    bases: Ints
    """Base offsets."""
    ends: Ints
    """The offset after each batch."""
    is_bad: Flags
    """The batches with a wrong checksum, whose header has their offsets."""
    faults: list[tuple[int, Fault]]
    """Each with the index of the batch that follows it."""
    is_at_file_end: bool

    def drop_torn_tail(self) -> None:
        """Drop a fault at the end of the file: a broker may be writing that batch."""
        if self.is_at_file_end and self.faults:
            last = self.faults[-1][1]
            if last.position + last.size_bytes == self.end:
                self.faults.pop()


def scan(
    file: SegmentFile,
    source: str,
    at: int = 0,
    *,
    first_offset: int | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[ScannedChunk]:
    """Yield the batches of a file from position `at`, where a batch begins.

    `source` names the file in faults. With `first_offset`, that of the segment, batches
    with impossible offsets are faults.
    """
    left, wanted = file.size() - at, chunk_bytes
    while left > 0:
        data = file.read_at(min(wanted, left), at)
        if len(data) < min(wanted, left):
            left = len(data)  # the file was truncated meanwhile
        scanner = _Scanner(data, left)
        scanner.run()
        if not scanner.end:
            wanted = max(scanner.wanted, 2 * len(data))
            continue
        yield _chunk(scanner, source, at, first_offset)
        at, left = at + scanner.end, left - scanner.end
        wanted = max(chunk_bytes, scanner.wanted)


class _Scanner:
    """The scan of one chunk. Positions are relative to the data of the chunk."""

    def __init__(self, data: bytes, left: int) -> None:
        self.data = data
        self.left = left
        """Bytes from the beginning of the data to the end of the file."""
        self.positions: list[int] = []
        self.bad: list[int] = []
        """The indexes of batches with a wrong checksum."""
        self.faults: list[tuple[int, int, int, str]] = []
        """Index of the next batch, position, size and reason."""
        self.end = 0
        """The position up to which it is scanned."""
        self.wanted = 0
        """The number of bytes needed from there, when the data does not suffice."""

    def run(self) -> None:
        """Scan to the end of the data, or until more bytes are needed."""
        while self.end < len(self.data) and not self.wanted:
            self._follow_lengths()
            if self.end < len(self.data) and not self.wanted:
                self._skip_fault()

    def _follow_lengths(self) -> None:
        """Find batches up to the first bytes that are not a complete batch."""
        data, view, at, left = self.data, memoryview(self.data), self.end, self.left
        unpack, add = _FRONT.unpack_from, self.positions.append
        last_header, size_min = len(data) - HEADER_BYTES, HEADER_BYTES - LENGTH_END
        while at <= last_header:
            # A batch may have only one small record, so this loop does as little as
            # possible.
            size, magic, crc = unpack(data, at + 8)
            after = at + LENGTH_END + size
            if magic != MAGIC or size < size_min or after > left:
                break
            if after > len(data):
                self.wanted = after - at
                break
            if crc32c(view[at + CHECKED_FROM : after]) != crc:
                break
            add(at)
            at = after
        else:
            if len(data) < left:
                self.wanted = HEADER_BYTES
        self.end = at

    def _skip_fault(self) -> None:
        """Skip a fault, or request more bytes when the end of the fault is not in the
        data.
        """
        data, at, size = self.data, self.end, self._stated_size(self.end)
        magic = data[at + _MAGIC_AT] if at + _MAGIC_AT < len(data) else MAGIC
        after = None if size is None else self._end_by_length(size)
        if self.wanted:
            return
        if after is not None and self._counts_its_offsets(at):
            self.bad.append(len(self.positions))
            self.positions.append(at)
            self.end = after
            return
        if after is None:
            after = self._next_right_batch(at + 1)
            if after == len(data) and after < self.left:
                self.wanted = 2 * (len(data) - at)
                return
        if after == self.left and not data[at:after].strip(b"\0"):
            reason = ZEROS
        elif magic > MAGIC:
            reason = f"record format {magic} is not known, the newest is {MAGIC}"
        elif size is None:
            reason = "a batch that is cut short, or whose length is wrong"
        elif magic < MAGIC:
            reason = (
                f"record format {magic}, of brokers before 0.11, is not supported: "
                "let a newer broker write the topic again"
            )
        else:
            reason = BAD_CHECKSUM
        self.faults.append((len(self.positions), at, after - at, reason))
        self.end = after

    def _counts_its_offsets(self, at: int) -> bool:
        """Return whether a batch has as many records as offsets: most probably its
        offsets are not among the changed bytes."""
        if self.data[at + _MAGIC_AT] != MAGIC:
            return False
        header = header_at(self.data, at)
        return 0 < header.record_count == header.last_offset_delta + 1

    def _end_by_length(self, size: int) -> int | None:
        """Return the end that the broken batch's length gives; None if that is wrong.

        Set `wanted` when the data does not reach far enough to decide.
        """
        after = self.end + size
        if after + HEADER_BYTES > len(self.data) and len(self.data) < self.left:
            self.wanted = size + HEADER_BYTES
        elif after != self.left:
            next_size = self._stated_size(after)
            if next_size is None:
                return None
            if after + next_size > len(self.data):
                self.wanted = size + next_size
            elif not crc_matches(memoryview(self.data)[after : after + next_size]):
                return None
        return after

    def _stated_size(self, at: int) -> int | None:
        """Return the size in the header of a batch of any format; None without a header
        with a possible size.
        """
        if at + _MAGIC_AT >= len(self.data):
            return None
        size, magic = struct.unpack_from(">i4xb", self.data, at + 8)
        size += LENGTH_END
        size_min = HEADER_BYTES if magic == MAGIC else _OLD_HEADER_BYTES
        is_possible = 0 <= magic <= MAGIC and size_min <= size <= self.left - at
        return size if is_possible else None

    def _next_right_batch(self, at: int) -> int:
        """Return the position of the next batch with a valid checksum; the end of the
        data if there is none.
        """
        data = self.data
        magic_at = data.find(MAGIC, at + _MAGIC_AT)
        while magic_at >= 0:
            at = magic_at - _MAGIC_AT
            size = self._stated_size(at)
            if size is not None:
                batch = memoryview(data)[at : at + size]
                if len(batch) == size and crc_matches(batch):
                    return at
            magic_at = data.find(MAGIC, magic_at + 1)
        return len(data)


def _chunk(
    scanner: _Scanner, source: str, at: int, first_offset: int | None
) -> ScannedChunk:
    headers = BatchHeaders.read(scanner.data, np.array(scanner.positions, np.int64))
    bases, counts = headers.base_offset, headers.column("record_count")
    spans = headers.column("last_offset_delta") + 1
    is_bad = np.zeros(len(headers), np.bool_)
    is_bad[scanner.bad] = True
    faults = [
        (before, Fault(source, at + position, size, reason))
        for before, position, size, reason in scanner.faults
    ]
    wrong = np.zeros(len(headers), np.bool_)
    if first_offset is not None:
        wrong = (bases < first_offset) | (bases - first_offset >= _SEGMENT_OFFSETS_MAX)
        wrong |= (spans < 1) | (counts < 0) | (counts > spans)
    if wrong.any():
        positions, sizes = headers.position + at, headers.size_bytes
        faults += [
            (i, Fault(source, int(positions[i]), int(sizes[i]), BAD_OFFSETS))
            for i in np.flatnonzero(wrong).tolist()
        ]
        faults.sort(key=lambda each: each[1].position)
        removed = np.concatenate(([0], np.cumsum(wrong))).tolist()
        faults = [(before - removed[before], fault) for before, fault in faults]
        headers, is_bad = headers.select(~wrong), is_bad[~wrong]
        bases, spans = bases[~wrong], spans[~wrong]
    return ScannedChunk(
        data=scanner.data,
        at=at,
        end=at + scanner.end,
        headers=headers,
        bases=bases,
        ends=bases + spans,
        is_bad=is_bad,
        faults=faults,
        is_at_file_end=scanner.end == scanner.left,
    )
