"""The topics of a generated world, and how far their partitions have got."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from coterie.pipeline.generator.truth import Part
from coterie.types import TopicId, TopicName


@dataclass
class Topic:
    """One life of a topic; producers write steadily."""

    name: TopicName
    topic_id: TopicId
    partitions: int
    created_ms: int
    records_per_s: float

    def part(self, partition: int) -> Part:
        """One of its partitions."""
        return Part(self.name, self.topic_id.hex(), partition)

    def end_offset(self, partition: int, now_ms: int) -> int:
        """Later partitions get a little less."""
        seconds = (now_ms - self.created_ms) / 1000
        return int(seconds * self.records_per_s * (1 - partition / 100))


class Topics:
    """A `TopicView` that changes."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.version = 1
        self.known: dict[TopicName, Topic] = {}
        self._names: dict[TopicId, TopicName] = {}

    def create(self, name: TopicName, partitions: int, now_ms: int) -> Topic:
        """Make a topic, with an id that none had before."""
        assert name not in self.known
        rate = self._rng.choice((0.2, 1.0, 5.0, 20.0))
        topic = Topic(name, self._rng.randbytes(16), partitions, now_ms, rate)
        self.known[name] = topic
        self._names[topic.topic_id] = name
        self.version += 1
        return topic

    def grow(self, name: TopicName, by: int) -> None:
        """Add partitions."""
        self.known[name].partitions += by
        self.version += 1

    def delete(self, name: TopicName) -> Topic:
        """Take a topic away."""
        self.version += 1
        return self.known.pop(name)

    def partition_count(self, topic: TopicName) -> int | None:
        """How many partitions the topic has."""
        found = self.known.get(topic)
        return None if found is None else found.partitions

    def topic_id(self, topic: TopicName) -> TopicId | None:
        """The topic's id."""
        found = self.known.get(topic)
        return None if found is None else found.topic_id

    def topic_name(self, topic_id: TopicId) -> TopicName | None:
        """The name of the topic that has this id now."""
        name = self._names.get(topic_id)
        return name if name is not None and self.topic_id(name) == topic_id else None

    def topic_names(self) -> Iterable[TopicName]:
        """Every topic there is."""
        return self.known.keys()

    def partition_racks(self, topic: TopicName) -> Sequence[Collection[str]]:
        """Nobody knows of racks."""
        return ()
