"""Decode record batches with valid checksums to rows in Arrow; `read_segment` does it
for a whole segment file.

`lockstep` finds the fields of the records; keys and values are then slices of one
buffer, which Arrow copies once. A batch that lockstep rejects is decoded by
`wire.record_batch`, which returns its rows or raises the error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie import portable_os
from coterie.errors import LogError, MalformedFrame
from coterie.pipeline.segments.batches import (
    CHUNK_BYTES,
    BatchHeaders,
    Fault,
    Ints,
    ScannedChunk,
    scan,
)
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

GROUP_BYTES: Final = 64 * 1024 * 1024
GROUP_RECORDS: Final = 1_000_000
"""Batches are decoded in groups that end at these sizes, as a few kilobytes can
decompress to hundreds of megabytes. A larger batch is a group of its own."""
BATCH_RECORDS_MAX: Final = 2_000_000
"""The most records of a batch that are decoded: about 1 GiB of memory."""
_CODECS: Final = {each.value: each for each in Codec}
"""A lookup takes a tenth of the time of `Codec(number)`."""
_TIME_DELTA_MAX: Final = 2**61
"""Larger differences of times may overflow 64 bits: left to `wire.record_batch`."""


class DecodedBatches(NamedTuple):
    """A group of batches: Arrow record batches in log order, the reason for each batch
    that cannot be decoded, by its index, and the index after the last batch.
    """

    tables: list[Any]
    faults: list[tuple[int, str]]
    end: int


def decode_batches(data: bytes, batches: BatchHeaders) -> Iterator[DecodedBatches]:
    """Decode batches with valid checksums, at their positions in `data`.

    Yield one group of batches after the other, at least one, so that the memory in use
    does not depend on what the data decompress to.
    """
    begins = batches.position + HEADER_BYTES
    ends = batches.position + batches.size_bytes
    counts = batches.column("record_count").clip(0)
    is_small = len(data) <= GROUP_BYTES and counts.sum() <= GROUP_RECORDS
    if is_small and not batches.codec.any():
        decoded = DecodedBatches([], [], len(batches))
        buffer = np.frombuffer(b"".join([data, PADDING]), np.uint8)
        indexes = np.arange(len(batches))
        _decode_buffer(data, batches, indexes, _Bodies(buffer, begins, ends), decoded)
        yield decoded
        return
    group = _Group([], [], [])
    size_bytes = records = 0
    columns = (batches.codec, begins, ends, counts)
    spans = zip(*(column.tolist() for column in columns), strict=True)
    for index, (codec, begin, end, count) in enumerate(spans):
        try:
            body = _decompressed(codec, data[begin:end], count)
        except (MalformedFrame, ValueError) as error:
            group.faults.append((index, str(error)))
            continue
        size_bytes, records = size_bytes + len(body), records + count
        if group.bodies and (size_bytes > GROUP_BYTES or records > GROUP_RECORDS):
            yield _decode_group(data, batches, group, index)
            group, size_bytes, records = _Group([], [], []), len(body), count
        group.indexes.append(index)
        group.bodies.append(body)
    yield _decode_group(data, batches, group, len(batches))


class _Group(NamedTuple):
    """Batches to decode together, by their indexes, and those that are faults."""

    indexes: list[int]
    bodies: list[bytes]
    faults: list[tuple[int, str]]


def _decode_group(
    data: bytes, batches: BatchHeaders, group: _Group, end: int
) -> DecodedBatches:
    decoded = DecodedBatches([], group.faults, end)
    if group.bodies:
        ends = np.cumsum([len(body) for body in group.bodies])
        begins = np.concatenate(([0], ends[:-1])).astype(np.int64)
        buffer = np.frombuffer(b"".join([*group.bodies, PADDING]), np.uint8)
        group.bodies.clear()
        indexes = np.array(group.indexes, np.int64)
        some = _Bodies(buffer, begins, ends)
        _decode_buffer(data, batches.select(indexes), indexes, some, decoded)
    return decoded


def _decompressed(codec: int, body: bytes, count: int) -> bytes:
    if count > BATCH_RECORDS_MAX:
        raise MalformedFrame(
            f"{count} records in a batch, at most {BATCH_RECORDS_MAX} are decoded"
        )
    if not codec:
        return body
    known = _CODECS.get(codec)
    return decompress(Codec(codec) if known is None else known, body)


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


@dataclass(frozen=True, slots=True)
class SegmentChunk:
    """The content of a part of a segment file, in log order."""

    tables: tuple[Any, ...]
    """Arrow record batches of the schema BRONZE."""
    headers: BatchHeaders
    """Positions are those in the file."""
    faults: tuple[Fault, ...]
    end: int
    """The position in the file up to which it was read."""


def read_segment(
    path: Path, *, from_offset: int = 0, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[SegmentChunk]:
    """Read a segment file; records below `from_offset` are left out.

    Raises LogError when the file cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            chunks = scan(
                _LocalFile(file), str(path), verify=True, chunk_bytes=chunk_bytes
            )
            for chunk in chunks:
                begin = 0
                for rows in decode_batches(chunk.data, chunk.headers):
                    yield _group(path, chunk, begin, rows, from_offset)
                    begin = rows.end
    except OSError as error:
        raise LogError(f"{path}: {error.strerror or error}") from None


def _group(
    path: Path, chunk: ScannedChunk, begin: int, rows: DecodedBatches, from_offset: int
) -> SegmentChunk:
    """Return the content of the batches of a chunk from index `begin` on."""
    is_last = rows.end == len(chunk.headers)
    position = chunk.headers.position + chunk.at
    sizes = chunk.headers.size_bytes
    bases = chunk.headers.base_offset
    faults = [
        fault
        for before, fault in chunk.faults
        if begin <= before < rows.end or (is_last and before == rows.end)
    ]
    faults += [
        Fault(
            str(path), int(position[i]), int(sizes[i]), f"{reason} (offset {bases[i]})"
        )
        for i, reason in rows.faults
    ]
    headers = BatchHeaders(position, chunk.headers.fields)
    headers = headers.select(slice(begin, rows.end))
    tables = rows.tables
    if (headers.base_offset < from_offset).any():
        headers = headers.select(headers.last_offset >= from_offset)
        is_wanted = pc.field("record_offset") >= from_offset
        tables = [table.filter(is_wanted) for table in tables]
    end = chunk.end if is_last else int(position[rows.end])
    return SegmentChunk(
        tables=tuple(table for table in tables if len(table)),
        headers=headers,
        faults=tuple(sorted(faults, key=lambda each: each.position)),
        end=end,
    )


class _LocalFile:
    """A `scan.SegmentFile` over an open local file."""

    def __init__(self, file: BinaryIO) -> None:
        self._descriptor = file.fileno()

    def size(self) -> int:
        # Seeking fails for a pipe, whose size fstat would give as 0.
        return os.lseek(self._descriptor, 0, os.SEEK_END)

    def read_at(self, nbytes: int, offset: int) -> bytes:
        return portable_os.pread(self._descriptor, nbytes, offset)
