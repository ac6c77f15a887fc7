"""Mutations of valid inputs, deterministic for a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

INPUT_BYTES_MAX: Final = 4096
ROUNDS_MAX: Final = 4
BOUNDARY_VALUES: Final = (
    b"\0",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff",
    b"\x7f\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 9 + b"\x01",
)
"""Lengths and counts at their limits, and varints that are too long."""


def mutate(data: bytes, others: Sequence[bytes], chance: Random) -> bytes:
    """Apply a few mutations to `data`; the result may include bytes of one of
    `others`.
    """
    for _ in range(chance.randint(1, ROUNDS_MAX)):
        change = chance.choice(_CHANGES)
        data = change(data, chance)
    if chance.random() < 0.1:
        other = chance.choice(others)
        data = data[: chance.randint(0, len(data))] + other[len(data) // 2 :]
    return data[:INPUT_BYTES_MAX]


def _flip(data: bytes, chance: Random) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def _replace(data: bytes, chance: Random) -> bytes:
    at = chance.randint(0, len(data))
    piece = chance.choice(BOUNDARY_VALUES)
    return data[:at] + piece + data[at + len(piece) :]


def _insert(data: bytes, chance: Random) -> bytes:
    at = chance.randint(0, len(data))
    piece = chance.choice((*BOUNDARY_VALUES, chance.randbytes(3)))
    return data[:at] + piece + data[at:]


def _cut(data: bytes, chance: Random) -> bytes:
    start = chance.randint(0, len(data))
    return data[:start] + data[start + chance.randint(0, 8) :]


def _end(data: bytes, chance: Random) -> bytes:
    return data[: chance.randint(0, len(data))]


def _repeat(data: bytes, chance: Random) -> bytes:
    start = chance.randint(0, len(data))
    end = min(start + chance.randint(1, 16), len(data))
    return data[:end] + data[start:end] * chance.randint(1, 4) + data[end:]


_CHANGES: Final[Sequence[Callable[[bytes, Random], bytes]]] = (
    _flip,
    _replace,
    _insert,
    _cut,
    _end,
    _repeat,
)
