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

from coterie.pipeline.segments.varints import (
    Bytes,
    Flags,
    Ints,
    read_three,
    read_varints,
)
from coterie.wire.record_batch import INT32_MAX

PADDING: Final = bytes(64)
"""What a buffer of batches ends with, so that no field is read after its end."""
_NARROW: Final = 24
"""With fewer batches than this a step costs more than the records it steps over."""
_FAR: Final = 2**40


def _advances() -> Ints:
    """How far the next record is, by the first two bytes of one (little endian): its
    length, and the bytes of that. Where two bytes do not tell, or lengths cannot be, it
    is far behind all data: such a batch does not come to its end, and is walked for
    itself."""
    two = np.arange(65536)
    is_short = (two & 0x80) == 0
    zigzag = np.where(is_short, two & 0x7F, (two & 0x7F) | ((two >> 1) & 0x3F80))
    advance = (zigzag >> 1) + np.where(is_short, 1, 2)
    cannot_be = (zigzag & 1 != 0) | ((two & 0x8080) == 0x8080)
    return np.where(cannot_be, _FAR, advance)


_ADVANCE: Final = _advances()


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
    batch = np.repeat(np.arange(len(begins)), counts)
    starts = _step(data, begins, ends, counts, bad)
    if bad.any():
        keep = ~bad[batch]
        batch, starts = batch[keep], starts[keep]
    fields, wrong = _read_fields(data, batch, starts)
    bad[fields.batch[wrong]] = True
    if bad.any():
        keep = ~bad[fields.batch]
        fields = Fields(
            *(getattr(fields, name)[keep] for name in Fields.__dataclass_fields__)
        )
    return fields, bad


def _step(data: Bytes, begins: Ints, ends: Ints, counts: Ints, bad: Flags) -> Ints:
    """Where each record begins, with its length; marks batches that do not chain."""
    order = np.argsort(-counts, kind="stable")
    stepped, active, reached = _step_together(data, begins[order], counts[order])
    cursor, rank = np.empty_like(reached), np.empty_like(order)
    cursor[order], rank[order] = reached, np.arange(len(order))
    starts, first = _by_batch(stepped, active, counts, rank)
    bad |= (counts == 0) & (begins != ends)
    alone = (counts > len(active)) | ((cursor != ends) & (counts > 0))
    text = data.data
    for each in np.flatnonzero(alone).tolist():
        count, at = int(counts[each]), int(first[each])
        found = _chain(text, int(begins[each]), int(ends[each]), count)
        if found is None:
            bad[each] = True
        else:
            starts[at : at + count] = found
    return starts


def _step_together(data: Bytes, cursor: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
    """Steps over record 0 of all batches, then record 1 of all that have one, and so
    on as long as that pays. Counts fall.

    Gives where records begin, step after step; how many each step has; and where the
    cursors came to.
    """
    longest = int(counts[0]) if len(counts) else 0
    active = np.searchsorted(-counts, -np.arange(longest), side="left")
    active = active[: int(np.searchsorted(-active, -_NARROW, side="right"))]
    stepped = np.empty(int(active.sum()), np.int64)
    pairs = np.ndarray((len(data) - 1,), "<u2", data, strides=(1,))
    at, last = 0, len(pairs) - 1
    for n in active.tolist():
        now = cursor[:n]
        stepped[at : at + n] = now
        now += _ADVANCE[pairs[now]]
        np.minimum(now, last, out=now)
        at += n
    return stepped, active, cursor


def _by_batch(
    stepped: Ints, active: Ints, counts: Ints, rank: Ints
) -> tuple[Ints, Ints]:
    """What was found step after step, batch after batch: of each record that has a
    step; and where each batch's records are in that."""
    first = np.cumsum(counts) - counts
    total = int(counts.sum())
    if not len(stepped):
        return np.zeros(total, np.int64), first
    step = np.arange(total) - np.repeat(first, counts)
    np.minimum(step, len(active) - 1, out=step)
    edges = np.cumsum(active) - active
    place = edges[step] + np.repeat(rank, counts)
    return stepped[np.minimum(place, len(stepped) - 1)], first


def _chain(data: memoryview, at: int, limit: int, count: int) -> list[int] | None:
    """Where the records of one batch begin; None when they do not chain."""
    starts = []
    for _ in range(count):
        if at >= limit:
            return None
        starts.append(at)
        byte = data[at]
        at += 1
        value, shift = byte & 0x7F, 7
        while byte >= 0x80 and shift < 63:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
        at += value >> 1
        if byte >= 0x80 or value & 1:
            return None
    return starts if at == limit else None


def _read_fields(data: Bytes, batch: Ints, starts: Ints) -> tuple[Fields, Flags]:
    """The fields of records that chain, and which records are wrong."""
    size, at, bad = read_varints(data, starts)
    end = at + size
    three, at, wrong = read_three(data, np.minimum(at + 1, end))
    timestamp_delta, offset_delta, key_size = three
    bad |= wrong | (offset_delta < 0) | (offset_delta > INT32_MAX)
    key_at, key_end, key_is_null, wrong = _place(key_size, at, end, wrong)
    bad |= wrong
    value_size, at, wrong = read_varints(data, key_end)
    value_at, value_end, value_is_null, wrong = _place(value_size, at, end, wrong)
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


def _place(
    size: Ints, at: Ints, end: Ints, bad: Flags
) -> tuple[Ints, Ints, Flags, Flags]:
    """Where a nullable field begins and ends, whether it is null, whether it is wrong.
    A wrong one is taken for an empty one at the record's end."""
    is_null = size < 0
    bad = bad | (size > end - at)
    if bad.any():
        size, at = np.where(bad, 0, size), np.where(bad, end, at)
    if is_null.any():
        size = np.maximum(size, 0)
    return at, at + size, is_null, bad
