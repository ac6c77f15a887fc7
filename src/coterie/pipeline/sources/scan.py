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

from coterie.pipeline.segments.batches import Batches
from coterie.pipeline.segments.varints import Flags, Ints
from coterie.wire.record_batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    crc_matches,
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
    batches: Batches
    """Their headers; positions are of the data."""
    bases: Ints
    ends: Ints
    """The offset after each."""
    holes: list[Hole] = field(default_factory=list)

    def batch(self, index: int) -> memoryview:
        """A batch's bytes."""
        begin = int(self.batches.position[index])
        size = int(self.batches.fields["size_bytes"][index]) + LENGTH_END
        return memoryview(self.data)[begin : begin + size]


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
        batches = Batches.read(self.data, self.positions)
        bases, counts = batches.base_offset, batches.column("record_count")
        spans = batches.column("last_offset_delta") + 1
        holes = [each._replace(position=at + each.position) for each in self.holes]
        stretch = Stretch(self.data, at, batches, bases, bases + spans, holes)
        wrong = (bases < first_offset) | (bases - first_offset >= _OFFSETS_MAX)
        wrong |= (spans < 1) | (counts < 0) | (counts > spans)
        return _without(stretch, wrong) if wrong.any() else stretch


def _is_right(data: bytes, at: int, size: int) -> bool:
    whole = at + size <= len(data)
    return whole and crc_matches(memoryview(data)[at : at + size])


def _without(stretch: Stretch, wrong: Flags) -> Stretch:
    """The stretch with some batches turned into holes."""
    at, sizes = stretch.batches.position + stretch.at, stretch.batches.size_bytes
    made = [
        Hole(
            before=i,
            position=int(at[i]),
            size_bytes=int(sizes[i]),
            reason="a batch with offsets or a count of records that cannot be",
        )
        for i in np.flatnonzero(wrong).tolist()
    ]
    moved = np.concatenate(([0], np.cumsum(wrong))).tolist()
    holes = sorted([*stretch.holes, *made], key=lambda each: each.position)
    return Stretch(
        data=stretch.data,
        at=stretch.at,
        batches=stretch.batches.some(~wrong),
        bases=stretch.bases[~wrong],
        ends=stretch.ends[~wrong],
        holes=[
            each._replace(before=each.before - moved[each.before]) for each in holes
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
