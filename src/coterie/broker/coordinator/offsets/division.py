"""Divide the topics of OffsetDelete.

Kafka's broker (`KafkaApis`) responds for what does not exist, and for what the
principal may not access, before the group's coordinator sees the rest. A topic that
exists and is requested without partitions has no part in the response.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coterie.broker.coordinator.result import TopicView
from coterie.types import TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode


class Existing(NamedTuple):
    """A requested topic with those of its requested partitions that exist."""

    name: TopicName
    partitions: Sequence[m.OffsetDeleteRequestPartition]

    def response(self, code: ErrorCode) -> m.OffsetDeleteResponseTopic:
        """Return the topic of the response with a result for each partition."""
        return m.OffsetDeleteResponseTopic(
            name=self.name,
            partitions=[
                m.OffsetDeleteResponsePartition(
                    partition_index=each.partition_index, error_code=code
                )
                for each in self.partitions
            ],
        )


class Division:
    """The requested topics that exist, and the response for all others."""

    __slots__ = ("_errors", "_topics", "existing")

    def __init__(self, topics: TopicView) -> None:
        self._topics = topics
        self._errors: dict[TopicName, m.OffsetDeleteResponseTopic] = {}
        self.existing: list[Existing] = []

    def take(self, requested: m.OffsetDeleteRequestTopic) -> None:
        """Divide the partitions of a topic into those that exist and those that do
        not."""
        name, unknown = requested.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        count = self._topics.partition_count(name)
        if count is None:
            self.refuse(requested, unknown)
            return
        existing: list[m.OffsetDeleteRequestPartition] = []
        others: list[m.OffsetDeleteRequestPartition] = []
        for each in requested.partitions:
            (existing if 0 <= each.partition_index < count else others).append(each)
        if others:
            self._add(Existing(name, others).response(unknown))
        if existing:
            self.existing.append(Existing(name, existing))

    def refuse(self, requested: m.OffsetDeleteRequestTopic, code: ErrorCode) -> None:
        """Respond with an error for each partition of a topic, if it exists or not."""
        self._add(Existing(requested.name, requested.partitions).response(code))

    def merge(
        self, others: Sequence[m.OffsetDeleteResponseTopic]
    ) -> list[m.OffsetDeleteResponseTopic]:
        """Return all topics of the response, `others` being those of `existing`.

        As in the builders of Kafka's responses, errors come first. If there are any,
        each topic is there once.
        """
        if not self._errors:
            return [*others]
        for each in others:
            self._add(each)
        return [*self._errors.values()]

    def _add(self, topic: m.OffsetDeleteResponseTopic) -> None:
        present = self._errors.setdefault(topic.name, topic)
        if present is not topic:
            present.partitions.extend(topic.partitions)
