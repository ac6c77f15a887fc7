"""What a group sees of its topics, as one number that changes with them (E15-03)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from coterie.coordinator.consumer.topic_hash import metadata_hash, topic_hash
from coterie.coordinator.result import TopicView
from coterie.types import TopicId, TopicName


class SeenTopic(NamedTuple):
    """A topic that exists: its id, its number of partitions, and the racks of each."""

    name: TopicName
    topic_id: TopicId
    partition_count: int
    racks: Sequence[Collection[str]]


def seen_topics(names: Iterable[TopicName], topics: TopicView) -> Iterator[SeenTopic]:
    """Those of the topics that exist."""
    for name in names:
        topic_id = topics.topic_id(name)
        count = topics.partition_count(name)
        if topic_id is not None and count is not None:
            racks = topics.partition_racks(name)
            assert not racks or len(racks) == count, name
            yield SeenTopic(name, topic_id, count, racks)


def hash_of(names: Iterable[TopicName], topics: TopicView) -> int:
    """The hash of the topics that exist; 0 if none does."""
    return metadata_hash(
        {
            name: topic_hash(topic_id, name, count, racks)
            for name, topic_id, count, racks in seen_topics(names, topics)
        }
    )
