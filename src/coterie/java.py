"""Java's `String.hashCode`, `String.trim` and the order of a `HashMap`.

Kafka assigns groups to partitions by hash codes, trims filters and ids, and selects the
first entry of a map in some places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

K = TypeVar("K")

_UNSIGNED: Final = 0xFFFF_FFFF
_INITIAL_CAPACITY: Final = 16
_TRIMMED: Final = "".join(map(chr, range(ord(" ") + 1)))


def string_hash(text: str) -> int:
    """Return the value of `String.hashCode`, unsigned.

    It is computed over UTF-16 code units, so that a character outside the basic
    multilingual plane counts as two.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _UNSIGNED
    return value


def trim(text: str) -> str:
    """Return the value of `String.trim`: without control characters and spaces at both
    ends; other white space stays."""
    return text.strip(_TRIMMED)


def hash_map_order(keys: Iterable[K], hash_code: Callable[[K], int]) -> list[K]:
    """Return keys in the iteration order of a java.util.HashMap.

    They must be given in the order of insertion.
    """
    ordered = list(keys)
    size = _INITIAL_CAPACITY
    while len(ordered) > size * 3 // 4:
        size *= 2

    def bucket(key: K) -> int:
        value = hash_code(key)
        return (value ^ value >> 16) & (size - 1)

    return sorted(ordered, key=bucket)
