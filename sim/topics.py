"""The topics of a world: what the coordinator and the members may know of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from random import Random
from typing import NamedTuple, TypeAlias

from coterie.types import TopicId, TopicName

Part: TypeAlias = tuple[TopicId, int]
"""One partition of one incarnation of a topic."""


class Topic(NamedTuple):
    """A topic that exists."""

    topic_id: TopicId
    partition_count: int


class Topics:
    """A `TopicView` that changes."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.version = 1
        self.known: dict[TopicName, Topic] = {}
        self.names: dict[TopicId, TopicName] = {}
        """The names of all topics there ever were."""

    def create(self, name: TopicName, partition_count: int) -> Topic:
        """Make a topic, with an id that none had before."""
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
        """Take a topic away."""
        self.version += 1
        return self.known.pop(name)

    def parts(self, names: Iterable[TopicName]) -> set[Part]:
        """All partitions of those topics that exist."""
        found = (self.known[name] for name in names if name in self.known)
        return {
            (topic.topic_id, partition)
            for topic in found
            for partition in range(topic.partition_count)
        }

    def describe(self, parts: Iterable[Part]) -> str:
        """Partitions as people read them."""
        by_name: dict[str, list[int]] = {}
        for topic_id, partition in parts:
            by_name.setdefault(self.describe_id(topic_id), []).append(partition)
        each = (
            f"{name}-{','.join(map(str, sorted(some)))}"
            for name, some in sorted(by_name.items())
        )
        return " ".join(each) or "nothing"

    def describe_id(self, topic_id: TopicId) -> str:
        """A topic's name; with an apostrophe, one of its former lives."""
        name = self.names.get(topic_id, topic_id.hex())
        is_now = name in self.known and self.known[name].topic_id == topic_id
        return name if is_now else f"{name}'"

    # What the coordinator asks.

    def partition_count(self, topic: TopicName) -> int | None:
        """How many partitions the topic has."""
        found = self.known.get(topic)
        return None if found is None else found.partition_count

    def topic_id(self, topic: TopicName) -> TopicId | None:
        """The topic's id."""
        found = self.known.get(topic)
        return None if found is None else found.topic_id

    def topic_name(self, topic_id: TopicId) -> TopicName | None:
        """The name of the topic that has this id now."""
        name = self.names.get(topic_id)
        return name if name is not None and self.topic_id(name) == topic_id else None

    def topic_names(self) -> Iterable[TopicName]:
        """Every topic there is."""
        return tuple(self.known)

    def partition_racks(self, topic: TopicName) -> Sequence[Collection[str]]:
        """The racks are not known."""
        return ()
