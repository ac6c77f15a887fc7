"""Record batches, checked by `walk`, to bronze rows in Arrow.

Fields are found by `lockstep`; keys and values then are slices of one buffer, copied
once, by Arrow. A batch that lockstep rejects is decoded by `wire.record_batch`, which
is the oracle of both: it gives its rows, or says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from coterie.errors import MalformedFrame
from coterie.pipeline.segments.batches import Batches
from coterie.pipeline.segments.lockstep import PADDING, Fields, find_fields
from coterie.pipeline.segments.schema import BRONZE, HEADERS
from coterie.pipeline.segments.varints import Bytes, Ints
from coterie.wire.compression import Codec, decompress
from coterie.wire.record_batch import (
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    LogRecord,
    decode_records,
)

BODY_BYTES_MAX: Final = 256 * 1024 * 1024
"""How much is put into one buffer; Arrow's offsets end at 2 GiB."""
_TIME_DELTA_MAX: Final = 2**61
"""Times farther from the base than this are left to the oracle: it has no overflow."""


class Rows:
    """What batches gave: Arrow record batches in log order, and which batches gave
    nothing, by index, with the reason."""

    def __init__(self) -> None:
        self.tables: list[Any] = []
        self.faults: list[tuple[int, str]] = []


def decode_batches(data: bytes, batches: Batches) -> Rows:
    """The rows of whole batches, whose checksums are right. Positions are of `data`."""
    rows = Rows()
    codec = batches.codec
    if not codec.any() and len(data) <= BODY_BYTES_MAX:
        begins, ends = batches.position + HEADER_BYTES, batches.position
        whole = np.frombuffer(b"".join([data, PADDING]), np.uint8)
        bodies = _Bodies(whole, begins, ends + batches.size_bytes)
        _decode_group(data, batches, np.arange(len(batches)), bodies, rows)
        return rows
    for which, bodies in _bodies(data, batches, rows):
        _decode_group(data, batches.some(which), which, bodies, rows)
    return rows


class _Bodies(NamedTuple):
    """One buffer with the records of batches, and where those of each are."""

    data: Bytes
    begins: Ints
    ends: Ints


def _bodies(
    data: bytes, batches: Batches, rows: Rows
) -> Iterator[tuple[Ints, _Bodies]]:
    """Decompressed records, of not too many batches at once, by the batches' indexes.
    Those that do not decompress become faults."""
    indexes: list[int] = []
    bodies: list[bytes] = []
    size = 0
    codecs = batches.codec.tolist()
    begins = (batches.position + HEADER_BYTES).tolist()
    ends = (batches.position + batches.size_bytes).tolist()
    for index, (codec, begin, end) in enumerate(zip(codecs, begins, ends, strict=True)):
        try:
            body = data[begin:end]
            if codec:
                body = decompress(Codec(codec), body)
        except (MalformedFrame, ValueError) as error:
            rows.faults.append((index, str(error)))
            continue
        if bodies and size + len(body) > BODY_BYTES_MAX:
            yield _joined(indexes, bodies)
            indexes, bodies, size = [], [], 0
        indexes.append(index)
        bodies.append(body)
        size += len(body)
    if bodies:
        yield _joined(indexes, bodies)


def _joined(indexes: list[int], bodies: list[bytes]) -> tuple[Ints, _Bodies]:
    ends = np.cumsum([len(body) for body in bodies])
    begins = np.concatenate(([0], ends[:-1])).astype(np.int64)
    data = np.frombuffer(b"".join([*bodies, PADDING]), np.uint8)
    return np.array(indexes, np.int64), _Bodies(data, begins, ends)


def _decode_group(
    log: bytes, batches: Batches, indexes: Ints, bodies: _Bodies, rows: Rows
) -> None:
    counts = batches.column("record_count")
    data = bodies.data
    fields, bad = find_fields(data, bodies.begins, bodies.ends, counts)
    base = batches.column("base_timestamp_ms")
    far = np.abs(fields.timestamp_delta) > _TIME_DELTA_MAX
    far |= (np.abs(base) > _TIME_DELTA_MAX)[fields.batch]
    bad[fields.batch[far]] = True
    lists, unread = _read_headers(data, fields)
    bad[unread] = True
    table = _assemble(data, fields, batches, lists)
    if not bad.any():
        if len(table):
            rows.tables.append(table)
        return
    keep = ~bad[fields.batch]
    good = table.filter(pa.array(keep)), fields.batch[keep], np.flatnonzero(bad)
    rows.tables += _mended(log, batches, indexes, good, rows)


def _mended(
    log: bytes,
    batches: Batches,
    indexes: Ints,
    good: tuple[Any, Ints, Ints],
    rows: Rows,
) -> Iterator[Any]:
    """The rows of the good batches, and in their places what the oracle makes of the
    others."""
    table, owner, bad = good
    done = 0
    for each in bad.tolist():
        before = int(np.searchsorted(owner, each))
        if before > done:
            yield table.slice(done, before - done)
            done = before
        header, begin = batches.header(each), int(batches.position[each])
        try:
            records = decode_records(log[begin : begin + header.size_bytes], header)
            yield scalar_rows(header, records)
        except (MalformedFrame, OverflowError) as error:
            rows.faults.append((int(indexes[each]), str(error)))
    if done < len(table):
        yield table.slice(done)


def scalar_rows(header: BatchHeader, records: Sequence[LogRecord]) -> Any:
    """The rows of records that were decoded one by one."""
    count = len(records)
    columns = [
        [each.offset for each in records],
        [each.timestamp_ms for each in records],
        [header.is_log_append_time] * count,
        [each.key for each in records],
        [each.value for each in records],
        [
            [{"name": name, "value": value} for name, value in each.headers]
            for each in records
        ],
        [header.leader_epoch] * count,
        [header.producer_id] * count,
        [header.producer_epoch] * count,
        [header.is_transactional] * count,
        [header.is_control] * count,
        [header.base_offset] * count,
    ]
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(columns, BRONZE, strict=True)
    ]
    return pa.record_batch(arrays, schema=BRONZE)


def _assemble(data: Bytes, fields: Fields, batches: Batches, lists: Any) -> Any:
    counts = np.bincount(fields.batch, minlength=len(batches))

    def each(of_batch: Any) -> Any:
        """What is so of a batch, for each of its records."""
        return np.repeat(of_batch, counts)

    base_offset, is_append = each(batches.base_offset), batches.has(LOG_APPEND_TIME)
    time, delta = batches.column("base_timestamp_ms"), fields.timestamp_delta
    if is_append.any():
        time = np.where(is_append, batches.column("max_timestamp_ms"), time)
        delta = np.where(each(is_append), 0, delta)
    key, value = _slices(data, fields)
    arrays = [
        pa.array(base_offset + fields.offset_delta),
        pa.array(each(time) + delta),
        pa.array(each(is_append)),
        key,
        value,
        lists,
        pa.array(each(batches.column("leader_epoch").astype(np.int32))),
        pa.array(each(batches.column("producer_id"))),
        pa.array(each(batches.column("producer_epoch").astype(np.int16))),
        pa.array(each(batches.has(TRANSACTIONAL))),
        pa.array(each(batches.has(CONTROL))),
        pa.array(base_offset),
    ]
    return pa.record_batch(arrays, schema=BRONZE)


def _slices(data: Bytes, fields: Fields) -> tuple[Any, Any]:
    """Keys and values: segments of one buffer are an Arrow array of four a record, of
    which every fourth is a key and every fourth a value."""
    count = len(fields.batch)
    edges = np.empty(4 * count + 1, np.int32)
    edges[0:-1:4], edges[1::4] = fields.key_at, fields.key_end
    edges[2::4], edges[3::4] = fields.value_at, fields.value_end
    edges[-1] = fields.value_end[-1] if count else 0
    pieces = pa.BinaryArray.from_buffers(
        pa.binary(), 4 * count, [None, pa.py_buffer(edges), pa.py_buffer(data)]
    )
    at = np.arange(0, 4 * count, 4)
    keys = pa.array(at, mask=fields.key_is_null)
    values = pa.array(at + 2, mask=fields.value_is_null)
    return pieces.take(keys), pieces.take(values)


def _read_headers(data: Bytes, fields: Fields) -> tuple[Any, list[int]]:
    """The headers of each record, which few have, and batches where they are wrong."""
    having = np.flatnonzero(fields.header_count)
    counts = np.zeros(len(fields.batch), np.int32)
    names: list[str] = []
    values: list[bytes | None] = []
    unread: list[int] = []
    for row in having.tolist():
        at, end = int(fields.headers_at[row]), int(fields.end[row])
        try:
            found = _headers(bytes(data[at:end]), int(fields.header_count[row]))
        except MalformedFrame:
            unread.append(int(fields.batch[row]))
            continue
        counts[row] = len(found)
        names += [name for name, _ in found]
        values += [value for _, value in found]
    edges = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    pairs = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(values, pa.binary())],
        fields=list(HEADERS.value_type),
    )
    return pa.ListArray.from_arrays(pa.array(edges), pairs, type=HEADERS), unread


def _headers(data: bytes, count: int) -> list[tuple[str, bytes | None]]:
    """The headers of one record. Raises MalformedFrame; the oracle says why."""
    found, at = [], 0
    try:
        for _ in range(count):
            size, at = _varint(data, at)
            if not 0 <= size <= len(data) - at:
                raise MalformedFrame("the name of a header")
            name, at = data[at : at + size].decode(), at + size
            size, at = _varint(data, at)
            if size > len(data) - at:
                raise MalformedFrame("the value of a header")
            found.append((name, None if size < 0 else data[at : at + size]))
            at += max(size, 0)
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedFrame(f"headers: {error}") from None
    if at != len(data):
        raise MalformedFrame("headers end elsewhere")
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte, value, shift = data[at], 0, 0
    while byte >= 0x80 and shift < 63:
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        byte = data[at]
    value |= (byte & 0x7F) << shift
    return (value >> 1) ^ -(value & 1), at + 1
