"""The shard of a group: Java's string hash over UTF-16 code units (B-16)."""

from __future__ import annotations

import pytest

from coterie.broker.runtime.shards import java_string_hash, partition_for


@pytest.mark.fact("B-16")
@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),  # Integer.MIN_VALUE in Java
        ("\N{GRINNING FACE}", 0xD83D * 31 + 0xDE00),
        ("ä\N{GRINNING FACE}b", (((0xE4 * 31 + 0xD83D) * 31 + 0xDE00) * 31) + 98),
    ],
)
def test_java_string_hash_equals_java(text: str, hashed: int) -> None:
    assert java_string_hash(text) == hashed


@pytest.mark.fact("B-16")
def test_the_smallest_hash_maps_to_partition_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0


@pytest.mark.fact("B-16")
def test_a_negative_hash_maps_by_its_absolute_value() -> None:
    negative = next(
        name
        for name in map(str, range(10**6, 10**6 + 100))
        if java_string_hash(name) > 0
    )
    assert partition_for(negative, 50) == java_string_hash(negative) % 50
    below = next(
        name
        for name in (f"group-{at}" for at in range(1_000))
        if java_string_hash(name) < 0
    )
    assert partition_for(below, 50) == -java_string_hash(below) % 50
