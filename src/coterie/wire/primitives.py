"""The few readers and writers that compiled code calls out of line.

Everything here is for the uncommon case; the common one (a varint of one byte, no
tagged field) is written into the compiled code itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coterie.errors import MalformedFrame

UVARINT_BYTES_MAX: Final = 5
TAG_SECTION_EMPTY: Final = b"\0"
SMALL_UVARINTS: Final = tuple(bytes([value]) for value in range(128))
"""Encoded unsigned varints of one byte, by value."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """An array of structs that is already in wire form: how many, and their bytes.

    An encoder takes it in place of a list. The bytes must be of the version that is
    being encoded; whoever prepares them answers for that.
    """

    count: int
    body: bytes


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits: the value and the next position.

    Raises MalformedFrame when it is longer, IndexError when the data ends first.
    """
    value = shift = 0
    for _ in range(UVARINT_BYTES_MAX):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise MalformedFrame(f"a varint of more than {UVARINT_BYTES_MAX} bytes at {at}")


def write_uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    assert value >= 0
    if value < 0x80:
        return SMALL_UVARINTS[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_tags(data: bytes, at: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Read a section of tagged fields: where each one's bytes begin and end, by tag.

    Raises MalformedFrame when tags do not rise or a field runs past the data.
    """
    count, at = read_uvarint(data, at)
    found: dict[int, tuple[int, int]] = {}
    last = -1
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        if tag <= last:
            raise MalformedFrame(f"tagged field {tag} after {last}")
        if size > len(data) - at:
            raise MalformedFrame(f"tagged field {tag} of {size} bytes runs past end")
        found[tag] = (at, at + size)
        at += size
        last = tag
    return found, at


def write_tags(fields: dict[int, bytes]) -> bytes:
    """Encode a section of tagged fields, in rising order of tag."""
    parts = [write_uvarint(len(fields))]
    for tag, body in sorted(fields.items()):
        parts += (write_uvarint(tag), write_uvarint(len(body)), body)
    return b"".join(parts)
