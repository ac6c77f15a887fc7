"""The topics of a world, for the coordinator and the members."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from random import Random
from typing import NamedTuple, TypeAlias

from coterie.types import TopicId, TopicName

TopicIdPartition: TypeAlias = tuple[TopicId, int]
"""A partition of one topic id."""


class Topic(NamedTuple):
    """An existing topic."""

    topic_id: TopicId
    partition_count: int


class Topics:
    """A `TopicView` that changes."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.version = 1
        self.known: dict[TopicName, Topic] = {}
        self.names: dict[TopicId, TopicName] = {}
        """The names of all topics ever created, by id."""

    def create(self, name: TopicName, partition_count: int) -> Topic:
        """Create a topic with a new id."""
        assert name not in self.known
        assert partition_count > 0
        topic = Topic(self._rng.randbytes(16), partition_count)
        self.known[name] = topic
        self.names[topic.topic_id] = name
        self.version += 1
        return topic

    def grow(self, name: TopicName, by: int) -> None:
        """Add partitions."""
        assert by > 0
        topic_id, count = self.known[name]
        self.known[name] = Topic(topic_id, count + by)
        self.version += 1

    def delete(self, name: TopicName) -> Topic:
        """Delete a topic."""
        self.version += 1
        return self.known.pop(name)

    def parts(self, names: Iterable[TopicName]) -> set[TopicIdPartition]:
        """Return all partitions of these topics, without topics that do not exist."""
        found = (self.known[name] for name in names if name in self.known)
        return {
            (topic.topic_id, partition)
            for topic in found
            for partition in range(topic.partition_count)
        }

    def describe(self, parts: Iterable[TopicIdPartition]) -> str:
        """Return partitions in readable form."""
        by_name: dict[str, list[int]] = {}
        for topic_id, partition in parts:
            by_name.setdefault(self.describe_id(topic_id), []).append(partition)
        each = (
            f"{name}-{','.join(map(str, sorted(some)))}"
            for name, some in sorted(by_name.items())
        )
        return " ".join(each) or "nothing"

    def describe_id(self, topic_id: TopicId) -> str:
        """Return a topic's name, with an apostrophe for a deleted one."""
        name = self.names.get(topic_id, topic_id.hex())
        is_now = name in self.known and self.known[name].topic_id == topic_id
        return name if is_now else f"{name}'"

    # The interface of `TopicView`.

    def partition_count(self, topic: TopicName) -> int | None:
        """Return the number of partitions of a topic."""
        found = self.known.get(topic)
        return None if found is None else found.partition_count

    def topic_id(self, topic: TopicName) -> TopicId | None:
        """Return a topic's id."""
        found = self.known.get(topic)
        return None if found is None else found.topic_id

    def topic_name(self, topic_id: TopicId) -> TopicName | None:
        """Return the name of the topic with this id."""
        name = self.names.get(topic_id)
        return name if name is not None and self.topic_id(name) == topic_id else None

    def topic_names(self) -> Iterable[TopicName]:
        """Return all topic names."""
        return tuple(self.known)

    def partition_racks(self, topic: TopicName) -> Sequence[Collection[str]]:
        """Return no racks: none are known."""
        return ()
