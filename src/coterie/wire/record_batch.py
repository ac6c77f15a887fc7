"""Record batches, format v2: the bytes in which records are sent, kept and fetched.

A batch is 61 bytes of header, then its records, compressed or not. Two header fields,
the base offset and the leader epoch, lie outside the checksum so that a broker can set
them without touching the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from coterie.errors import MalformedFrame
from coterie.wire.compression import Codec, compress, decompress

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
LENGTH_END: Final = 12
"""The batch length counts the bytes after itself."""
MAGIC: Final = 2
CHECKED_FROM: Final = 21
"""The first byte under the checksum: the attributes."""
_TAIL: Final = struct.Struct(">hiqqqhii")
_FRONT: Final = struct.Struct(">qiibI")

CODEC_BITS: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

NO_PRODUCER: Final = -1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_MARKER_KEY: Final = struct.Struct(">hh")
_MARKER_VALUE: Final = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1


class LogRecord(NamedTuple):
    """One record. Timestamps in ms; a null key or value is None."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class BatchHeader(NamedTuple):
    """The fixed part of a batch; `size_bytes` is of the whole batch."""

    base_offset: int
    size_bytes: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def codec(self) -> Codec:
        """The compression. Raises MalformedFrame for a number no codec has."""
        try:
            return Codec(self.attributes & CODEC_BITS)
        except ValueError as error:
            raise MalformedFrame(str(error)) from None

    @property
    def is_transactional(self) -> bool:
        """Whether the records count only after a COMMIT marker."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker and no user's records."""
        return bool(self.attributes & CONTROL)

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record has the batch's max timestamp."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def last_offset(self) -> int:
        """The offset of the last record, kept even when compaction dropped it."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The producer's sequence of the last record; wraps at int32; -1 for none."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & INT32_MAX


class Producer(NamedTuple):
    """Who wrote a batch: the identity that idempotence and transactions go by."""

    producer_id: int = NO_PRODUCER
    producer_epoch: int = -1
    base_sequence: int = -1


class Marker(NamedTuple):
    """What a control record says: how a transaction ended."""

    commit: bool
    coordinator_epoch: int


NOBODY: Final = Producer()


def encode_batch(
    records: Sequence[LogRecord],
    *,
    producer: Producer = NOBODY,
    attributes: int = 0,
    codec: Codec = Codec.NONE,
    base_offset: int | None = None,
    last_offset: int | None = None,
) -> bytes:
    """Encode records as one batch, from the first record's offset to the last one's.

    `attributes` are TRANSACTIONAL, CONTROL and LOG_APPEND_TIME. `base_offset` and
    `last_offset` are given when compaction left fewer records than the batch once had.
    """
    base_timestamp = records[0].timestamp_ms
    if base_offset is None:
        base_offset = records[0].offset
    parts: list[bytes] = []
    for record in records:
        _append_record(parts, record, base_offset, base_timestamp)
    if last_offset is None:
        last_offset = records[-1].offset
    tail = _TAIL.pack(
        attributes | codec,
        last_offset - base_offset,
        base_timestamp,
        max([record.timestamp_ms for record in records]),
        *producer,
        len(records),
    )
    body = tail + compress(codec, b"".join(parts))
    size = CHECKED_FROM - LENGTH_END + len(body)
    return _FRONT.pack(base_offset, size, 0, MAGIC, crc32c(body)) + body


def encode_marker(
    offset: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
) -> bytes:
    """Encode the control batch that ends a producer's transaction."""
    key = _MARKER_KEY.pack(0, _COMMIT if commit else _ABORT)
    record = LogRecord(offset, timestamp_ms, key, _MARKER_VALUE.pack(0, 0))
    return encode_batch(
        [record],
        producer=Producer(producer_id, producer_epoch),
        attributes=TRANSACTIONAL | CONTROL,
    )


def decode_marker(record: LogRecord) -> Marker | None:
    """What a control record says; None for a kind of control record unknown here.

    Raises MalformedFrame when it is cut short.
    """
    try:
        _, kind = _MARKER_KEY.unpack_from(record.key or b"")
        _, epoch = _MARKER_VALUE.unpack_from(record.value or b"")
    except struct.error as error:
        raise MalformedFrame(f"a control record: {error}") from None
    return Marker(kind == _COMMIT, epoch) if kind in (_ABORT, _COMMIT) else None


def read_header(data: bytes | memoryview, at: int = 0) -> BatchHeader:
    """Read the header of the batch at `at`, without its checksum being looked at.

    Raises MalformedFrame when there are too few bytes, for the header or for the size
    it states, or when the format is not v2.
    """
    if len(data) - at < HEADER_BYTES:
        raise MalformedFrame(f"a batch header needs {HEADER_BYTES} bytes")
    header = BatchHeader(*HEADER.unpack_from(data, at))
    size = header.size_bytes + LENGTH_END
    if header.magic != MAGIC:
        raise MalformedFrame(f"record format {header.magic}, only {MAGIC} is served")
    if not HEADER_BYTES <= size <= len(data) - at:
        raise MalformedFrame(f"a batch of {size} bytes where {len(data) - at} are left")
    return header._replace(size_bytes=size)


def split_batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """The batches that lie one after the other in `data`, with their headers.

    Raises MalformedFrame as `read_header` does.
    """
    at = 0
    while at < len(data):
        header = read_header(data, at)
        whole = at == 0 and header.size_bytes == len(data)
        yield header, data if whole else data[at : at + header.size_bytes]
        at += header.size_bytes


def crc_matches(batch: bytes | memoryview) -> bool:
    """Whether the batch is what its checksum says."""
    stated = int.from_bytes(batch[CHECKED_FROM - 4 : CHECKED_FROM], "big")
    return crc32c(memoryview(batch)[CHECKED_FROM:]) == stated


def with_base_offset(batch: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """The same batch at another offset; the checksum stays right."""
    front = struct.pack(">q", base_offset) + batch[8:LENGTH_END]
    return front + struct.pack(">i", leader_epoch) + batch[16:]


def with_append_time(batch: bytes, timestamp_ms: int) -> bytes:
    """The same batch with every record's timestamp set by the broker."""
    header = read_header(batch)
    tail = _TAIL.pack(
        header.attributes | LOG_APPEND_TIME,
        header.last_offset_delta,
        header.base_timestamp_ms,
        timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    body = tail + batch[HEADER_BYTES:]
    front = batch[: CHECKED_FROM - 4] + struct.pack(">I", crc32c(body))
    return front + body


def decode_records(batch: bytes, header: BatchHeader | None = None) -> list[LogRecord]:
    """Every record of one batch, decompressed.

    Raises MalformedFrame when they do not decode or are fewer than the header says.
    """
    if header is None:
        header = read_header(batch)
    data = batch[HEADER_BYTES : header.size_bytes]
    data = decompress(header.codec, bytes(data))
    try:
        records, at = _decode_all(data, header)
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedFrame(f"records of a batch: {error}") from None
    if at != len(data):
        raise MalformedFrame(f"records end at byte {at} of {len(data)}")
    return records


def _decode_all(data: bytes, header: BatchHeader) -> tuple[list[LogRecord], int]:
    if not 0 <= header.record_count <= len(data):
        raise MalformedFrame(f"{header.record_count} records in {len(data)} bytes")
    at = 0
    records = []
    fixed_time = header.max_timestamp_ms if header.is_log_append_time else None
    for _ in range(header.record_count):
        size, at = _read_varint(data, at)
        end = at + size
        if size < 0 or end > len(data):
            raise MalformedFrame(f"a record of {size} bytes runs past the batch")
        delta, at = _read_varint(data, at + 1)
        offset_delta, at = _read_varint(data, at)
        key, at = _read_bytes(data, at)
        value, at = _read_bytes(data, at)
        headers, at = _read_headers(data, at)
        if at != end:
            raise MalformedFrame(f"a record ends at byte {at}, said to end at {end}")
        time = header.base_timestamp_ms + delta if fixed_time is None else fixed_time
        if not (0 <= offset_delta <= INT32_MAX and -INT64_MAX <= time <= INT64_MAX):
            raise MalformedFrame(f"a record at offset +{offset_delta}, time {time}")
        offset = header.base_offset + offset_delta
        records.append(LogRecord(offset, time, key, value, headers))
    return records, at


def _append_record(
    parts: list[bytes], record: LogRecord, base_offset: int, base_timestamp: int
) -> None:
    offset, timestamp_ms, key, value, headers = record
    body = b"".join(
        (
            b"\0",
            _varint(timestamp_ms - base_timestamp),
            _varint(offset - base_offset),
            _NULL if key is None else _varint(len(key)),
            key or b"",
            _NULL if value is None else _varint(len(value)),
            value or b"",
            _encode_headers(headers) if headers else b"\0",
        )
    )
    parts += (_varint(len(body)), body)


def _encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    body = bytearray(_varint(len(headers)))
    for name, content in headers:
        text = name.encode()
        body += _varint(len(text)) + text
        body += _NULL if content is None else _varint(len(content)) + content
    return bytes(body)


def _varint(value: int) -> bytes:
    """Encode a zigzag varint, of 32 or 64 bits alike."""
    if 0 <= value < _SHORT_MAX:
        return _SHORT[value]
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


_SHORT_MAX: Final = 512
_SHORT: Final = tuple(
    bytes([value << 1]) if value < 64 else bytes([value << 1 & 0x7F | 0x80, value >> 6])
    for value in range(_SHORT_MAX)
)
"""The varints of lengths and small differences, made once."""
_NULL: Final = _varint(-1)
_VARINT_SHIFT_MAX: Final = 63


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > _VARINT_SHIFT_MAX:
            raise MalformedFrame(f"a varint of more than ten bytes at {at}")


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _read_varint(data, at)
    if size < 0:
        return None, at
    if size > len(data) - at:
        raise MalformedFrame(f"a field of {size} bytes, {len(data) - at} left")
    return data[at : at + size], at + size


def _read_headers(
    data: bytes, at: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, at = _read_varint(data, at)
    if count == 0:
        return (), at
    if not 0 <= count <= len(data) - at:
        raise MalformedFrame(f"{count} headers in a record")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(data, at)
        if name is None:
            raise MalformedFrame("a record header without a name")
        content, at = _read_bytes(data, at)
        headers.append((name.decode(), content))
    return tuple(headers), at
