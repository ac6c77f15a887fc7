"""From bytes to whole record batches whose checksums are right, and what is wrong with
the others.

Lengths chain the batches of a segment. A batch that fails is set apart by its stated
length when another batch begins there; otherwise what follows is found again by looking
for the next batch whose checksum is right.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from coterie.errors import MalformedFrame
from coterie.wire.record_batch import (
    CHECKED_FROM,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    crc_matches,
    read_header,
)

ZEROS: Final = "zeros to the end, as in a file that was made longer in advance"
"""The reason of a fault that costs nothing."""
_OLD_HEADER_BYTES: Final = 26
"""Offset, length, checksum, magic, attributes, and two null fields: the least of
formats 0 and 1."""
_MAGIC_AT: Final = 16
_LENGTH: Final = struct.Struct(">i")
_FRONT: Final = struct.Struct(">i4xbI")
"""From the length to the checksum."""
_ATTRIBUTES: Final = 0x7F
"""Those that a batch may have."""
_SIZE_LEAST: Final = HEADER_BYTES - LENGTH_END
_MAGIC_BYTE: Final = bytes([MAGIC])


@dataclass(frozen=True, slots=True)
class Fault:
    """Bytes that gave no rows: where they begin, how many, and why."""

    source: str
    position: int
    size_bytes: int
    reason: str

    def __str__(self) -> str:
        where = f"{self.source} at byte {self.position}"
        return f"{where}: {self.size_bytes} bytes left out: {self.reason}"


@dataclass(slots=True)
class Walked:
    """What a stretch of bytes holds. Positions are counted in the stretch; `end` is
    where the next read begins, `wanted` how many bytes it needs."""

    positions: list[int] = field(default_factory=list)
    """Where whole batches begin."""
    faults: list[tuple[int, int, str]] = field(default_factory=list)
    end: int = 0
    wanted: int = 0


def walk(data: bytes, left: int) -> Walked:
    """Walk over the batches of `data`, the first bytes of the `left` to the file's end.

    A batch that goes on after `data` is left for the next read; one that goes on after
    the file's end is a fault.
    """
    found, view = Walked(), memoryview(data)
    while (at := _walk_good(view, found)) < len(data):
        size = _size(data, at, left)
        if size is not None and at + size > len(data):
            found.wanted = size
            break
        if size is None and at + HEADER_BYTES > len(data) and len(data) < left:
            found.wanted = HEADER_BYTES
            break
        reason = _wrong(view, at, size)
        assert reason is not None
        found.end = _after(data, at, size, left)
        found.faults.append((at, found.end - at, reason))
    return found


def _walk_good(view: memoryview, found: Walked) -> int:
    """Walk on as long as all is well; where it is not. A batch may be as small as one
    record, so this is all that is done with each."""
    at, end, add = found.end, len(view), found.positions.append
    while at + HEADER_BYTES <= end:
        size, magic, crc = _FRONT.unpack_from(view, at + 8)
        after = at + LENGTH_END + size
        if magic != MAGIC or size < _SIZE_LEAST or after > end:
            break
        if crc32c(view[at + CHECKED_FROM : after]) != crc:
            break
        add(at)
        at = after
    found.end = at
    return at


def _size(data: bytes, at: int, left: int) -> int | None:
    """How large the batch says it is; None when that cannot be."""
    if at + _MAGIC_AT >= len(data):
        return None
    size = LENGTH_END + int(_LENGTH.unpack_from(data, at + 8)[0])
    magic = data[at + _MAGIC_AT]
    least = HEADER_BYTES if magic == MAGIC else _OLD_HEADER_BYTES
    return size if magic <= MAGIC and least <= size <= left - at else None


def _wrong(view: memoryview, at: int, size: int | None) -> str | None:
    """Why no records can be taken from here; None when all is well."""
    if size is None:
        if not any(view[at:]):
            return ZEROS
        if len(view) - at > _MAGIC_AT and view[at + _MAGIC_AT] > MAGIC:
            return f"record format {view[at + _MAGIC_AT]}, and {MAGIC} is the newest"
        return "a batch that is cut short, or whose length is wrong"
    magic = view[at + _MAGIC_AT]
    if magic != MAGIC:
        return (
            f"record format {magic}, of brokers before 0.11; "
            f"only {MAGIC} is read: let a newer broker write the topic anew"
        )
    if not crc_matches(view[at : at + size]):
        return "the checksum is wrong: these are not the bytes that were written"
    return None


def _after(data: bytes, at: int, size: int | None, left: int) -> int:
    """Where to go on after a fault."""
    if size is not None:
        after = at + size
        if after == left or _size(data, after, left) is not None:
            return after
    begin = at
    while (magic_at := data.find(_MAGIC_BYTE, at + 1 + _MAGIC_AT)) >= 0:
        at = magic_at - _MAGIC_AT
        size = _size(data, at, left)
        if size is not None and _may_begin(data, at, size):
            return at
    if len(data) == left:
        return left
    # The next batch may begin in the last bytes, of which too few are here to tell.
    return max(begin + 1, len(data) - _MAGIC_AT)


def _may_begin(data: bytes, at: int, size: int) -> bool:
    """Whether a batch is there. Of one that goes on after `data`, the next read judges;
    here it must look like one."""
    if at + size <= len(data):
        return crc_matches(memoryview(data)[at : at + size])
    if at + HEADER_BYTES > len(data):
        return True
    header = BatchHeader(*HEADER.unpack_from(data, at))
    return (
        min(header.base_offset, header.last_offset_delta, header.record_count) >= 0
        and header.record_count <= min(size, header.last_offset_delta + 1)
        and not header.attributes & ~_ATTRIBUTES
    )


def check_blob(blob: bytes | memoryview) -> BatchHeader:
    """The header of a blob that is one batch. Raises MalformedFrame when it is not."""
    header = read_header(blob)
    if header.size_bytes != len(blob):
        raise MalformedFrame(f"{len(blob)} bytes hold a batch of {header.size_bytes}")
    if not crc_matches(blob):
        raise MalformedFrame("the checksum is wrong")
    return header
