"""A topic, and a group's topics, as one number each (E15-03, KIP-1101).

The numbers are Kafka's, as record 3 keeps them: XXH3-64 over the fields in the byte
layout of hash4j, which Kafka hashes with. All numbers are little-endian; a string is
its UTF-16 code units and then how many they are.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final

from xxhash import xxh3_64_intdigest

from coterie.types import TopicId, TopicName

_MAGIC: Final = b"\0"
"""The version of the layout, a byte before everything else."""
_ID: Final = struct.Struct(">qq")
_ID_BYTES: Final = struct.Struct("<qq")
_INT32: Final = struct.Struct("<i")
_SIGN: Final = 1 << 63
_REMEMBERED_MAX: Final = 16_384


def topic_hash(
    topic_id: TopicId,
    name: TopicName,
    partition_count: int,
    racks: Sequence[Collection[str]],
) -> int:
    """The hash of a topic as it is now, a signed int64.

    `racks` are those of each partition, in any order; empty if they are not known.
    """
    assert not racks or len(racks) == partition_count, name
    if not racks:
        return _hash_without_racks(topic_id, name, partition_count)
    return _hash(
        _head(topic_id, name, partition_count)
        + b"".join(_partition(index, each) for index, each in enumerate(racks))
    )


def metadata_hash(hashes: Mapping[TopicName, int]) -> int:
    """The hash of many topics, a signed int64; 0 if there is none."""
    if not hashes:
        return 0
    by_name = [hashes[name] for name in sorted(hashes)]
    return _hash(struct.pack(f"<{len(by_name)}q", *by_name))


@lru_cache(_REMEMBERED_MAX)
def _hash_without_racks(topic_id: TopicId, name: TopicName, count: int) -> int:
    """Groups look at the same topics again and again."""
    indexes = struct.pack(f"<{count}i", *range(count))
    return _hash(_head(topic_id, name, count) + indexes)


def _head(topic_id: TopicId, name: TopicName, count: int) -> bytes:
    id_bytes = _ID_BYTES.pack(*_ID.unpack(topic_id))
    return _MAGIC + id_bytes + _string(name) + _INT32.pack(count)


def _partition(index: int, racks: Collection[str]) -> bytes:
    """A rack has its length before it, too."""
    parts = [_INT32.pack(index)]
    for rack in sorted(racks):
        text = _string(rack)
        parts += (text[-_INT32.size :], text)
    return b"".join(parts)


def _string(text: str) -> bytes:
    units = text.encode("utf-16-le")
    return units + _INT32.pack(len(units) // 2)


def _hash(data: bytes) -> int:
    unsigned = xxh3_64_intdigest(data)
    return unsigned - 2 * _SIGN if unsigned & _SIGN else unsigned
