"""A topic, and a group's topics, as one number each (E15-03)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b

from coterie.types import TopicId, TopicName


def topic_hash(
    topic_id: TopicId,
    name: TopicName,
    partition_count: int,
    racks: Sequence[Collection[str]],
) -> int:
    """The hash of a topic as it is now: its id, size and racks."""
    text = repr((topic_id, name, partition_count, [sorted(each) for each in racks]))
    return _hash(text)


def metadata_hash(hashes: Mapping[TopicName, int]) -> int:
    """The hash of many topics; 0 if there is none."""
    return _hash(repr(sorted(hashes.items()))) if hashes else 0


def _hash(text: str) -> int:
    digest = blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)
