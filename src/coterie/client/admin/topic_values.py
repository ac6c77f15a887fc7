"""Topics that are to be made, and those that were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coterie.types import TopicId, TopicName


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to make. What is None is the broker's to choose (Kafka 2.4 and later)."""

    name: TopicName
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """The node ids each partition is to be on, instead of the two numbers."""


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was made, as far as the broker says what came of it."""

    name: TopicName
    topic_id: TopicId | None = None
    """None before Kafka 2.8."""
    partitions: int | None = None
    """None before Kafka 2.4."""
    replication_factor: int | None = None
    """None before Kafka 2.4."""
