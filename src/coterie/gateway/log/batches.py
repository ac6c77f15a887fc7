"""Prepare staged batches for upstream: merge several into one, set the producer; and
compare them with what it has stored."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from coterie.types import LogOffset
from coterie.wire.record_batch import (
    CHECKED_FROM,
    HEADER_BYTES,
    Producer,
    decode_records,
    encode_batch,
    whole_batches,
)

RECORDS_MAX: Final = 4_000
"""Loading replays a batch in one step, which must not block the event loop for long."""
_OFFSET_BYTES: Final = 8
_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_AT: Final = 43
_GROWTH_BYTES: Final = 5
"""The most that a record's offset delta and length grow by when batches are merged."""


def stamped(batch: bytes, producer: Producer) -> bytes:
    """Return a batch with another producer and with the base offset 0."""
    head = bytearray(batch[:HEADER_BYTES])
    head[:_OFFSET_BYTES] = bytes(_OFFSET_BYTES)
    _PRODUCER.pack_into(head, _PRODUCER_AT, *producer)
    records = batch[HEADER_BYTES:]
    crc = crc32c(records, crc32c(bytes(head[CHECKED_FROM:])))
    head[CHECKED_FROM - 4 : CHECKED_FROM] = crc.to_bytes(4, "big")
    return bytes(head) + records


def merged(batches: Sequence[bytes], producer: Producer) -> bytes:
    """Return one batch with the records of several, which are not transactional.

    All records get the timestamp of the first one, as those that are added to an open
    batch do: `read_commits` is fast where timestamps do not differ.
    """
    if len(batches) == 1:
        return stamped(batches[0], producer)
    records = [record for batch in batches for record in decode_records(batch)]
    time_ms = records[0].timestamp_ms
    return encode_batch(
        [
            record._replace(offset=offset, timestamp_ms=time_ms)
            for offset, record in enumerate(records)
        ],
        producer=producer,
    )


def runs(batches: Sequence[tuple[int, int]], bytes_max: int) -> list[int]:
    """Return how many consecutive batches to merge each time, so that no merged batch
    has more than `bytes_max` or `RECORDS_MAX`, from the size in bytes and the record
    count of each."""
    counts: list[int] = []
    size = records = 0
    for size_bytes, record_count in batches:
        added = size_bytes - HEADER_BYTES + _GROWTH_BYTES * record_count
        fits = size + added <= bytes_max and records + record_count <= RECORDS_MAX
        if counts and fits:
            counts[-1] += 1
            size += added
            records += record_count
        else:
            counts.append(1)
            size, records = size_bytes, record_count
    return counts


def batch_at(fetched: bytes, offset: LogOffset) -> bytes | None:
    """Return the fetched batch that begins at an offset, if there is one."""
    for header, batch in whole_batches(fetched):
        if header.base_offset == offset:
            return batch
    return None


def has_records_of(stored: bytes, batch: bytes) -> bool:
    """Return whether a stored batch, which upstream may have compressed or given other
    timestamps, has the keys and values of a batch."""
    ours, theirs = (
        [(record.key, record.value) for record in decode_records(each)]
        for each in (batch, stored)
    )
    return ours == theirs
