"""Which shard a group belongs to: Kafka's own mapping (B-16)."""

from __future__ import annotations

from functools import lru_cache

_INT_MIN = -(2**31)


def java_string_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 code units, so that a character outside
    the basic plane counts as two, in 32 bits with a sign."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@lru_cache(maxsize=65_536)
def partition_for(key: str, partition_count: int) -> int:
    """The partition that a group id or transactional id belongs to.

    The absolute value of the hash modulo the partitions; Java's least int, which has no
    absolute value, counts as 0.
    """
    hashed = java_string_hash(key)
    return 0 if hashed == _INT_MIN else abs(hashed) % partition_count
