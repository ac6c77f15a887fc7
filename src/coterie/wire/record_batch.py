"""Record batches of format v2 (magic 2), as produced, stored and fetched.

A batch is a header of 61 bytes and then its records, which may be compressed. The
checksum does not cover the base offset and the leader epoch, so that a broker can set
them without computing it again.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from coterie.errors import MalformedFrame
from coterie.wire.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    compress,
    decompress,
    decompress_buffer,
)

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
LENGTH_END: Final = 12
"""The batch length counts the bytes from here on."""
MAGIC: Final = 2
_OFFSET_BYTES: Final = 8
_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_FROM: Final = 43
CHECKED_FROM: Final = 21
"""The first byte that the checksum covers: the attributes."""
# The header fields before the attributes, and those from the attributes on.
_UNCHECKED: Final = struct.Struct(">qiibI")
_CHECKED: Final = struct.Struct(">hiqqqhii")

CODEC_BITS: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

NO_PRODUCER_ID: Final = -1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_MARKER_KEY: Final = struct.Struct(">hh")
_MARKER_VALUE: Final = struct.Struct(">hi")
ABORT_TYPE: Final = 0
COMMIT_TYPE: Final = 1


class LogRecord(NamedTuple):
    """A record. The timestamp is in ms; a null key or value is None."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class BatchHeader(NamedTuple):
    """The header of a batch. `size_bytes` is the size of the batch, header included."""

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
        """The compression codec. Raises MalformedFrame for an unknown number."""
        try:
            return Codec(self.attributes & CODEC_BITS)
        except ValueError as error:
            raise MalformedFrame(str(error)) from None

    @property
    def is_transactional(self) -> bool:
        """Whether the records are part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch is a control batch: a transaction marker, not records of
        clients."""
        return bool(self.attributes & CONTROL)

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record has the batch's max timestamp, set by the broker."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def last_offset(self) -> int:
        """The offset of the last record, also after compaction removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record (wraps at int32), or -1 for none."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & INT32_MAX


class Producer(NamedTuple):
    """The idempotent or transactional producer of a batch, and its first sequence."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = -1


class Marker(NamedTuple):
    """A decoded control record: the end of a transaction."""

    commit: bool
    coordinator_epoch: int


NO_PRODUCER: Final = Producer()


def encode_batch(
    records: Sequence[LogRecord],
    *,
    producer: Producer = NO_PRODUCER,
    attributes: int = 0,
    codec: Codec = Codec.NONE,
    base_offset: int | None = None,
    last_offset: int | None = None,
) -> bytes:
    """Encode records as one batch, from the first record's offset to the last one's.

    `attributes` are TRANSACTIONAL, CONTROL and LOG_APPEND_TIME. `base_offset` and
    `last_offset` are passed when compaction removed the first or last records.
    """
    base_timestamp = records[0].timestamp_ms
    if base_offset is None:
        base_offset = records[0].offset
    parts: list[bytes] = []
    for record in records:
        _append_record(parts, record, base_offset, base_timestamp)
    if last_offset is None:
        last_offset = records[-1].offset
    tail = _CHECKED.pack(
        attributes | codec,
        last_offset - base_offset,
        base_timestamp,
        max([record.timestamp_ms for record in records]),
        *producer,
        len(records),
    )
    body = tail + compress(codec, b"".join(parts))
    size = CHECKED_FROM - LENGTH_END + len(body)
    return _UNCHECKED.pack(base_offset, size, 0, MAGIC, crc32c(body)) + body


def batch_of(
    records: bytes,
    base_offset: int,
    record_count: int,
    timestamp_ms: int,
    *,
    producer: Producer = NO_PRODUCER,
    attributes: int = 0,
) -> tuple[bytes, BatchHeader]:
    """Return the batch of records that are encoded already, and its header.

    They have consecutive offset deltas from 0 on and the timestamp delta 0.
    """
    checked = (
        attributes,
        record_count - 1,
        timestamp_ms,
        timestamp_ms,
        *producer,
        record_count,
    )
    tail = _CHECKED.pack(*checked)
    size = HEADER_BYTES + len(records)
    crc = crc32c(records, crc32c(tail))
    front = _UNCHECKED.pack(base_offset, size - LENGTH_END, 0, MAGIC, crc)
    header = BatchHeader(base_offset, size, 0, MAGIC, crc, *checked)
    return b"".join((front, tail, records)), header


def encode_marker(
    offset: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
) -> bytes:
    """Encode the control batch that ends a producer's transaction."""
    key = _MARKER_KEY.pack(0, COMMIT_TYPE if commit else ABORT_TYPE)
    record = LogRecord(offset, timestamp_ms, key, _MARKER_VALUE.pack(0, 0))
    return encode_batch(
        [record],
        producer=Producer(producer_id, producer_epoch),
        attributes=TRANSACTIONAL | CONTROL,
    )


def decode_marker(record: LogRecord) -> Marker | None:
    """Decode a control record; return None for another type than COMMIT or ABORT.

    Raises MalformedFrame when it is truncated.
    """
    try:
        _, kind = _MARKER_KEY.unpack_from(record.key or b"")
        _, epoch = _MARKER_VALUE.unpack_from(record.value or b"")
    except struct.error as error:
        raise MalformedFrame(f"control record: {error}") from None
    return (
        Marker(kind == COMMIT_TYPE, epoch)
        if kind in (ABORT_TYPE, COMMIT_TYPE)
        else None
    )


def read_header(data: bytes | memoryview, at: int = 0) -> BatchHeader:
    """Decode the header of the batch at `at`; the checksum is not verified.

    Raises MalformedFrame when the data end before the header or the batch does, or
    when the format is not v2.
    """
    header = header_at(data, at)
    if header.size_bytes > len(data) - at:
        raise MalformedFrame(
            f"batch of {header.size_bytes} bytes, {len(data) - at} are left"
        )
    return header


def header_at(data: bytes | memoryview | mmap.mmap, at: int = 0) -> BatchHeader:
    """Decode the header at `at` of a batch that may end after the data.

    Raises MalformedFrame when the data end before the header does, or when the format
    is not v2.
    """
    if len(data) - at < HEADER_BYTES:
        raise MalformedFrame(
            f"batch header: {HEADER_BYTES} bytes are needed, {len(data) - at} are left"
        )
    fields = HEADER.unpack_from(data, at)
    base_offset, length, _, magic = fields[:4]
    size = length + LENGTH_END
    if magic != MAGIC:
        raise MalformedFrame(f"record format {magic}, only {MAGIC} is served")
    if size < HEADER_BYTES:
        raise MalformedFrame(f"batch of {size} bytes, {len(data) - at} are left")
    return BatchHeader(base_offset, size, *fields[2:])


def split_batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield the consecutive batches in `data`, each with its header.

    Raises MalformedFrame as `read_header` does.
    """
    at = 0
    while at < len(data):
        header = read_header(data, at)
        whole = at == 0 and header.size_bytes == len(data)
        yield header, data if whole else data[at : at + header.size_bytes]
        at += header.size_bytes


def whole_batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield the batches of a Fetch response, each with its header, without a last one
    that is truncated.

    Raises MalformedFrame as `read_header` does.
    """
    at = 0
    while len(data) - at >= HEADER_BYTES:
        size = LENGTH_END + int.from_bytes(data[at + 8 : at + LENGTH_END], "big")
        if size > len(data) - at:
            return
        header = read_header(data, at)
        yield header, data[at : at + size]
        at += size


def crc_matches(batch: bytes | memoryview) -> bool:
    """Return whether the batch's checksum is correct."""
    stated = int.from_bytes(batch[CHECKED_FROM - 4 : CHECKED_FROM], "big")
    return crc32c(memoryview(batch)[CHECKED_FROM:]) == stated


def with_base_offset(batch: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """Return the batch with another base offset; its checksum stays valid."""
    front = struct.pack(">q", base_offset) + batch[8:LENGTH_END]
    return front + struct.pack(">i", leader_epoch) + batch[16:]


def stamped(batch: bytes, producer: Producer) -> bytes:
    """Return a batch with another producer and with the base offset 0."""
    head = bytearray(batch[:HEADER_BYTES])
    head[:_OFFSET_BYTES] = bytes(_OFFSET_BYTES)
    _PRODUCER.pack_into(head, _PRODUCER_FROM, *producer)
    records = batch[HEADER_BYTES:]
    crc = crc32c(records, crc32c(bytes(head[CHECKED_FROM:])))
    head[CHECKED_FROM - 4 : CHECKED_FROM] = crc.to_bytes(4, "big")
    return bytes(head) + records


def with_append_time(batch: bytes, timestamp_ms: int) -> bytes:
    """Return the batch with log append time: one timestamp for all records."""
    return with_max_timestamp(batch, timestamp_ms, LOG_APPEND_TIME)


def with_max_timestamp(batch: bytes, timestamp_ms: int, time_type: int = 0) -> bytes:
    """Return the batch with another greatest timestamp, and its type: LOG_APPEND_TIME,
    or 0 for the producer's timestamps."""
    header = read_header(batch)
    tail = _CHECKED.pack(
        header.attributes & ~LOG_APPEND_TIME | time_type,
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
    """Decompress and decode the records of one batch; see `iterate_records`."""
    return list(iterate_records(batch, header))


def iterate_records(
    batch: bytes, header: BatchHeader | None = None
) -> Iterator[LogRecord]:
    """Decompress one batch and decode its records one by one.

    Raises MalformedFrame at a record that cannot be decoded, or at the end when the
    number of records is not the header's.
    """
    if header is None:
        header = read_header(batch)
    data = batch[HEADER_BYTES : header.size_bytes]
    data = decompress(header.codec, bytes(data))
    try:
        yield from _decode_each(data, header)
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedFrame(f"records of the batch: {error}") from None


class TimeRange(NamedTuple):
    """The least and the greatest timestamp of some records, in ms."""

    earliest_ms: int
    latest_ms: int


def check_records(
    batch: bytes, header: BatchHeader, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> TimeRange:
    """Verify the number of records in a batch, their lengths and offset deltas.

    Keys, values and headers are skipped. Return the range of timestamps. Raises
    MalformedFrame, and DataTooLarge when the records decompress to more than
    `bytes_max`.
    """
    data: bytes | bytearray = batch
    at, end = HEADER_BYTES, header.size_bytes
    codec = header.codec
    if codec is not Codec.NONE:
        data = decompress_buffer(codec, batch[at:end], bytes_max)
        at, end = 0, len(data)
    deltas: set[int] = set()
    try:
        at = _skip_records(data, at, header.record_count, deltas)
    except IndexError:
        at = -1
    if at != end or not deltas:
        raise MalformedFrame(
            f"the records do not end with the batch: the header counts "
            f"{header.record_count}"
        )
    times = [header.base_timestamp_ms + (raw >> 1 ^ -(raw & 1)) for raw in deltas]
    found = TimeRange(min(times), max(times))
    if found.earliest_ms < -INT64_MAX or found.latest_ms > INT64_MAX:
        raise MalformedFrame(f"timestamps from {found.earliest_ms} ms on")
    return found


def _skip_records(
    data: bytes | bytearray, at: int, count: int, deltas: set[int]
) -> int:
    """Return the position after `count` records with offset deltas from 0 on.

    Add the timestamp deltas, as zigzag, to `deltas`.
    """
    # This loop runs for every record that is produced. Most lengths and offset deltas
    # have up to two bytes, and are decoded in place; zigzag doubles them.
    add = deltas.add
    for delta in range(0, count << 1, 2):
        size = data[at]
        if size >= 0x80:
            byte = data[at + 1]
            if byte < 0x80:
                size = size & 0x7F | byte << 7
                at += 1
            else:
                size, at = _read_unsigned(data, at)
        end = at + 1 + (size >> 1)
        at += 2  # the record's attributes are unused
        time = data[at]
        if time >= 0x80:
            time, at = _read_unsigned(data, at)
        add(time)
        found = data[at + 1]
        if found >= 0x80:
            byte = data[at + 2]
            if byte < 0x80:
                found = found & 0x7F | byte << 7
            else:
                found, _ = _read_unsigned(data, at + 1)
        # A key, a value and the number of headers follow the offset delta.
        if found != delta or at + 4 >= end or size & 1:
            raise MalformedFrame(
                f"record {delta >> 1} has a wrong length or offset delta"
            )
        at = end
    return at


def _decode_each(data: bytes, header: BatchHeader) -> Iterator[LogRecord]:
    if not 0 <= header.record_count <= len(data):
        raise MalformedFrame(f"{header.record_count} records in {len(data)} bytes")
    at = 0
    fixed_time = header.max_timestamp_ms if header.is_log_append_time else None
    for _ in range(header.record_count):
        size, at = read_varint(data, at)
        end = at + size
        if size < 0 or end > len(data):
            raise MalformedFrame(f"record of {size} bytes exceeds the batch")
        delta, at = read_varint(data, at + 1)  # a record's attributes are unused
        offset_delta, at = read_varint(data, at)
        key, at = _read_bytes(data, at)
        value, at = _read_bytes(data, at)
        headers, at = read_record_headers(data, at)
        if at != end:
            raise MalformedFrame(f"record ends at byte {at}, its size says {end}")
        time = header.base_timestamp_ms + delta if fixed_time is None else fixed_time
        if not (0 <= offset_delta <= INT32_MAX and -INT64_MAX <= time <= INT64_MAX):
            raise MalformedFrame(f"record with offset +{offset_delta}, time {time}")
        offset = header.base_offset + offset_delta
        yield LogRecord(offset, time, key, value, headers)
    if at != len(data):
        raise MalformedFrame(f"records end at byte {at} of {len(data)}")


def _append_record(
    parts: list[bytes], record: LogRecord, base_offset: int, base_timestamp: int
) -> None:
    offset, timestamp_ms, key, value, headers = record
    body = b"".join(
        (
            b"\0",
            varint(timestamp_ms - base_timestamp),
            varint(offset - base_offset),
            _NULL if key is None else varint(len(key)),
            key or b"",
            _NULL if value is None else varint(len(value)),
            value or b"",
            _encode_headers(headers) if headers else b"\0",
        )
    )
    parts += (varint(len(body)), body)


def _encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    body = bytearray(varint(len(headers)))
    for name, content in headers:
        text = name.encode()
        body += varint(len(text)) + text
        body += _NULL if content is None else varint(len(content)) + content
    return bytes(body)


def varint(value: int) -> bytes:
    """Encode a zigzag varint of 32 or 64 bits."""
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
"""The encoded varints from 0 on: most lengths, offset and timestamp deltas."""
_NULL: Final = varint(-1)
_VARINT_SHIFT_MAX: Final = 63


def read_varint(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """Decode a zigzag varint; return it and the next position.

    Raises MalformedFrame when it is too long, IndexError when the data end before it.
    """
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
            raise MalformedFrame(f"varint of more than ten bytes at {at}")


def record_times(
    batch: bytes, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[tuple[int, int]]:
    """Yield the offset and the timestamp in ms of each record of a batch.

    Keys, values and headers are skipped. Raises MalformedFrame, and DataTooLarge when
    the records decompress to more than `bytes_max`.
    """
    header = read_header(batch)
    body = bytes(batch[HEADER_BYTES : header.size_bytes])
    data = decompress_buffer(header.codec, body, bytes_max)
    base_offset, base_ms = header.base_offset, header.base_timestamp_ms
    at = 0
    try:
        for _ in range(header.record_count):
            size, at = read_varint(data, at)
            if not 0 < size <= len(data) - at:
                raise MalformedFrame(f"record of {size} bytes exceeds the batch")
            end = at + size
            delta, at = read_varint(data, at + 1)
            offset_delta, at = read_varint(data, at)
            time_ms = base_ms + delta
            if header.is_log_append_time:
                time_ms = header.max_timestamp_ms
            yield base_offset + offset_delta, time_ms
            at = end
    except IndexError as error:
        raise MalformedFrame(f"records of the batch: {error}") from None


def _read_unsigned(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """Read a varint at `at`, without its sign; return it and its last position."""
    value, shift = data[at] & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _VARINT_SHIFT_MAX:
            raise MalformedFrame(f"varint of more than ten bytes at {at}")


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at)
    if size < 0:
        return None, at
    if size > len(data) - at:
        raise MalformedFrame(f"field of {size} bytes, {len(data) - at} are left")
    return data[at : at + size], at + size


def read_record_headers(
    data: bytes, at: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    """Read the headers of a record at `at`: their number, then names and values.

    Return them and the position after them. Raises MalformedFrame, IndexError or
    UnicodeDecodeError.
    """
    count, at = read_varint(data, at)
    if count == 0:
        return (), at
    if not 0 <= count <= len(data) - at:
        raise MalformedFrame(f"{count} headers in a record")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(data, at)
        if name is None:
            raise MalformedFrame("record header without a key")
        content, at = _read_bytes(data, at)
        headers.append((name.decode(), content))
    return tuple(headers), at
