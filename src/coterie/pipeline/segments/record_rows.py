"""Decode record batches with valid checksums to bronze rows in Arrow.

`lockstep` finds the fields of the records; keys and values are then slices of one
buffer, which Arrow copies once. A batch that lockstep rejects is decoded by
`wire.record_batch`, which returns its rows or raises the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from coterie.errors import MalformedFrame
from coterie.pipeline.segments.batch_headers import BatchHeaders, Ints
from coterie.pipeline.segments.lockstep import PADDING, Bytes, Fields, find_fields
from coterie.wire.compression import Codec, decompress
from coterie.wire.record_batch import (
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    LogRecord,
    decode_records,
    read_record_headers,
)

HEADERS: Final = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))

BRONZE: Final = pa.schema(
    [
        pa.field("record_offset", pa.int64(), nullable=False),
        pa.field("timestamp_ms", pa.int64(), nullable=False),
        pa.field("is_append_time", pa.bool_(), nullable=False),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        pa.field("leader_epoch", pa.int32(), nullable=False),
        pa.field("producer_id", pa.int64(), nullable=False),
        pa.field("producer_epoch", pa.int16(), nullable=False),
        pa.field("is_transactional", pa.bool_(), nullable=False),
        pa.field("is_control", pa.bool_(), nullable=False),
        pa.field("base_offset", pa.int64(), nullable=False),
    ]
)
"""One row for each record, transaction markers included. `timestamp_ms` is -1 for none;
`is_append_time`: the broker set it."""

_BUFFER_BYTES_MAX: Final = 256 * 1024 * 1024
"""The most that is decompressed into one buffer; Arrow's offsets end at 2 GiB."""
_TIME_DELTA_MAX: Final = 2**61
"""Larger differences of times may overflow 64 bits: left to `wire.record_batch`."""


class DecodedBatches(NamedTuple):
    """Arrow record batches in log order, and the reason for each batch that cannot be
    decoded, by its index.
    """

    tables: list[Any]
    faults: list[tuple[int, str]]


def decode_batches(data: bytes, batches: BatchHeaders) -> DecodedBatches:
    """Decode batches with valid checksums, at their positions in `data`."""
    decoded = DecodedBatches([], [])
    begins, ends = batches.position + HEADER_BYTES, batches.position
    ends = ends + batches.size_bytes
    if not batches.codec.any() and len(data) <= _BUFFER_BYTES_MAX:
        buffer = np.frombuffer(b"".join([data, PADDING]), np.uint8)
        indexes = np.arange(len(batches))
        _decode_buffer(data, batches, indexes, _Bodies(buffer, begins, ends), decoded)
        return decoded
    indexes_of: list[int] = []
    bodies: list[bytes] = []
    size = 0

    def decode_bodies() -> None:
        ends = np.cumsum([len(body) for body in bodies])
        begins = np.concatenate(([0], ends[:-1])).astype(np.int64)
        buffer = np.frombuffer(b"".join([*bodies, PADDING]), np.uint8)
        indexes = np.array(indexes_of, np.int64)
        some = _Bodies(buffer, begins, ends)
        _decode_buffer(data, batches.select(indexes), indexes, some, decoded)
        indexes_of.clear()
        bodies.clear()

    spans = zip(batches.codec.tolist(), begins.tolist(), ends.tolist(), strict=True)
    for index, (codec, begin, end) in enumerate(spans):
        try:
            body = data[begin:end]
            if codec:
                body = decompress(Codec(codec), body)
        except (MalformedFrame, ValueError) as error:
            decoded.faults.append((index, str(error)))
            continue
        if bodies and size + len(body) > _BUFFER_BYTES_MAX:
            decode_bodies()
            size = 0
        indexes_of.append(index)
        bodies.append(body)
        size += len(body)
    if bodies:
        decode_bodies()
    return decoded


class _Bodies(NamedTuple):
    """The decompressed records of several batches in one buffer."""

    buffer: Bytes
    begins: Ints
    ends: Ints


def _decode_buffer(
    log: bytes,
    batches: BatchHeaders,
    indexes: Ints,
    bodies: _Bodies,
    decoded: DecodedBatches,
) -> None:
    """Append the rows of `batches`, whose records are in one buffer, to `decoded`.
    `indexes` are the indexes of `batches` among all batches.
    """
    counts = batches.column("record_count")
    fields, bad = find_fields(bodies.buffer, bodies.begins, bodies.ends, counts)
    base = batches.column("base_timestamp_ms")
    far = np.abs(fields.timestamp_delta) > _TIME_DELTA_MAX
    far |= (np.abs(base) > _TIME_DELTA_MAX)[fields.batch]
    bad[fields.batch[far]] = True
    lists, without_headers = _read_headers(bodies.buffer, fields)
    bad[without_headers] = True
    table = _assemble(bodies.buffer, fields, batches, lists)
    if bad.any():
        keep = ~bad[fields.batch]
        table, owner = table.filter(pa.array(keep)), fields.batch[keep]
    done = 0
    # Replace each bad batch by its rows from wire.record_batch, or by a fault.
    for each in np.flatnonzero(bad).tolist():
        before = int(np.searchsorted(owner, each))
        if before > done:
            decoded.tables.append(table.slice(done, before - done))
            done = before
        header, begin = batches.header(each), int(batches.position[each])
        try:
            records = decode_records(log[begin : begin + header.size_bytes], header)
            decoded.tables.append(scalar_rows(header, records))
        except (MalformedFrame, OverflowError) as error:
            decoded.faults.append((int(indexes[each]), str(error)))
    if done < len(table):
        decoded.tables.append(table.slice(done))


def scalar_rows(header: BatchHeader, records: Sequence[LogRecord]) -> Any:
    """Return the rows of records that wire.record_batch decoded."""
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


def _assemble(data: Bytes, fields: Fields, batches: BatchHeaders, lists: Any) -> Any:
    counts = np.bincount(fields.batch, minlength=len(batches))

    def each(of_batch: Any) -> Any:
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
    """Return the columns of keys and values.

    An Arrow array over the whole buffer has four elements for each record: the key, the
    bytes after it, the value, the bytes after that. Its `take` copies keys and values.
    """
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
    """Return the column of headers, which few records have, and the batches in which
    they cannot be decoded."""
    counts = np.zeros(len(fields.batch), np.int32)
    names: list[str] = []
    values: list[bytes | None] = []
    bad: list[int] = []
    for row in np.flatnonzero(fields.header_count).tolist():
        begin, end = int(fields.value_end[row]), int(fields.end[row])
        try:
            found, after = read_record_headers(bytes(data[begin:end]), 0)
        except (MalformedFrame, IndexError, UnicodeDecodeError):
            after = -1
        if begin + after != end:
            bad.append(int(fields.batch[row]))
            continue
        counts[row] = len(found)
        names += [name for name, _ in found]
        values += [value for _, value in found]
    edges = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    pairs = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(values, pa.binary())],
        fields=list(HEADERS.value_type),
    )
    return pa.ListArray.from_arrays(pa.array(edges), pairs, type=HEADERS), bad
