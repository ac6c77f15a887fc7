"""Find the fields of all records of many batches at once, with numpy.

The position of a record follows from the length of the previous one, so the records of
one batch must be found one after the other. But record j of every batch can be found in
one step. Batches are sorted by their number of records, so that the batches with a
record j are a prefix of the array. If only a few long batches remain, they are decoded
one by one.

A batch with unexpected content is marked as bad: the scalar decoder of
`wire.record_batch` decodes it or raises the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coterie.pipeline.segments.batches import Flags, Ints
from coterie.wire.record_batch import INT32_MAX

Bytes: TypeAlias = NDArray[np.uint8]

PADDING: Final = bytes(64)
"""Bytes at the end of a buffer of batches, so that no field is read beyond the buffer.
"""
_NARROW: Final = 24
"""With fewer batches than this, a numpy step costs more than decoding their records one
by one.
"""
_BEYOND_ALL_DATA: Final = 2**40
_VARINT_BYTES_MAX: Final = 9
"""Nine bytes hold 62 bits and a sign: more than any time, offset or length."""
_MANY: Final = 4
"""When more than 1/4 of the varints are longer than a byte, all are read as two."""
_LONGER: Final = 2**62
"""The entry of `_VALUES` for varints of more than two bytes."""


def _advances() -> Ints:
    """Return the distance to the next record by the first two bytes of a record (little
    endian): its length plus the size of that varint.

    For longer varints and impossible lengths the distance is beyond all data: the end
    of such a batch is not found, and the batch is decoded alone.
    """
    two = np.arange(65536)
    is_short = (two & 0x80) == 0
    zigzag = np.where(is_short, two & 0x7F, (two & 0x7F) | ((two >> 1) & 0x3F80))
    advance = (zigzag >> 1) + np.where(is_short, 1, 2)
    impossible = (zigzag & 1 != 0) | ((two & 0x8080) == 0x8080)
    return np.where(impossible, _BEYOND_ALL_DATA, advance)


_ADVANCE: Final = _advances()


@dataclass(frozen=True, slots=True)
class Fields:
    """The positions of the fields of each record. `batch` is the index of the record's
    batch; a null key or value has length 0. Records of bad batches are left out.
    """

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
    """Find the fields of the records between `begins` and `ends`; return them and the
    flags of bad batches. `data` must end with PADDING.
    """
    bad = (counts < 0) | (counts > ends - begins)
    counts = np.where(bad, 0, counts)
    batch = np.repeat(np.arange(len(begins)), counts)
    starts = _record_starts(data, begins, ends, counts, bad)
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


def _record_starts(
    data: Bytes, begins: Ints, ends: Ints, counts: Ints, bad: Flags
) -> Ints:
    """Return the position of each record, where its length begins. Mark a batch as bad
    if its last record does not end at its end.
    """
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
        found = _walk(text, int(begins[each]), int(ends[each]), count)
        if found is None:
            bad[each] = True
        else:
            starts[at : at + count] = found
    return starts


def _step_together(data: Bytes, cursor: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
    """Step over record 0 of all batches, then over record 1 of all that have one, and
    so on while more than _NARROW batches are left. `counts` are in descending order.

    Return the positions of records, step by step; the number of batches in each step;
    and the cursors after the last step.
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
    """Transpose `stepped` from step by step to batch by batch; return it with the index
    of each batch's first record. The values of records without a step are arbitrary.
    """
    first = np.cumsum(counts) - counts
    total = int(counts.sum())
    if not len(stepped):
        return np.zeros(total, np.int64), first
    step = np.arange(total) - np.repeat(first, counts)
    np.minimum(step, len(active) - 1, out=step)
    edges = np.cumsum(active) - active
    place = edges[step] + np.repeat(rank, counts)
    return stepped[np.minimum(place, len(stepped) - 1)], first


def _walk(data: memoryview, at: int, limit: int, count: int) -> list[int] | None:
    """Return the positions of the records of one batch; None if the last one does not
    end at the batch's end. Varints are decoded inline: this is the hot loop for large
    batches.
    """
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
    """Return the fields of the records, and a mask of invalid records."""
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
    """Return the begin and end of a nullable field, a mask of nulls, and a mask of
    invalid fields. An invalid field becomes an empty one at the record's end.
    """
    is_null = size < 0
    bad = bad | (size > end - at)
    if bad.any():
        size, at = np.where(bad, 0, size), np.where(bad, end, at)
    if is_null.any():
        size = np.maximum(size, 0)
    return at, at + size, is_null, bad


def read_varints(data: Bytes, at: Ints) -> tuple[Ints, Ints, Flags]:
    """Decode a zigzag varint at each position. Return the values, the positions after
    them, and a mask of varints that are too long. `data` must have ten more bytes after
    each position.
    """
    byte = data.take(at)
    more = np.flatnonzero(byte >= 0x80)
    if _MANY * more.size > len(at):
        pairs = np.ndarray((len(data) - 1,), "<u2", data, strides=(1,))
        two = pairs[at].astype(np.int64)
        value, after = _VALUES.take(two), at + 1
        after += two >> 7 & 1
        more = np.flatnonzero(value == _LONGER)
    else:
        value, after = _VALUES.take(byte.astype(np.int64)), at + 1
    bad = np.zeros(len(at), np.bool_)
    if more.size:
        value[more], after[more], bad[more] = _read_long(data, at[more])
    return value, after, bad


def read_three(data: Bytes, at: Ints) -> tuple[list[Ints], Ints, Flags]:
    """Decode three consecutive varints at each position, as `read_varints` does.

    One word of eight bytes contains all three, unless one of them is longer than two
    bytes.
    """
    words = np.ndarray((len(data) - 7,), "<i8", data, strides=(1,))[at]
    values, after = [], at.copy()
    is_longer = np.zeros(len(at), np.bool_)
    for _ in range(3):
        two = words & 0xFFFF
        value = _VALUES.take(two)
        is_longer |= value == _LONGER
        size = (two >> 7 & 1) + 1
        words >>= size << 3
        after += size
        values.append(value)
    bad = np.zeros(len(at), np.bool_)
    more = np.flatnonzero(is_longer)
    if more.size:
        next_at = at[more]
        for value in values:
            value[more], next_at, wrong = read_varints(data, next_at)
            bad[more] |= wrong
        after[more] = next_at
    return values, after, bad


def _read_long(data: Bytes, at: Ints) -> tuple[Ints, Ints, Flags]:
    value, after = np.zeros(len(at), np.int64), at.copy()
    more = np.arange(len(at))
    shift = 0
    while more.size and shift < 7 * _VARINT_BYTES_MAX:
        byte = data[after[more]]
        value[more] |= (byte & 0x7F).astype(np.int64) << shift
        after[more] += 1
        more = more[byte >= 0x80]
        shift += 7
    bad = np.zeros(len(at), np.bool_)
    bad[more] = True
    return (value >> 1) ^ -(value & 1), after, bad


def _values() -> Ints:
    """Return the values of varints by their first two bytes (little endian); nearly all
    varints in a log have at most two bytes.
    """
    two = np.arange(65536)
    long = (two & 0x7F) | ((two >> 1) & 0x3F80)
    zigzag = np.where(two & 0x80, long, two & 0x7F)
    value = (zigzag >> 1) ^ -(zigzag & 1)
    return np.where((two & 0x8080) == 0x8080, _LONGER, value)


_VALUES: Final = _values()
