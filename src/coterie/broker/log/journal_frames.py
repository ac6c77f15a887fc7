"""The frames of a journal: the operations of one write, with a checksum.

A frame is a header of 20 bytes and a body, in big-endian byte order:

    magic     4 bytes  b"CtJ" and the version of the format
    crc       4 bytes  CRC-32C of the store's salt and of the frame from `sequence` on
    sequence  8 bytes  one more than that of the previous frame
    length    4 bytes  of the body

The body has the operations one after the other, each with its kind in the first byte.
Consecutive appends are one entry: their number, the partition of each, and then the
batches, which contain their own lengths.

Zeros follow the last frame of a journal. A frame that was not written completely has
a wrong checksum, and so do the frames of another store. Frames from before the journal
was last begun again have lower sequence numbers.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from coterie.broker.log.log import (
    Append,
    Create,
    Delete,
    LogPartition,
    Operation,
    Put,
    Replace,
    StoredPartition,
    Truncate,
)
from coterie.wire.record_batch import read_header

FRAME_MAGIC: Final = b"CtJ\x01"
FRAME_HEADER: Final = struct.Struct(">4sIQI")
FRAME_END: Final = bytes(FRAME_HEADER.size)
"""What follows the last frame."""
_CHECKED: Final = struct.Struct(">QI")
_CHECKED_FROM: Final = 8
BODY_BYTES_MAX: Final = (1 << 32) - 1

_APPENDS, _CREATE, _DELETE, _TRUNCATE, _REPLACE, _PUT = range(1, 7)
_COUNT: Final = struct.Struct(">BI")
_CREATE_FIELDS: Final = struct.Struct(">I16si")
_TRUNCATE_FIELDS: Final = struct.Struct(">IQ")
_REPLACE_FIELDS: Final = struct.Struct(">IQi")
_PUT_FIELDS: Final = struct.Struct(">HIi")
_NUMBER: Final = struct.Struct(">I")


Bytes: TypeAlias = bytes | mmap.mmap


class Frame(NamedTuple):
    """A frame whose checksum is right, and its place in the journal."""

    sequence: int
    start: int
    end: int
    body: bytes


Parts: TypeAlias = dict[int, StoredPartition]
NewPart: TypeAlias = Callable[[LogPartition, int], StoredPartition]


def encode_frame(
    operations: Sequence[Operation], sequence: int, seed: int
) -> tuple[bytes, bytes]:
    """Encode a write: header and body. `seed` is the checksum of the store's salt."""
    pieces: list[bytes] = []
    numbers: list[int] = []
    batches: list[bytes] = []
    for operation in operations:
        if isinstance(operation, Append):
            numbers.append(operation.part.number)
            batches.append(operation.batch)
        else:
            if numbers:
                _encode_appends(pieces, numbers, batches)
                numbers, batches = [], []
            _encode_other(pieces, operation)
    if numbers:
        _encode_appends(pieces, numbers, batches)
    body = b"".join(pieces)
    assert sequence > 0
    assert len(body) <= BODY_BYTES_MAX
    checked = _CHECKED.pack(sequence, len(body))
    crc = crc32c(body, crc32c(checked, seed))
    return FRAME_MAGIC + crc.to_bytes(4, "big") + checked, body


def _encode_appends(
    pieces: list[bytes], numbers: list[int], batches: list[bytes]
) -> None:
    assert len(numbers) == len(batches)
    count = len(numbers)
    pieces.append(struct.pack(f">BI{count}I", _APPENDS, count, *numbers))
    pieces += batches


def _encode_other(pieces: list[bytes], operation: Operation) -> None:
    match operation:
        case Create(part):
            fields = _CREATE_FIELDS.pack(part.number, *part.partition)
            pieces += (bytes([_CREATE]), fields)
        case Delete(part):
            pieces += (bytes([_DELETE]), _NUMBER.pack(part.number))
        case Truncate(part, before):
            fields = _TRUNCATE_FIELDS.pack(part.number, before)
            pieces += (bytes([_TRUNCATE]), fields)
        case Replace(part, base_offset, batch):
            size = -1 if batch is None else len(batch)
            fields = _REPLACE_FIELDS.pack(part.number, base_offset, size)
            pieces += (bytes([_REPLACE]), fields, batch or b"")
        case Put(space, key, value):
            name = space.encode()
            size = -1 if value is None else len(value)
            fields = _PUT_FIELDS.pack(len(name), len(key), size)
            pieces += (bytes([_PUT]), fields, name, key, value or b"")
        case _:
            raise AssertionError(operation)


def read_frame(data: Bytes, at: int, seed: int) -> Frame | None:
    """Return the frame at a position; None if no complete frame is there."""
    start = at + FRAME_HEADER.size
    header = data[at:start]
    if len(header) < FRAME_HEADER.size:
        return None
    magic, crc, sequence, length = FRAME_HEADER.unpack(header)
    if magic != FRAME_MAGIC or length > len(data) - start:
        return None
    body = data[start : start + length]
    if crc32c(body, crc32c(header[_CHECKED_FROM:], seed)) != crc:
        return None
    return Frame(sequence, at, start + length, body)


def read_frames(data: Bytes, seed: int) -> list[Frame]:
    """Return the consecutive frames from the beginning of a journal on."""
    frames: list[Frame] = []
    at = 0
    while (frame := read_frame(data, at, seed)) is not None:
        if frames and frame.sequence != frames[-1].sequence + 1:
            break
        assert frame.end > at
        frames.append(frame)
        at = frame.end
    return frames


def find_newer(data: Bytes, at: int, seed: int, sequence: int) -> Frame | None:
    """Return the first frame from a position on with a greater sequence number."""
    low = sequence.to_bytes(8, "big")
    while (at := data.find(FRAME_MAGIC, at)) >= 0:
        header = data[at : at + FRAME_HEADER.size]
        if len(header) == FRAME_HEADER.size and header[8:16] > low:
            frame = read_frame(data, at, seed)
            if frame is not None:
                return frame
        at += 1
    return None


def torn_bytes(data: Bytes, at: int, seed: int, expected: int) -> int:
    """Return the size of the incomplete frame at a position; 0 if none was begun.

    `expected` is the sequence number of a frame that may have been written there.
    """
    assert 0 <= at <= len(data)
    if read_frame(data, at, seed) is not None:
        return 0  # it was written before the journal was begun again
    header = data[at : at + FRAME_HEADER.size]
    if len(header) == FRAME_HEADER.size:
        magic, _, sequence, length = FRAME_HEADER.unpack(header)
        if magic == FRAME_MAGIC and sequence == expected:
            return int(min(FRAME_HEADER.size + length, len(data) - at))
    return len(header.rstrip(b"\0"))


def decode_operations(body: bytes, parts: Parts, new_part: NewPart) -> list[Operation]:
    """Decode a frame's body.

    `parts` are the partitions by number; it is changed by creations and deletions.
    Raises MalformedFrame, ValueError, KeyError, IndexError or struct.error for a body
    that no write has.
    """
    operations: list[Operation] = []
    at = 0
    while at < len(body):
        kind = body[at]
        if kind == _APPENDS:
            at = _decode_appends(body, at, parts, operations)
        elif kind == _PUT:
            at = _decode_put(body, at + 1, operations)
        else:
            at = _decode_change(body, at, parts, new_part, operations)
    if at != len(body):
        raise ValueError(f"the operations end at byte {at} of {len(body)}")
    return operations


def _decode_appends(
    body: bytes, at: int, parts: Parts, operations: list[Operation]
) -> int:
    _, count = _COUNT.unpack_from(body, at)
    at += _COUNT.size
    numbers = struct.unpack_from(f">{count}I", body, at)
    at += _NUMBER.size * count
    for number in numbers:
        header = read_header(body, at)
        end = at + header.size_bytes
        operations.append(Append(parts[number], body[at:end], header))
        at = end
    assert at <= len(body)
    return at


def _decode_put(body: bytes, at: int, operations: list[Operation]) -> int:
    name_bytes, key_bytes, size = _PUT_FIELDS.unpack_from(body, at)
    at += _PUT_FIELDS.size
    key_at = at + name_bytes
    value_at = key_at + key_bytes
    end: int = value_at + max(size, 0)
    value = None if size < 0 else body[value_at:end]
    assert end <= len(body)
    operations.append(Put(body[at:key_at].decode(), body[key_at:value_at], value))
    return end


def _decode_change(
    body: bytes, at: int, parts: Parts, new_part: NewPart, operations: list[Operation]
) -> int:
    """Decode an operation on one partition other than an append; return its end."""
    kind, number = _COUNT.unpack_from(body, at)
    at += 1
    if kind == _CREATE:
        _, topic_id, partition = _CREATE_FIELDS.unpack_from(body, at)
        assert number not in parts
        parts[number] = new_part(LogPartition(topic_id, partition), number)
        operations.append(Create(parts[number]))
        return at + _CREATE_FIELDS.size
    if kind == _DELETE:
        operations.append(Delete(parts.pop(number)))
        return at + _NUMBER.size
    if kind == _TRUNCATE:
        _, before = _TRUNCATE_FIELDS.unpack_from(body, at)
        operations.append(Truncate(parts[number], before))
        return at + _TRUNCATE_FIELDS.size
    if kind != _REPLACE:
        raise ValueError(f"unknown operation {kind}")
    _, base_offset, size = _REPLACE_FIELDS.unpack_from(body, at)
    at += _REPLACE_FIELDS.size
    end: int = at + max(size, 0)
    batch = None if size < 0 else body[at:end]
    operations.append(Replace(parts[number], base_offset, batch))
    return end
