"""Vectors of zigzag varints, read at many places of one buffer at once."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Bytes: TypeAlias = NDArray[np.uint8]

VARINT_BYTES_MAX: Final = 9
"""Nine bytes hold 62 bits and a sign: more is no time, offset or length of ours."""


def read_varints(data: Bytes, at: Ints) -> tuple[Ints, Ints, Flags]:
    """The values, where each ends, and which are too long to be believed.

    `data` must go on for ten bytes after every position.
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
    """Three varints that follow one another, as `read_varints` gives them: one look at
    eight bytes has them all, unless one is longer than two."""
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
        behind = at[more]
        for value in values:
            value[more], behind, wrong = read_varints(data, behind)
            bad[more] |= wrong
        after[more] = behind
    return values, after, bad


def _read_long(data: Bytes, at: Ints) -> tuple[Ints, Ints, Flags]:
    """Varints of any length."""
    value, after = np.zeros(len(at), np.int64), at.copy()
    more = np.arange(len(at))
    shift = 0
    while more.size and shift < 7 * VARINT_BYTES_MAX:
        byte = data[after[more]]
        value[more] |= (byte & 0x7F).astype(np.int64) << shift
        after[more] += 1
        more = more[byte >= 0x80]
        shift += 7
    bad = np.zeros(len(at), np.bool_)
    bad[more] = True
    return (value >> 1) ^ -(value & 1), after, bad


def _values() -> Ints:
    """The values of varints by their first two bytes (little endian): nearly all end
    within those."""
    two = np.arange(65536)
    long = (two & 0x7F) | ((two >> 1) & 0x3F80)
    zigzag = np.where(two & 0x80, long, two & 0x7F)
    value = (zigzag >> 1) ^ -(zigzag & 1)
    return np.where((two & 0x8080) == 0x8080, _LONGER, value)


_MANY: Final = 4
"""When one of so many is longer than a byte, two bytes of all are looked at."""
_LONGER: Final = 2**62
_VALUES: Final = _values()
