"""Finds the fields of all records of many batches at once.

The lengths of records chain, so one batch cannot be split; but record j of every batch
can be stepped over together. Batches are sorted by their count of records; those that
have a record j are a prefix that shrinks. A few long batches are walked one by one.

What does not look right is rejected, never guessed: its batch is marked, and the scalar
decoder of `wire.record_batch` says what is wrong with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from coterie.pipeline.segments.varints import Bytes, Flags, Ints, read_varints
from coterie.wire.record_batch import INT32_MAX

PADDING: Final = bytes(64)
"""What a buffer of batches ends with, so that no field is read after its end."""
_NARROW: Final = 24
"""With fewer batches than this a step costs more than the records it steps over."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Where the fields of each record are. `batch` is the record's batch; a null key or
    value has no length. Records of bad batches are not there."""

    batch: Ints
    timestamp_delta: Ints
    offset_delta: Ints
    key_at: Ints
    key_end: Ints
    key_is_null: Flags
    value_at: Ints
    value_end: Ints
    value_is_null: Flags
    header_count: Ints
    headers_at: Ints
    end: Ints


def find_fields(
    data: Bytes, begins: Ints, ends: Ints, counts: Ints
) -> tuple[Fields, Flags]:
    """The fields of the records between `begins` and `ends`, and which batches are bad.

    `data` ends with PADDING.
    """
    bad = (counts < 0) | (counts > ends - begins)
    counts = np.where(bad, 0, counts)
    starts, sizes = _step(data, begins, ends, counts, bad)
    batch = np.repeat(np.arange(len(begins)), counts)
    keep = ~bad[batch]
    fields, wrong = _read_fields(data, batch[keep], starts[keep], sizes[keep])
    bad[fields.batch[wrong]] = True
    if bad.any():
        keep = ~bad[fields.batch]
        fields = Fields(
            *(getattr(fields, name)[keep] for name in Fields.__dataclass_fields__)
        )
    return fields, bad


def _step(
    data: Bytes, begins: Ints, ends: Ints, counts: Ints, bad: Flags
) -> tuple[Ints, Ints]:
    """Where each record begins, and its size; marks batches that do not chain."""
    first = np.concatenate(([0], np.cumsum(counts)[:-1]))
    starts, sizes = np.zeros((2, int(counts.sum())), np.int64)
    order = np.argsort(-counts, kind="stable")
    cursor, limit, slot = begins[order], ends[order], first[order]
    sorted_counts = counts[order]
    longest = int(sorted_counts[0]) if len(order) else 0
    active = np.searchsorted(-sorted_counts, -np.arange(longest), side="left")
    broken = np.zeros(len(order), np.bool_)
    j = 0
    while j < longest and active[j] >= _NARROW:
        n = int(active[j])
        size, at, long = read_varints(data, cursor[:n])
        wrong = long | (size < 0) | (size > limit[:n] - at)
        if wrong.any():
            broken[:n] |= wrong
            at, size = np.where(wrong, limit[:n], at), np.where(wrong, 0, size)
        starts[slot[:n] + j] = at
        sizes[slot[:n] + j] = size
        cursor[:n] = at + size
        j += 1
    view = data.data
    for i in range(int(active[j]) if j < longest else 0):
        places = slice(int(slot[i]) + j, int(slot[i]) + int(sorted_counts[i]))
        begin, stop = int(cursor[i]), int(limit[i])
        reached = _chain(view, begin, stop, starts[places], sizes[places])
        cursor[i] = reached
        broken[i] |= reached < 0
    bad[order] |= broken | (cursor != limit)
    return starts, sizes


def _chain(view: memoryview, at: int, limit: int, starts: Ints, sizes: Ints) -> int:
    """Walk over the records of one batch; where they end, -1 when they do not chain."""
    for i in range(len(starts)):
        byte = view[at]
        at += 1
        value, shift = byte & 0x7F, 7
        while byte >= 0x80 and shift < 63:
            byte = view[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
        size = value >> 1
        if byte >= 0x80 or value & 1 or size > limit - at:
            return -1
        starts[i], sizes[i] = at, size
        at += size
    return at


def _read_fields(
    data: Bytes, batch: Ints, starts: Ints, sizes: Ints
) -> tuple[Fields, Flags]:
    """The fields of records whose places are known, and which records are wrong."""
    end = starts + sizes
    timestamp_delta, at, bad = read_varints(data, np.minimum(starts + 1, end))
    offset_delta, at, wrong = read_varints(data, at)
    bad |= wrong | (offset_delta < 0) | (offset_delta > INT32_MAX)
    key_at, key_end, key_is_null, wrong = _read_place(data, at, end)
    bad |= wrong
    value_at, value_end, value_is_null, wrong = _read_place(data, key_end, end)
    bad |= wrong
    header_count, headers_at, wrong = read_varints(data, value_end)
    bad |= wrong | (header_count < 0) | ((header_count == 0) & (headers_at != end))
    bad |= header_count > end - headers_at
    fields = Fields(
        batch=batch,
        timestamp_delta=timestamp_delta,
        offset_delta=offset_delta,
        key_at=key_at,
        key_end=key_end,
        key_is_null=key_is_null,
        value_at=value_at,
        value_end=value_end,
        value_is_null=value_is_null,
        header_count=header_count,
        headers_at=headers_at,
        end=end,
    )
    return fields, bad


def _read_place(data: Bytes, at: Ints, end: Ints) -> tuple[Ints, Ints, Flags, Flags]:
    """Where a nullable field begins and ends, whether it is null, whether it is wrong.
    A wrong one is taken for an empty one at the record's end."""
    length, at, bad = read_varints(data, at)
    is_null = length < 0
    bad |= length > end - at
    length = np.where(is_null | bad, 0, length)
    at = np.where(bad, end, at)
    return at, at + length, is_null, bad
