"""Details of Java that Kafka's behaviour depends on.

Kafka assigns groups to partitions by hash codes, trims filters and ids, selects a
group's protocol by the order of a map, and quotes the errors of RE2/J.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_UNSIGNED: Final = 0xFFFF_FFFF
_INITIAL_CAPACITY: Final = 16
_TRIMMED: Final = "".join(map(chr, range(ord(" ") + 1)))

_RE2J_DESCRIPTIONS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "regexp/syntax: internal error",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}
"""Descriptions of errors that RE2 and RE2/J word differently."""


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


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """Return strings in the iteration order of a java.util.HashMap that has them as
    keys.

    They must be given in the order of insertion.
    """
    ordered = list(keys)
    size = _INITIAL_CAPACITY
    while len(ordered) > size * 3 // 4:
        size *= 2

    def bucket(key: str) -> int:
        value = string_hash(key)
        return (value ^ value >> 16) & (size - 1)

    return sorted(ordered, key=bucket)


def re2j_description(message: bytes | str) -> str:
    """Return the description of RE2/J for an error of RE2, whose message has the faulty
    part of the expression after a colon."""
    text = message.decode(errors="replace") if isinstance(message, bytes) else message
    description = text.partition(": ")[0]
    return _RE2J_DESCRIPTIONS.get(description, description)
