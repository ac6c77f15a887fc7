"""Prepare staged batches for upstream: merge several into one, set the producer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from coterie.wire.compression import Codec
from coterie.wire.record_batch import (
    CHECKED_FROM,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    Producer,
    read_header,
    read_varint,
    varint,
)

_GROWTH_BYTES: Final = 15
"""The most that a record's deltas and length grow by when batches are merged."""


def stamped(batch: bytes, producer: Producer) -> bytes:
    """Return a batch with another producer and with the base offset 0."""
    return _encode(read_header(batch), batch[HEADER_BYTES:], producer)


def merged(batches: Sequence[bytes], producer: Producer) -> bytes:
    """Return one batch with the records of several, which are neither compressed nor
    transactional. Records keep their timestamps."""
    if len(batches) == 1:
        return stamped(batches[0], producer)
    headers = [read_header(batch) for batch in batches]
    first = headers[0]
    parts = [batches[0][HEADER_BYTES:]]
    count = first.record_count
    for header, batch in zip(headers[1:], batches[1:], strict=True):
        assert header.attributes == 0
        assert header.last_offset_delta == header.record_count - 1
        later_ms = header.base_timestamp_ms - first.base_timestamp_ms
        _append_moved(parts, batch, header.record_count, count, later_ms)
        count += header.record_count
    head = first._replace(
        record_count=count,
        last_offset_delta=count - 1,
        max_timestamp_ms=max(header.max_timestamp_ms for header in headers),
    )
    return _encode(head, b"".join(parts), producer)


def runs(batches: Sequence[tuple[int, int]], bytes_max: int) -> list[int]:
    """Return how many consecutive batches to merge each time, so that no merged batch
    is larger than `bytes_max`, from the size in bytes and the record count of each."""
    counts: list[int] = []
    size = 0
    for size_bytes, record_count in batches:
        added = size_bytes - HEADER_BYTES + _GROWTH_BYTES * record_count
        if counts and size + added <= bytes_max:
            counts[-1] += 1
            size += added
        else:
            counts.append(1)
            size = size_bytes
    return counts


def _append_moved(
    parts: list[bytes], batch: bytes, record_count: int, ahead: int, later_ms: int
) -> None:
    """Append the records with deltas that follow `ahead` records and begin `later_ms`
    later."""
    at = HEADER_BYTES
    for _ in range(record_count):
        size, at = read_varint(batch, at)
        end = at + size
        time_delta, after = read_varint(batch, at + 1)
        offset_delta, after = read_varint(batch, after)
        deltas = varint(time_delta + later_ms) + varint(offset_delta + ahead)
        new_size = 1 + len(deltas) + end - after
        parts += (varint(new_size), batch[at : at + 1], deltas, batch[after:end])
        at = end
    assert at == len(batch)


def _encode(header: BatchHeader, records: bytes, producer: Producer) -> bytes:
    assert header.codec is Codec.NONE
    head = bytearray(
        HEADER.pack(
            0,
            HEADER_BYTES - LENGTH_END + len(records),
            0,
            MAGIC,
            0,
            header.attributes,
            header.last_offset_delta,
            header.base_timestamp_ms,
            header.max_timestamp_ms,
            *producer,
            header.record_count,
        )
    )
    crc = crc32c(records, crc32c(bytes(head[CHECKED_FROM:])))
    head[CHECKED_FROM - 4 : CHECKED_FROM] = crc.to_bytes(4, "big")
    return bytes(head) + records
