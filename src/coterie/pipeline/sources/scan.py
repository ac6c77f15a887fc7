"""From the bytes of a segment to where its batches are, without opening them.

Only headers are looked at, all at once: checksums are left to whoever reads the
records. What is found depends on the file's bytes alone, not on where a stretch of them
begins or ends, so all who walk over a log see the same batches.

Bytes that are no batch are a hole. It ends where a batch begins whose checksum is
right.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from coterie.pipeline.segments.varints import Flags, Ints
from coterie.wire.record_batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    crc_matches,
    read_header,
)

STRETCH_BYTES: Final = 8 * 1024 * 1024
"""How much is read at once; the processor's cache holds it (spark.md 2.1)."""
_MAGIC_AT: Final = 16
_OLD_HEADER_BYTES: Final = 26
"""Formats 0 and 1: offset, length, checksum, magic, attributes, two null fields."""
_BELIEVED_BYTES: Final = 1024 * 1024
"""A larger batch must have the right checksum: a broken length would hide much."""
_SIZE_AND_MAGIC: Final = struct.Struct(">i4xb")
_OFFSETS_MAX: Final = 2**31
"""How many offsets a segment spans at most: Kafka keeps them in 32 bits."""


class Hole(NamedTuple):
    """Bytes that are no batch."""

    before: int
    """The index, in the stretch, of the batch that follows."""
    position: int
    """The byte of the file."""
    size_bytes: int
    reason: str


@dataclass(slots=True)
class Stretch:
    """The batches in a part of a file, in order."""

    data: bytes
    at: int
    """Where in the file the data begins."""
    positions: Ints
    """Where each batch begins in the data."""
    sizes: Ints
    bases: Ints
    ends: Ints
    """The offset after each batch."""
    counts: Ints
    """Records of each."""
    transactional: Flags
    holes: list[Hole] = field(default_factory=list)

    def header(self, index: int) -> BatchHeader:
        """A batch's header."""
        return read_header(self.data, int(self.positions[index]))

    def batch(self, index: int) -> memoryview:
        """A batch's bytes."""
        begin = int(self.positions[index])
        return memoryview(self.data)[begin : begin + int(self.sizes[index])]


def stretches(
    file: Any,
    at: int = 0,
    *,
    first_offset: int = 0,
    is_last: bool = False,
    stretch_bytes: int = STRETCH_BYTES,
) -> Iterator[Stretch]:
    """The batches of an open file, from one that begins at byte `at` on.

    Batches with offsets that a segment with this first offset cannot have are holes.
    Of the log's last file a hole at the end is left out: it may still be written.
    """
    left, wanted = file.size() - at, stretch_bytes
    while left > 0:
        data = file.read_at(min(wanted, left), at)
        if len(data) < min(wanted, left):
            left = len(data)  # it was cut since
        found = _Scan(data, left)
        found.run()
        if not found.end:
            wanted = max(found.wanted, 2 * len(data))
            continue
        stretch = found.stretch(at, first_offset)
        if is_last and stretch.holes and found.end == left:
            last = stretch.holes[-1]
            if last.position + last.size_bytes == at + left:
                stretch.holes.pop()
        yield stretch
        at, left, wanted = at + found.end, left - found.end, stretch_bytes
        wanted = max(stretch_bytes, found.wanted)


class _Scan:
    """Follows the lengths that chain batches."""

    def __init__(self, data: bytes, left: int) -> None:
        self.data = data
        self.left = left
        """Bytes from the data's beginning to the file's end."""
        self.positions: list[int] = []
        self.holes: list[Hole] = []
        self.end = 0
        self.wanted = 0
        """How many bytes the next stretch needs."""

    def run(self) -> None:
        """Go as far as the data."""
        while self.end < len(self.data) and not self.wanted:
            self._chain()
            if self.end < len(self.data) and not self.wanted:
                self._leave_out()

    def _chain(self) -> None:
        """Go on to the first thing that is no whole batch."""
        data, at, unpack = self.data, self.end, _SIZE_AND_MAGIC.unpack_from
        add, size = self.positions.append, 0
        last_header = len(data) - HEADER_BYTES
        while at <= last_header:
            size, magic = unpack(data, at + 8)
            size += LENGTH_END
            after = at + size
            if magic != MAGIC or size < HEADER_BYTES or after > self.left:
                break
            if after > len(data):
                self.wanted = size
                break
            if size > _BELIEVED_BYTES and not _is_right(data, at, size):
                break
            add(at)
            at = after
        else:
            if len(data) < self.left:
                self.wanted = HEADER_BYTES
        self.end = at

    def _leave_out(self) -> None:
        """Go on behind a hole; ask for more bytes when its end is not in sight."""
        at, size = self.end, self._size(self.end)
        magic = self.data[at + _MAGIC_AT] if at + _MAGIC_AT < len(self.data) else None
        after = len(self.data)
        if magic is not None and magic < MAGIC and size is not None:
            after = at + size
        else:
            after = self._search(at + 1)
        if after >= len(self.data) and len(self.data) < self.left:
            self.wanted = 2 * (len(self.data) - at)
            return
        after = min(after, self.left)
        reason = _reason(self.data[at:after], magic, size)
        self.holes.append(Hole(len(self.positions), at, after - at, reason))
        self.end = after

    def _size(self, at: int) -> int | None:
        """How large a batch of any format says it is; None when that cannot be."""
        if at + _MAGIC_AT >= len(self.data):
            return None
        size, magic = _SIZE_AND_MAGIC.unpack_from(self.data, at + 8)
        size += LENGTH_END
        least = HEADER_BYTES if magic == MAGIC else _OLD_HEADER_BYTES
        return size if 0 <= magic <= MAGIC and least <= size <= self.left - at else None

    def _search(self, at: int) -> int:
        """Where the next batch begins whose checksum is right; the end, for none."""
        magic_at = self.data.find(MAGIC, at + _MAGIC_AT)
        while magic_at >= 0:
            at = magic_at - _MAGIC_AT
            size = self._size(at)
            if size is not None and _is_right(self.data, at, size):
                return at
            magic_at = self.data.find(MAGIC, magic_at + 1)
        return len(self.data)

    def stretch(self, at: int, first_offset: int) -> Stretch:
        """What was found, read at byte `at` of the file."""
        where = np.array(self.positions, np.int64)
        buffer = np.frombuffer(self.data, np.uint8)
        bases = _gather(buffer, where, ">i8")
        deltas = _gather(buffer, where + 23, ">i4")
        counts = _gather(buffer, where + 57, ">i4")
        attributes = _gather(buffer, where + 21, ">i2")
        holes = [each._replace(position=at + each.position) for each in self.holes]
        stretch = Stretch(
            data=self.data,
            at=at,
            positions=where,
            sizes=_gather(buffer, where + 8, ">i4") + LENGTH_END,
            bases=bases,
            ends=bases + deltas + 1,
            counts=counts,
            transactional=(attributes & TRANSACTIONAL) != 0,
            holes=holes,
        )
        wrong = (bases < first_offset) | (bases - first_offset >= _OFFSETS_MAX)
        wrong |= (deltas < 0) | (counts < 0) | (counts > deltas.astype(np.int64) + 1)
        return _without(stretch, wrong) if wrong.any() else stretch


def _is_right(data: bytes, at: int, size: int) -> bool:
    whole = at + size <= len(data)
    return whole and crc_matches(memoryview(data)[at : at + size])


def _gather(buffer: Any, at: Ints, kind: str) -> Ints:
    """The integers that begin at some bytes."""
    size = np.dtype(kind).itemsize
    count = max(0, len(buffer) - size + 1)
    view = np.ndarray((count,), kind, buffer, strides=(1,))
    return view[at].astype(np.int64)


def _without(stretch: Stretch, wrong: Flags) -> Stretch:
    """The stretch with some batches turned into holes."""
    made = [
        Hole(
            int(i),
            stretch.at + int(stretch.positions[i]),
            int(stretch.sizes[i]),
            "a batch with offsets or a count of records that cannot be",
        )
        for i in np.flatnonzero(wrong)
    ]
    holes = sorted([*stretch.holes, *made], key=lambda each: each.position)
    moved = np.concatenate(([0], np.cumsum(wrong)))
    keep = ~wrong
    return Stretch(
        data=stretch.data,
        at=stretch.at,
        positions=stretch.positions[keep],
        sizes=stretch.sizes[keep],
        bases=stretch.bases[keep],
        ends=stretch.ends[keep],
        counts=stretch.counts[keep],
        transactional=stretch.transactional[keep],
        holes=[
            each._replace(before=each.before - int(moved[each.before]))
            for each in holes
        ],
    )


def _reason(data: bytes, magic: int | None, size: int | None) -> str:
    if not any(data[:_MAGIC_AT]) and not data.strip(b"\0"):
        return "zeros, as in a file that was made longer in advance"
    if magic is not None and magic > MAGIC:
        return f"record format {magic}, and {MAGIC} is the newest"
    if magic is not None and magic < MAGIC and size is not None:
        return (
            f"record format {magic}, of brokers before 0.11; "
            f"only {MAGIC} is read: let a newer broker write the topic anew"
        )
    return "a batch that is cut short, or whose length is wrong"
