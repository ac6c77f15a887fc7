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
    pairs = np.ndarray((len(data) - 1,), "<u2", data, strides=(1,))
    two = pairs[at]
    value, after = _VALUES[two], at + 1
    after += (two >> 7) & 1
    bad = np.zeros(len(at), np.bool_)
    more = np.flatnonzero(value == _LONGER)
    if more.size:
        value[more], after[more], bad[more] = _read_long(data, at[more])
    return value, after, bad


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


_LONGER: Final = 2**62
_VALUES: Final = _values()
