"""What a group sees of its topics, as one number that changes with them (E15-03)."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.coordinator.consumer.topic_hash import metadata_hash, topic_hash
from coterie.coordinator.result import TopicView
from coterie.types import TopicName


def hash_of(names: Iterable[TopicName], topics: TopicView) -> int:
    """The hash of the topics that exist; 0 if none does."""
    hashes: dict[TopicName, int] = {}
    for name in names:
        topic_id = topics.topic_id(name)
        count = topics.partition_count(name)
        if topic_id is not None and count is not None:
            racks = topics.partition_racks(name)
            assert not racks or len(racks) == count, name
            hashes[name] = topic_hash(topic_id, name, count, racks)
    return metadata_hash(hashes)
