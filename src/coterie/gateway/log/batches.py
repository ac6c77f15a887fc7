"""Prepare staged batches for upstream: merge several into one, set the producer; and
compare them with what it has stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from coterie.types import LogOffset
from coterie.wire.record_batch import (
    HEADER_BYTES,
    Producer,
    decode_records,
    encode_batch,
    stamped,
    whole_batches,
)

RECORDS_MAX: Final = 4_000
"""Loading replays a batch in one step, which must not block the event loop for long."""
_GROWTH_BYTES: Final = 5
"""The most that a record's offset delta and length grow by when batches are merged."""


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
