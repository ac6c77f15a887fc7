"""Divide the topics of OffsetCommit, TxnOffsetCommit and OffsetDelete.

Kafka's broker (`KafkaApis`) responds for what does not exist, and for what the
principal may not access, before the group's coordinator sees the rest. So an error of
the group is only for partitions that exist; if there are none, the group is not looked
at. A topic that exists and is requested without partitions has no part in the response.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from coterie.broker.coordinator.result import TopicView
from coterie.types import TopicId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import ZERO_UUID

_UNKNOWN_ID: Final = ErrorCode.UNKNOWN_TOPIC_ID
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Existing(NamedTuple):
    """A requested topic with those of its requested partitions that exist."""

    name: TopicName
    topic_id: TopicId
    partitions: Sequence[Any]


class ResponseTypes(NamedTuple):
    """The classes of an API for the topics and partitions of its response."""

    topic: type[Any]
    partition: type[Any]

    def of(
        self,
        name: TopicName,
        topic_id: TopicId,
        partitions: Sequence[Any],
        code: ErrorCode,
    ) -> Any:
        """Return a topic of the response with an error for each partition."""
        errors = [
            self.partition(partition_index=each.partition_index, error_code=code)
            for each in partitions
        ]
        topic = self.topic(name=name, partitions=errors)
        if "topic_id" in self.topic.FIELDS:
            topic.topic_id = topic_id
        return topic


class Division:
    """The requested topics that exist, and the response for all others."""

    __slots__ = ("_by_id", "_errors", "_topics", "_types", "existing")

    def __init__(
        self, topics: TopicView, types: ResponseTypes, *, by_id: bool = False
    ) -> None:
        self._topics = topics
        self._types = types
        self._by_id = by_id
        self._errors: dict[tuple[TopicName, TopicId], Any] = {}
        self.existing: list[Existing] = []

    def take(self, requested: Any) -> None:
        """Divide the partitions of a topic into those that exist and those that do
        not."""
        name: TopicName | None = requested.name
        topic_id: TopicId | None = None
        if self._by_id:
            topic_id = requested.topic_id
            name = self._topics.topic_name(requested.topic_id)
        else:
            topic_id = self._topics.topic_id(requested.name)
        count = None if name is None else self._topics.partition_count(name)
        if name is None or topic_id is None or count is None:
            self.refuse(requested, _UNKNOWN_ID if self._by_id else _UNKNOWN)
            return
        partitions = requested.partitions
        unknown = [each for each in partitions if not 0 <= each.partition_index < count]
        if unknown:
            self._add(self._types.of(name, topic_id, unknown, _UNKNOWN), topic_id)
            partitions = [
                each for each in partitions if 0 <= each.partition_index < count
            ]
        if partitions:
            self.existing.append(Existing(name, topic_id, partitions))

    def refuse(self, requested: Any, code: ErrorCode) -> None:
        """Respond with an error for each partition of a topic, if it exists or not."""
        topic_id = requested.topic_id if self._by_id else ZERO_UUID
        refused = self._types.of(requested.name, topic_id, requested.partitions, code)
        self._add(refused, topic_id)

    def merge(self, others: Sequence[Any]) -> list[Any]:
        """Return all topics of the response, `others` being those of `existing`.

        As in the builders of Kafka's responses, errors come first. If there are any,
        each topic is there once.
        """
        if not self._errors:
            return [*others]
        for each in others:
            self._add(each, getattr(each, "topic_id", ZERO_UUID))
        return [*self._errors.values()]

    def refuse_all(self, code: ErrorCode) -> list[Any]:
        """Return all topics of the response, with an error for those that exist."""
        return self.merge(
            [self._types.of(*existing, code) for existing in self.existing]
        )

    def _add(self, topic: Any, topic_id: TopicId) -> None:
        key = topic.name, topic_id if self._by_id else ZERO_UUID
        present = self._errors.setdefault(key, topic)
        if present is not topic:
            present.partitions = [*present.partitions, *topic.partitions]
