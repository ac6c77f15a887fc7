"""Hash codes and HashMap orders of Java; hash codes are from a JVM."""

from __future__ import annotations

import pytest

from coterie.java import hash_map_order, string_hash


@pytest.mark.fact("B-16a", "B-16b")
@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("orders", 3286196965),
        ("a-long-group-name-of-several-words", 2299314801),
        ("polygenelubricants", -(2**31)),  # Integer.MIN_VALUE in Java
        ("\N{GRINNING FACE}", 0xD83D * 31 + 0xDE00),
        ("ä\N{GRINNING FACE}b", (((0xE4 * 31 + 0xD83D) * 31 + 0xDE00) * 31) + 98),
    ],
)
def test_strings_hash_as_in_java(text: str, hashed: int) -> None:
    assert string_hash(text) == hashed % 2**32


def test_keys_have_the_order_of_a_resized_hash_map() -> None:
    groups = [f"group-{number}" for number in range(14)]
    order = [10, 12, 11, 7, 6, 9, 8, 3, 2, 5, 4, 13, 1, 0]
    assert hash_map_order(groups) == [groups[each] for each in order]
