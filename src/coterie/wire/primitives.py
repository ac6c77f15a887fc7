"""Unsigned varints and tagged fields.

Generated code (compiler.py) handles the common cases itself, a varint of one byte and
no tagged fields, and calls these functions for the others, and to refuse a value.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

from coterie.errors import MalformedFrame

Decoder: TypeAlias = Callable[[bytes, int, int], tuple[Any, int]]
"""A function from the data, a position and the largest number of elements to the value
and the position after it."""
Encoder: TypeAlias = Callable[[Any, list[bytes]], None]
"""A function that appends the encoded parts of the value to the list."""
SlicedDecoder: TypeAlias = Callable[
    [bytes, int, int], Generator[None, None, tuple[Any, int]]
]
"""A decoder as a generator; it yields between slices of its work."""
SlicedEncoder: TypeAlias = Callable[[Any, list[bytes]], Iterator[None]]
"""An encoder as a generator; it yields between slices of its work."""

UVARINT_BYTES_MAX: Final = 5
STRING_BYTES_MAX: Final = 2**15 - 1
"""The largest string: an int16 has its length in old versions, and Kafka refuses longer
ones in flexible versions too."""
TAG_SECTION_EMPTY: Final = b"\0"
SMALL_UVARINTS: Final = tuple(bytes([value]) for value in range(128))
"""The encoded unsigned varints of one byte, by value."""


@dataclass(slots=True)
class EncodedArray:
    """An array of structs in encoded form: the number of elements and their bytes.

    An encoder accepts it in place of a list. Its creator ensures that the bytes are of
    the version that is being encoded.
    """

    count: int
    body: bytes


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """Decode an unsigned varint of at most 32 bits; return it and the next position.

    Raises MalformedFrame when it is longer, IndexError when the data end before it.
    """
    value = shift = 0
    for _ in range(UVARINT_BYTES_MAX):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise MalformedFrame(f"varint of more than {UVARINT_BYTES_MAX} bytes at {at}")


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


TAGS_MAX: Final = 10_000
"""The largest number of tagged fields in a section, as in Kafka 4.4."""
HEADER_TAGS_MAX: Final = 1_000
"""The largest number of tagged fields in a request or response header."""


def encode_cut(text: str) -> bytes:
    """Encode a string; leave out the end of one that is too long."""
    body = text.encode()
    if len(body) <= STRING_BYTES_MAX:
        return body
    return body[:STRING_BYTES_MAX].decode(errors="ignore").encode()


def read_tags(
    data: bytes, at: int, count_max: int = HEADER_TAGS_MAX
) -> tuple[dict[int, tuple[int, int]], int]:
    """Decode a tag section; return each field's start and end by tag, and the next
    position.

    Raises MalformedFrame when there are more than `count_max` or `TAGS_MAX` fields,
    tags are not ascending, or a field exceeds the data.
    """
    count, at = read_uvarint(data, at)
    count_max = min(count_max, TAGS_MAX)
    if count > count_max:
        raise MalformedFrame(f"{count} tagged fields; at most {count_max} accepted")
    spans: dict[int, tuple[int, int]] = {}
    last = -1
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        if tag <= last:
            raise MalformedFrame(f"tagged field {tag} after {last}")
        if size > len(data) - at:
            raise MalformedFrame(f"tagged field {tag} of {size} bytes exceeds the data")
        spans[tag] = (at, at + size)
        at += size
        last = tag
    return spans, at


def write_length(length: int) -> bytes:
    """Encode the length of a compact string or array: one more, as a varint."""
    return SMALL_UVARINTS[length + 1] if length < 127 else write_uvarint(length + 1)


def write_tags(fields: dict[int, bytes]) -> bytes:
    """Encode a tag section, with tags in ascending order."""
    parts = [write_uvarint(len(fields))]
    for tag, body in sorted(fields.items()):
        parts += (write_uvarint(tag), write_uvarint(len(body)), body)
    return b"".join(parts)


def encode_tag(encode: Encoder, value: Any) -> bytes:
    """Encode the content of a tagged field."""
    parts: list[bytes] = []
    encode(value, parts)
    return b"".join(parts)


def refuse_null(at: int) -> NoReturn:
    """Raise MalformedFrame for a null that is not allowed."""
    raise MalformedFrame(f"null before byte {at} in a field that is not nullable")


def refuse_count(count: int, needed: int, at: int) -> NoReturn:
    """Raise MalformedFrame for an array whose elements need too many bytes."""
    detail = f"{count} elements, each of at least {needed} bytes"
    raise MalformedFrame(f"array at byte {at}: {detail}, exceed the data")


def refuse_total(count: int, left: int) -> NoReturn:
    """Raise MalformedFrame for too many elements; `left` is negative."""
    raise MalformedFrame(f"{count} elements; only {left + count} more are accepted")


def take_tag(data: bytes, span: tuple[int, int], reader: Decoder, left: int) -> Any:
    """Decode a tagged field, which must fill its span."""
    start, end = span
    value, at = reader(data[start:end], 0, left)
    if at != end - start:
        raise MalformedFrame(f"tagged field of {end - start} bytes decodes to {at}")
    return value


def refuse_string(size: int, at: int) -> NoReturn:
    """Raise MalformedFrame for a string that is too long."""
    raise MalformedFrame(f"string of {size} bytes at byte {at} is too long")
