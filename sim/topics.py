"""The topics of a world: made, grown, taken away, made again with another id."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from coterie.types import TopicId, TopicName


@dataclass
class Topics:
    """The coordinator's `TopicView`. Old ids are remembered, for who still asks."""

    counts: dict[TopicName, int] = field(default_factory=dict)
    version: int = 0
    _made: int = 0
    _ids: dict[TopicName, TopicId] = field(default_factory=dict)
    _names: dict[TopicId, TopicName] = field(default_factory=dict)

    def create(self, name: TopicName, partitions: int) -> None:
        """Make a topic; its id has never been another's."""
        assert name not in self.counts
        self._made += 1
        topic_id = self._made.to_bytes(16)
        self.counts[name] = partitions
        self._ids[name] = topic_id
        self._names[topic_id] = name
        self.version += 1

    def grow(self, name: TopicName, more: int) -> None:
        """Let a topic have more partitions."""
        self.counts[name] += more
        self.version += 1

    def delete(self, name: TopicName) -> TopicId:
        """Take a topic away; the id it had."""
        del self.counts[name]
        topic_id = self._ids.pop(name)
        del self._names[topic_id]
        self.version += 1
        return topic_id

    def partition_count(self, topic: TopicName) -> int | None:
        return self.counts.get(topic)

    def topic_id(self, topic: TopicName) -> TopicId | None:
        return self._ids.get(topic)

    def topic_name(self, topic_id: TopicId) -> TopicName | None:
        return self._names.get(topic_id)

    def topic_names(self) -> Iterable[TopicName]:
        return self.counts.keys()

    def partition_racks(self, topic: TopicName) -> Sequence[Collection[str]]:
        return ()
