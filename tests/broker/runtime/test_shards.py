"""The shard of a group: Java's string hash over UTF-16 code units (B-16)."""

from __future__ import annotations

import pytest

from coterie.broker.runtime.shards import partition_for


@pytest.mark.fact("B-16c")
def test_the_smallest_hash_maps_to_partition_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0


@pytest.mark.fact("B-16a")
@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        ("group-0", 293427298),
        ("orders", 3286196965 - 2**32),
        ("a-long-group-name-of-several-words", 2299314801 - 2**32),
    ],
)
def test_a_key_maps_by_the_absolute_value_of_its_hash(key: str, hashed: int) -> None:
    assert partition_for(key, 50) == abs(hashed) % 50
