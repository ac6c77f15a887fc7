"""The pipeline's decoders: what they make of any bytes, held to what is slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from crc32c import crc32c

from coterie.errors import MalformedFrame
from coterie.pipeline.codec import oracle
from coterie.pipeline.codec.decode import decode
from coterie.pipeline.segments.batches import Batches
from coterie.pipeline.segments.rows import decode_batches, scalar_rows
from coterie.pipeline.segments.walk import walk
from coterie.pipeline.tables.records import RECORDS
from coterie.wire.record_batch import (
    CHECKED_FROM,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    decode_records,
)


def silver(data: bytes) -> None:
    """A record, twice, whose key is as long as the first byte says: by vectors it is
    the rows it is by the oracle."""
    end = 1 + data[0] if data else 0
    records = _records(data[1:end], data[end:] or None)
    found, expected = decode(records), oracle.decode(records)
    assert all(found[name].equals(expected[name]) for name in expected)
    if len(found["quarantine"]):
        raise MalformedFrame(found["quarantine"]["message"][0].as_py())


def segment(data: bytes) -> None:
    """A segment: each byte is in a batch or in a fault, and rows are the oracle's. Then
    as many batches as are read at once, made of the same bytes and with the right
    checksum."""
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
    found = walk(data, len(data))
    batches = Batches.read(data, found.positions)
    faults = sum(size for _, size, _ in found.faults)
    assert int(batches.size_bytes.sum()) + faults == len(data)
    rows = decode_batches(data, batches)
    bad = {index for index, _ in rows.faults}
    expected = [
        row
        for index in range(len(batches))
        if index not in bad
        for row in _scalar(data, batches, index)
    ]
    assert [row for table in rows.tables for row in table.to_pylist()] == expected
    if found.faults or bad:
        raise MalformedFrame("not all of it reads")


def _scalar(data: bytes, batches: Batches, index: int) -> Iterator[Any]:
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
