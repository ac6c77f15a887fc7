"""Fuzz targets that compare the vectorized decoders with the scalar decoders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from crc32c import crc32c

from coterie.errors import MalformedFrame
from coterie.pipeline.codec.decode import decode
from coterie.pipeline.codec.row_decoder import decode_rows, visible_rows
from coterie.pipeline.segments.batches import BatchHeaders, scan
from coterie.pipeline.segments.records import decode_batches, scalar_rows
from coterie.pipeline.tables.ingested import RECORDS
from coterie.wire.record_batch import (
    CHECKED_FROM,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    decode_records,
)


def silver(data: bytes) -> None:
    """Decode a record with both decoders, whose rows must be equal. The first byte of
    the input is the length of the record's key.
    """
    end = 1 + data[0] if data else 0
    records = _records(data[1:end], data[end:] or None)
    found = decode(records)
    by_row = decode_rows(records, visible_rows(records))
    expected = {name: rows for name, (_, rows) in by_row.items()}
    assert all(found[name].equals(expected[name]) for name in expected)
    if len(found["quarantine"]):
        raise MalformedFrame(found["quarantine"]["message"][0].as_py())


def segment(data: bytes) -> None:
    """Scan a segment: each byte must be in a batch or in a fault, and the rows must
    equal those of the scalar decoder. Repeat this with many batches of these bytes with
    valid checksums.
    """
    _segment(_signed(data) * _AT_ONCE)
    _segment(data)


_AT_ONCE: Final = 30


def _signed(data: bytes) -> bytes:
    if len(data) < HEADER_BYTES:
        return b""
    body = data[CHECKED_FROM:]
    length = (len(data) - LENGTH_END).to_bytes(4, "big")
    crc = crc32c(body).to_bytes(4, "big")
    return bytes(8) + length + bytes(4) + bytes([MAGIC]) + crc + body


def _segment(data: bytes) -> None:
    for chunk in scan(_File(data), "fuzz"):
        assert chunk.data == data
        faults = sum(fault.size_bytes for _, fault in chunk.faults)
        assert int(chunk.headers.size_bytes.sum()) + faults == len(data)
        batches = chunk.headers.select(~chunk.is_bad)
        has_faults = bool(chunk.faults) or bool(chunk.is_bad.any())
        _compare(data, batches, has_faults=has_faults)


class _File:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def read_at(self, nbytes: int, offset: int) -> bytes:
        return self._data[offset : offset + nbytes]


def _compare(data: bytes, batches: BatchHeaders, *, has_faults: bool) -> None:
    decoded = decode_batches(data, batches)
    bad = {index for index, _ in decoded.faults}
    expected = [
        row
        for index in range(len(batches))
        if index not in bad
        for row in _scalar(data, batches, index)
    ]
    assert decoded.rows.to_pylist() == expected
    if has_faults or bad:
        raise MalformedFrame("the segment has faults")


def _scalar(data: bytes, batches: BatchHeaders, index: int) -> Iterator[Any]:
    header, begin = batches.header(index), int(batches.position[index])
    records = decode_records(data[begin : begin + header.size_bytes], header)
    yield from scalar_rows(header, records).to_pylist()


def _records(key: bytes, value: bytes | None) -> Any:
    columns: dict[str, Any] = {
        "log_partition": [0, 0],
        "log_offset": [0, 1],
        "base_offset": [0, 0],
        "size_bytes": [0, 0],
        "is_append_time": [False, False],
        "key": [key, key],
        "value": [value, value],
        "leader_epoch": [0, 0],
        "producer_id": [-1, -1],
        "producer_epoch": [-1, -1],
        "is_transactional": [False, False],
        "is_control": [False, False],
    }
    arrays = [
        pa.array(columns.get(each.name, [None, None]), each.type)
        for each in RECORDS.schema
    ]
    return pa.record_batch(arrays, schema=RECORDS.schema)
