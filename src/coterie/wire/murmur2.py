"""The hash of record keys, by which Kafka's producers choose a partition."""

from __future__ import annotations


def murmur2(key: bytes) -> int:
    """Return Kafka's hash of a key (`Utils.murmur2`) as a positive int32."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if rest := key[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF
