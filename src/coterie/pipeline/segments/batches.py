"""Find the record batches in the bytes of a log segment.

The position of a batch follows from the length of the previous one, as in Kafka's
DumpLogSegments. Bytes that are not a valid batch are a fault, and the scan continues
after it. (A broker's recovery, LogSegment.recover, truncates the log there; this scan
must not lose later batches.) The fault ends

1. at the end that the broken batch's length gives, if another header or the end of the
   file follows: then the length is probably right and the content is not;
2. otherwise at the next batch whose checksum is right.

Nearly all batches of a coordinator's log are small, so a Python loop over them would
take longer than decoding their records. `_follow_in_lanes` follows the lengths from
several positions at once, and `_all_checksums_match` checks many batches by one
checksum. Where either finds a problem, the loop decides.

With `verify`, all checksums are checked. Without it, only headers are read, and the
worker that decodes the records calls `bad_checksums`. The checksum of a batch of more
than 1 MiB is always checked, because a wrong length could hide many other batches; and
rule 1 then needs a valid batch, not only a header, at the end that the length gives.

The result depends on the file's bytes alone, not on the limits of chunks, so the driver
and all workers find the same batches.
"""

from __future__ import annotations

import re
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
)

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

CHUNK_BYTES: Final = 8 * 1024 * 1024
"""The size of a read. It fits into the processor's cache; larger ones are slower."""
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
_UNVERIFIED_BYTES_MAX: Final = 1024 * 1024
_FRONT: Final = struct.Struct(">i4xbI")
"""The fields from the length to the checksum: length, magic and checksum."""
_SMALL_BYTES: Final = 4 * 1024
"""Batches of less than this on average are followed in lanes and checked together."""
_LANE_BYTES: Final = 32 * 1024
_LANE_STEPS: Final = 16
_LANE_STEPS_MAX: Final = 2 * _LANE_BYTES // HEADER_BYTES
_PROBED: Final = 16
"""The number of batches of which the average size is taken."""
_LIKELY_HEADER: Final = re.compile(rb"\x00\x00.{6}\x00.{7}\x02.{4}\x00", re.DOTALL)
"""Base offset below 2**48, length below 2**24, format 2, attributes below 256."""
_SEAM: Final = np.dtype([("crc", "<u4"), ("zeros", "V17"), ("first", ">u4")])
"""The bytes of a header that no checksum covers, and the first four that one does."""
assert _SEAM.fields is not None
assert _SEAM.fields["first"][1] == CHECKED_FROM
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
        if isinstance(rows, slice):
            return BatchHeaders(self.position[rows], self.fields[rows])
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
    faults: list[tuple[int, Fault]]
    """Each with the index of the batch that follows it."""
    is_at_file_end: bool

    def drop_torn_tail(self) -> None:
        """Drop a fault at the end of the file: a broker may be writing that batch."""
        if self.is_at_file_end and self.faults:
            last = self.faults[-1][1]
            if last.position + last.size_bytes == self.end:
                self.faults.pop()

    def batch(self, index: int) -> memoryview:
        begin = int(self.headers.position[index])
        size = int(self.headers.fields["size_bytes"][index]) + LENGTH_END
        return memoryview(self.data)[begin : begin + size]


def scan(
    file: SegmentFile,
    source: str,
    at: int = 0,
    *,
    first_offset: int | None = None,
    verify: bool = False,
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
        scanner = _Scanner(data, left, verify=verify)
        scanner.run()
        if not scanner.end:
            wanted = max(scanner.wanted, 2 * len(data))
            continue
        yield _chunk(scanner, source, at, first_offset)
        at, left = at + scanner.end, left - scanner.end
        wanted = max(chunk_bytes, scanner.wanted)


def bad_checksums(data: bytes, headers: BatchHeaders) -> list[int]:
    """Return the indexes of the batches whose checksum is wrong."""
    begins, ends = headers.position, headers.position + headers.size_bytes
    is_small = len(begins) > 1 and ends[-1] - begins[0] < _SMALL_BYTES * len(begins)
    is_small = is_small and bool((begins[1:] == ends[:-1]).all())
    if is_small and _all_checksums_match(data, begins, int(ends[-1])):
        return []
    view = memoryview(data)
    stated = headers.fields["crc"].tolist()
    spans = zip((begins + CHECKED_FROM).tolist(), ends.tolist(), stated, strict=True)
    return [
        index
        for index, (begin, end, crc) in enumerate(spans)
        if crc32c(view[begin:end]) != crc
    ]


def _all_checksums_match(data: bytes, begins: Ints, end: int) -> bool:
    """Return whether the checksums of consecutive batches are right, by one checksum of
    all bytes up to `end`.

    CRC-32C is a register that begins as ones; the checksum is its complement. Inverting
    the first four bytes of a batch has the effect of beginning with ones. Appending the
    complement of the right checksum makes the register zero, and it remains zero in the
    zeros that replace the unchecked bytes of the next header. So it is zero at the end
    if all checksums are right. A single wrong one makes it nonzero; several cancel each
    other with a probability of 2**-32, that of a wrong batch with the right checksum.
    """
    begin = int(begins[0])
    buffer = np.empty(end - begin + 4, np.uint8)
    buffer[:-4] = np.frombuffer(data, np.uint8, end - begin, begin)
    seam_at = begins - begin
    seams = np.ndarray((len(buffer) - _SEAM.itemsize + 1,), _SEAM, buffer, strides=(1,))
    words = np.ndarray((len(buffer) - 3,), ">u4", buffer, strides=(1,))
    stated = words[seam_at + (CHECKED_FROM - 4)]
    changed = np.zeros(len(begins), _SEAM)
    changed["crc"][1:] = ~stated[:-1]
    changed["first"] = ~seams["first"][seam_at]
    seams[seam_at] = changed
    buffer[-4:] = np.frombuffer((~stated[-1:]).astype("<u4").tobytes(), np.uint8)
    ones = 0xFFFF_FFFF  # crc32c complements at both ends
    return crc32c(buffer.data, ones) == ones


def _follow_in_lanes(data: bytes, begin: int) -> Ints:
    """Return the positions of batches from `begin` on: up to the last complete batch,
    or to a problem. Return none if the first batches are not small.

    A lane begins at a position that is likely a header's, about every _LANE_BYTES. One
    numpy step goes to the next batch in all lanes. A lane's positions are right when
    the lane before it ended at its first position.
    """
    at = begin
    for _ in range(_PROBED):
        if at + HEADER_BYTES > len(data):
            return np.zeros(0, np.int64)
        at += LENGTH_END + max(0, int.from_bytes(data[at + 8 : at + LENGTH_END], "big"))
    if at - begin > _PROBED * _SMALL_BYTES:
        return np.zeros(0, np.int64)
    starts = np.array(_lane_starts(data, begin), np.int64)
    ends = np.append(starts[1:], len(data))
    last = len(data) - HEADER_BYTES
    lengths = np.ndarray((last + 1,), ">i4", data, 8, strides=(1,))
    cursor = starts
    steps = [starts]
    while len(steps) < _LANE_STEPS_MAX:
        size = lengths[np.minimum(cursor, last)] + LENGTH_END
        cursor = cursor + np.maximum(size, HEADER_BYTES)
        steps.append(cursor)
        if len(steps) % _LANE_STEPS == 0 and (cursor >= ends).all():
            break
    lanes = np.stack(steps, 1)
    is_joined = (lanes == ends[:, None]).any(1)
    right = len(ends) if is_joined.all() else int(np.argmin(is_joined)) + 1
    found = lanes[:right][lanes[:right] < ends[:right, None]]
    found = found[found <= last]
    sizes = lengths[found].astype(np.int64) + LENGTH_END
    magic = np.frombuffer(data, np.uint8)[found + _MAGIC_AT]
    is_right = (magic == MAGIC) & (found + sizes <= len(data))
    is_right &= (sizes >= HEADER_BYTES) & (sizes <= _UNVERIFIED_BYTES_MAX)
    return found if is_right.all() else found[: int(np.argmin(is_right))]


def _lane_starts(data: bytes, begin: int) -> list[int]:
    """Return `begin`, and likely positions of headers after it."""
    starts = [begin]
    for at in range(begin + _LANE_BYTES, len(data), _LANE_BYTES):
        found = _LIKELY_HEADER.search(data, at, at + 2 * _SMALL_BYTES)
        while found is not None:
            here = found.start()
            size = int.from_bytes(data[here + 8 : here + LENGTH_END], "big")
            if _LIKELY_HEADER.match(data, here + LENGTH_END + size):
                starts.append(here)
                break
            found = _LIKELY_HEADER.search(data, here + 1, at + 2 * _SMALL_BYTES)
    return starts


class _Scanner:
    """The scan of one chunk. Positions are relative to the data of the chunk."""

    def __init__(self, data: bytes, left: int, *, verify: bool) -> None:
        self.data = data
        self.left = left
        """Bytes from the beginning of the data to the end of the file."""
        self.verify = verify
        self.in_lanes = np.zeros(0, np.int64)
        """The positions of the first batches."""
        self.positions: list[int] = []
        """The positions of the following batches."""
        self.faults: list[tuple[int, int, int, str]] = []
        """Index of the next batch, position, size and reason."""
        self.end = 0
        """The position up to which it is scanned."""
        self.wanted = 0
        """The number of bytes needed from there, when the data does not suffice."""

    def run(self) -> None:
        """Scan to the end of the data, or until more bytes are needed."""
        self._follow_small_batches()
        while self.end < len(self.data) and not self.wanted:
            self._follow_lengths()
            if self.end < len(self.data) and not self.wanted:
                self._skip_fault()

    def _follow_small_batches(self) -> None:
        """Find the first batches in lanes, if all of these are right."""
        found = _follow_in_lanes(self.data, 0)
        if not len(found):
            return
        size = int.from_bytes(self.data[found[-1] + 8 : found[-1] + LENGTH_END], "big")
        end = int(found[-1]) + LENGTH_END + size
        if not self.verify or _all_checksums_match(self.data, found, end):
            self.in_lanes, self.end = found, end

    def _follow_lengths(self) -> None:
        """Find batches up to the first bytes that are not a complete batch."""
        data, view, at, left = self.data, memoryview(self.data), self.end, self.left
        unpack, add = _FRONT.unpack_from, self.positions.append
        # Without `verify`, only the checksums of larger batches are checked.
        trusted_max = -1 if self.verify else _UNVERIFIED_BYTES_MAX
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
            if size > trusted_max and crc32c(view[at + CHECKED_FROM : after]) != crc:
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
        after = None if size is None else self._end_by_length(size, magic)
        if self.wanted:
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
        before = len(self.in_lanes) + len(self.positions)
        self.faults.append((before, at, after - at, reason))
        self.end = after

    def _end_by_length(self, size: int, magic: int) -> int | None:
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
            if self.verify or magic != MAGIC:
                return after
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
    positions = np.array(scanner.positions, np.int64)
    headers = BatchHeaders.read(
        scanner.data, np.concatenate([scanner.in_lanes, positions])
    )
    bases, counts = headers.base_offset, headers.column("record_count")
    spans = headers.column("last_offset_delta") + 1
    faults = [
        (before, Fault(source, at + position, size, reason))
        for before, position, size, reason in scanner.faults
    ]
    wrong = np.zeros(len(headers), np.bool_)
    if first_offset is not None:
        wrong = (bases < first_offset) | (bases - first_offset >= _SEGMENT_OFFSETS_MAX)
        wrong |= (spans < 1) | (counts < 0) | (counts > spans)
    if wrong.any():
        sizes = headers.size_bytes
        faults += [
            (
                i,
                Fault(
                    source, at + int(headers.position[i]), int(sizes[i]), BAD_OFFSETS
                ),
            )
            for i in np.flatnonzero(wrong).tolist()
        ]
        faults.sort(key=lambda each: each[1].position)
        removed = np.concatenate(([0], np.cumsum(wrong))).tolist()
        faults = [(before - removed[before], fault) for before, fault in faults]
        headers, bases, spans = headers.select(~wrong), bases[~wrong], spans[~wrong]
    return ScannedChunk(
        data=scanner.data,
        at=at,
        end=at + scanner.end,
        headers=headers,
        bases=bases,
        ends=bases + spans,
        faults=faults,
        is_at_file_end=scanner.end == scanner.left,
    )
