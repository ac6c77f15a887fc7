"""Decode record batches with valid checksums to rows in Arrow; `read_segment` does it
for a whole segment file.

The position of a record follows from the length of the previous one, so the records of
one batch must be found one after the other. But record j of every batch is found in one
step of numpy. Keys and values are then slices of one buffer, which Arrow copies once.
Batches with unusual content, and a few long ones that remain, are left to the scalar
decoder of `wire.record_batch`, which returns their rows or raises the error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie import portable_os
from coterie.errors import LogError, MalformedFrame
from coterie.pipeline.segments.batches import (
    BAD_CHECKSUM,
    CHUNK_BYTES,
    BatchHeaders,
    Fault,
    Flags,
    Ints,
    ScannedChunk,
    scan,
)
from coterie.wire.compression import Codec, decompress
from coterie.wire.record_batch import (
    CONTROL,
    HEADER_BYTES,
    INT32_MAX,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    LogRecord,
    decode_records,
)

Bytes: TypeAlias = NDArray[np.uint8]

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

RECORDS_MAX: Final = 2_000_000
"""The most records of a batch that are decoded: about 1 GiB of memory."""
PIECE_RECORDS: Final = 250_000
"""Batches are decoded in pieces of about this many records, as a few kilobytes can
decompress to millions of them."""
BUFFER_BYTES_MAX: Final = 256 * 1024 * 1024
"""The most decompressed bytes that are decoded together."""
_PADDING: Final = bytes(16)
"""Bytes at the end of a buffer, so that no number is read beyond it."""
_FEW: Final = 3
"""For so few batches a step of numpy takes longer than decoding their records."""
_NOWHERE: Final = 2**40
"""A position beyond all data."""
_TIME_DELTA_MAX: Final = 2**61
"""Larger differences of times may overflow 64 bits: left to `wire.record_batch`."""


class DecodedBatches(NamedTuple):
    """The rows of batches in log order, as a table of the schema BRONZE, and the reason
    for each batch that cannot be decoded, by its index.
    """

    rows: Any
    faults: list[tuple[int, str]]


def pieces(headers: BatchHeaders) -> Iterator[slice]:
    """Divide batches into pieces that are decoded together; at least one piece."""
    piece = np.cumsum(headers.column("record_count").clip(0)) // PIECE_RECORDS
    edges = [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(headers)]
    for begin, end in pairwise(edges):
        yield slice(begin, end)


def decode_batches(data: bytes, batches: BatchHeaders) -> DecodedBatches:
    """Decode batches with valid checksums, at their positions in `data`."""
    faults: list[tuple[int, str]] = []
    bodies: list[bytes] = []
    indexes = np.arange(len(batches))
    begins = batches.position + HEADER_BYTES
    ends = batches.position + batches.size_bytes
    counts = batches.column("record_count")
    if batches.codec.any() or (counts > RECORDS_MAX).any():
        size_bytes = 0
        columns = (batches.codec, begins, ends, counts)
        spans = zip(*(column.tolist() for column in columns), strict=True)
        for index, (codec, begin, end, count) in enumerate(spans):
            try:
                bodies.append(_decompressed(codec, data[begin:end], count))
            except (MalformedFrame, ValueError) as error:
                faults.append((index, str(error)))
                continue
            size_bytes += len(bodies[-1])
            if size_bytes > BUFFER_BYTES_MAX and len(bodies) > 1:
                return _decode_halves(data, batches)
        indexes = np.delete(indexes, [index for index, _ in faults])
        ends = np.cumsum([len(body) for body in bodies], dtype=np.int64)
        begins = np.concatenate(([0], ends[:-1]))[: len(ends)]
    buffer = np.frombuffer(b"".join([*(bodies or [data]), _PADDING]), np.uint8)
    readable = batches.select(indexes)
    fields, bad = _find_fields(buffer, begins, ends, readable)
    table = pa.Table.from_batches([_rows(buffer, fields, readable)])
    if bad.any():
        tables, owners = [table], [fields.batch]
        for each in np.flatnonzero(bad).tolist():
            header, begin = readable.header(each), int(readable.position[each])
            try:
                records = decode_records(
                    data[begin : begin + header.size_bytes], header
                )
                rows = scalar_rows(header, records)
            except (MalformedFrame, OverflowError) as error:
                faults.append((int(indexes[each]), str(error)))
                continue
            tables.append(pa.Table.from_batches([rows]))
            owners.append(np.full(len(rows), each))
        order = np.argsort(np.concatenate(owners), kind="stable")
        table = pa.concat_tables(tables).take(pa.array(order))
    return DecodedBatches(table, sorted(faults))


def _decode_halves(data: bytes, batches: BatchHeaders) -> DecodedBatches:
    half = len(batches) // 2
    first = decode_batches(data, batches.select(slice(0, half)))
    second = decode_batches(data, batches.select(slice(half, None)))
    faults = [(half + index, reason) for index, reason in second.faults]
    rows = pa.concat_tables([first.rows, second.rows])
    return DecodedBatches(rows, first.faults + faults)


def _decompressed(codec: int, body: bytes, count: int) -> bytes:
    if count > RECORDS_MAX:
        raise MalformedFrame(
            f"{count} records in a batch, at most {RECORDS_MAX} are decoded"
        )
    return decompress(Codec(codec), body) if codec else body


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


@dataclass(frozen=True, slots=True)
class _Fields:
    """The positions of the fields of each record. `batch` is the index of the record's
    batch; a null key or value has length 0.
    """

    batch: Ints
    timestamp_delta: Ints
    offset_delta: Ints
    key_at: Ints
    key_size: Ints
    value_at: Ints
    value_size: Ints

    def select(self, rows: Flags) -> _Fields:
        names = _Fields.__dataclass_fields__
        return _Fields(*(getattr(self, name)[rows] for name in names))


def _find_fields(
    data: Bytes, begins: Ints, ends: Ints, batches: BatchHeaders
) -> tuple[_Fields, Flags]:
    """Find the fields of the records between `begins` and `ends`. Return those of all
    batches but the bad ones, and the flags of bad batches, which are to be decoded one
    by one. `data` must end with _PADDING.
    """
    counts = batches.column("record_count")
    bad = (counts < 0) | (counts > ends - begins)
    starts, owner = _record_starts(data, begins, ends, np.where(bad, 0, counts), bad)
    size, at = _read_varints(data, starts)
    end = at + size
    timestamp_delta, at = _read_varints(data, at + 1)  # after the unused attributes
    offset_delta, at = _read_varints(data, at)
    key_size, key_at = _read_varints(data, at)
    value_size, value_at = _read_varints(data, key_at + np.maximum(key_size, 0))
    value_end = value_at + np.maximum(value_size, 0)
    header_count, after = _read_varints(data, value_end)
    # A record with headers, which the coordinator writes none of, is unusual as well.
    wrong = (header_count != 0) | (after != end) | (size < 0)
    wrong |= (key_size >= end - key_at) | (value_size >= end - value_at)
    wrong |= (offset_delta < 0) | (offset_delta > INT32_MAX)
    wrong |= np.abs(timestamp_delta) > _TIME_DELTA_MAX
    bad |= np.abs(batches.column("base_timestamp_ms")) > _TIME_DELTA_MAX
    bad[owner[wrong]] = True
    fields = _Fields(
        owner, timestamp_delta, offset_delta, key_at, key_size, value_at, value_size
    )
    return (fields.select(~bad[owner]) if bad.any() else fields), bad


def _record_starts(
    data: Bytes, begins: Ints, ends: Ints, counts: Ints, bad: Flags
) -> tuple[Ints, Ints]:
    """Return the position of each record, where its length begins, and the index of its
    batch. Mark a batch as bad if its last record does not end at its end, and when few
    batches are left.
    """
    owner = np.repeat(np.arange(len(begins)), counts)
    first = np.cumsum(counts) - counts
    starts = np.zeros(len(owner), np.int64)
    cursor, step = begins.copy(), 0
    left = np.flatnonzero(counts)
    while len(left) > _FEW or (step == 0 and len(left)):
        now = cursor[left]
        starts[first[left] + step] = now
        size, at = _read_varints(data, now)
        cursor[left] = at + np.maximum(size, 0)
        step += 1
        left = left[counts[left] > step]
    bad[left] = True
    bad |= cursor != ends
    return starts, owner


def _read_varints(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Decode a zigzag varint at each position; return the values and the positions
    after them. A varint of more than 62 bits, and one at a position outside the data,
    has an arbitrary value: the record does not end where its length says.
    """
    last = len(data) - len(_PADDING)
    at = np.clip(at, 0, last)
    byte = data.take(at).astype(np.int64)
    value, after = byte & 0x7F, at + 1
    more = np.flatnonzero(byte & 0x80)
    for shift in range(7, 63, 7):
        if not len(more):
            break
        byte = data.take(after[more]).astype(np.int64)
        value[more] |= (byte & 0x7F) << shift
        after[more] += 1
        more = more[(byte & 0x80) != 0]
    after[more] = _NOWHERE
    return (value >> 1) ^ -(value & 1), after


def _rows(data: Bytes, fields: _Fields, batches: BatchHeaders) -> Any:
    owner = fields.batch
    is_append = batches.has(LOG_APPEND_TIME)
    base_ms, max_ms = (
        batches.column(f"{name}_timestamp_ms") for name in ("base", "max")
    )
    time_ms = np.where(
        is_append[owner], max_ms[owner], base_ms[owner] + fields.timestamp_delta
    )
    count = len(owner)
    no_headers = pa.array(np.zeros(count + 1, np.int32))
    headers = pa.array([], HEADERS.value_type)
    arrays = [
        pa.array(batches.base_offset[owner] + fields.offset_delta),
        pa.array(time_ms),
        pa.array(is_append[owner]),
        *_slices(data, fields),
        pa.ListArray.from_arrays(no_headers, headers, type=HEADERS),
        pa.array(batches.column("leader_epoch").astype(np.int32)[owner]),
        pa.array(batches.column("producer_id")[owner]),
        pa.array(batches.column("producer_epoch").astype(np.int16)[owner]),
        pa.array(batches.has(TRANSACTIONAL)[owner]),
        pa.array(batches.has(CONTROL)[owner]),
        pa.array(batches.base_offset[owner]),
    ]
    return pa.record_batch(arrays, schema=BRONZE)


def _slices(data: Bytes, fields: _Fields) -> tuple[Any, Any]:
    """Return the columns of keys and values.

    An Arrow array over the whole buffer has four elements for each record: the key, the
    bytes after it, the value, the bytes after that. Its `take` copies keys and values.
    """
    count = len(fields.batch)
    edges = np.empty(4 * count + 1, np.int32)
    edges[0:-1:4] = fields.key_at
    edges[1::4] = fields.key_at + np.maximum(fields.key_size, 0)
    edges[2::4] = fields.value_at
    edges[3::4] = fields.value_at + np.maximum(fields.value_size, 0)
    edges[-1] = edges[-2] if count else 0
    pieces = pa.BinaryArray.from_buffers(
        pa.binary(), 4 * count, [None, pa.py_buffer(edges), pa.py_buffer(data)]
    )
    at = np.arange(0, 4 * count, 4)
    keys = pieces.take(pa.array(at, mask=fields.key_size < 0))
    return keys, pieces.take(pa.array(at + 2, mask=fields.value_size < 0))


@dataclass(frozen=True, slots=True)
class SegmentChunk:
    """The content of a part of a segment file, in log order."""

    rows: Any
    """A table of the schema BRONZE."""
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
            name = str(path)
            for chunk in scan(_LocalFile(file), name, chunk_bytes=chunk_bytes):
                for piece in pieces(chunk.headers):
                    yield _decoded_piece(name, chunk, piece, from_offset)
    except OSError as error:
        raise LogError(f"{path}: {error.strerror or error}") from None


def _decoded_piece(
    name: str, chunk: ScannedChunk, piece: slice, from_offset: int
) -> SegmentChunk:
    is_last = piece.stop == len(chunk.headers)
    headers = chunk.headers.select(piece)
    is_bad = chunk.is_bad[piece]
    good = np.flatnonzero(~is_bad)
    decoded = decode_batches(chunk.data, headers.select(good))
    reasons = [(int(i), BAD_CHECKSUM) for i in np.flatnonzero(is_bad)]
    reasons += [(int(good[i]), reason) for i, reason in decoded.faults]
    position, size = headers.position + chunk.at, headers.size_bytes
    faults = [
        fault
        for before, fault in chunk.faults
        if piece.start <= before < piece.stop or (is_last and before == piece.stop)
    ]
    faults += [
        Fault(
            name,
            int(position[i]),
            int(size[i]),
            f"{reason} (offset {headers.base_offset[i]})",
        )
        for i, reason in reasons
    ]
    rows = decoded.rows
    headers = BatchHeaders(position, headers.fields).select(good)
    if from_offset:
        headers = headers.select(headers.last_offset >= from_offset)
        rows = rows.filter(pc.field("record_offset") >= from_offset)
    end = chunk.end if is_last else int(chunk.headers.position[piece.stop]) + chunk.at
    faults.sort(key=lambda each: each.position)
    return SegmentChunk(rows, headers, tuple(faults), end)


class _LocalFile:
    """A `SegmentFile` over an open local file."""

    def __init__(self, file: BinaryIO) -> None:
        self._descriptor = file.fileno()

    def size(self) -> int:
        # Seeking fails for a pipe, whose size fstat would give as 0.
        return os.lseek(self._descriptor, 0, os.SEEK_END)

    def read_at(self, nbytes: int, offset: int) -> bytes:
        return portable_os.pread(self._descriptor, nbytes, offset)
