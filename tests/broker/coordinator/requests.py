"""Requests to one group: heartbeats, offsets, descriptions.

A driver of a shard and a connection to a broker send them in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from coterie.broker.coordinator.admin import DeleteGroup, DescribeGroup
from coterie.broker.coordinator.offsets.fetch import FetchOffsets
from coterie.types import TopicId
from coterie.wire import messages as m
from tests.broker.coordinator.driver import Sent, fetched_group

Wanted = Mapping[str, Sequence[int]]
"""The requested partitions by topic."""
Named = Mapping[tuple[str, int], Any]
"""The committed offset, or the fields of the request, by topic and partition."""
Owned = Mapping[str, Collection[int]]


class GroupRequests:
    """Requests to the group `group_id`; a subclass sends them."""

    group_id: str

    def send(self, request: Any, *, version: int | None = None) -> Sent:
        """Send a request, by default in its newest version."""
        raise NotImplementedError

    def heartbeat(
        self,
        member_id: str = "m",
        epoch: int = 0,
        *,
        owned: Owned | None = None,
        version: int = 1,
        **fields: Any,
    ) -> Sent:
        """Send a heartbeat; omitted fields are null."""
        fields.setdefault("group_id", self.group_id)
        topics = None
        if owned is not None:
            topics = [
                m.TopicPartitions(topic_id=topic_id(name), partitions=list(some))
                for name, some in owned.items()
            ]
        fields.setdefault("topic_partitions", topics)
        request = m.ConsumerGroupHeartbeatRequest(
            member_id=member_id, member_epoch=epoch, **fields
        )
        return self.send(request, version=version)

    def commit(
        self, offsets: Named, *, version: int = 9, **fields: Any
    ) -> dict[tuple[str, int], int]:
        """Commit to group "g"; return the error code of each partition."""
        topics = [
            m.OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id(topic),
                partitions=[
                    m.OffsetCommitRequestPartition(
                        partition_index=partition,
                        **{"committed_metadata": "", **values},
                    )
                    for partition, values in partitions.items()
                ],
            )
            for topic, partitions in by_topic(offsets).items()
        ]
        request = m.OffsetCommitRequest(**{"group_id": "g", "topics": topics, **fields})
        return codes(self.send(request, version=version))

    def txn_commit(
        self, offsets: Named, *, version: int = 5, **fields: Any
    ) -> dict[tuple[str, int], int]:
        """Commit to "g" in the transaction of producer 7; return the error codes."""
        topics = [
            m.TxnOffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id(topic),
                partitions=[
                    m.TxnOffsetCommitRequestPartition(
                        partition_index=partition,
                        **{"committed_metadata": "", **values},
                    )
                    for partition, values in partitions.items()
                ],
            )
            for topic, partitions in by_topic(offsets).items()
        ]
        values = {"group_id": "g", "transactional_id": "tx", "producer_id": 7, **fields}
        request = m.TxnOffsetCommitRequest(**{**values, "topics": topics})
        return codes(self.send(request, version=version))

    def fetch(
        self,
        wanted: Wanted | list[m.OffsetFetchRequestTopics] | None,
        *,
        stable: bool = False,
        version: int = 9,
        **fields: Any,
    ) -> Any:
        """Return the response for group "g" or `group_id`; None fetches all offsets."""
        topics = wanted
        if isinstance(wanted, Mapping):
            topics = [
                m.OffsetFetchRequestTopics(
                    name=topic if version < 10 else "",
                    topic_id=topic_id(topic) if version >= 10 else bytes(16),
                    partition_indexes=[*partitions],
                )
                for topic, partitions in wanted.items()
            ]
        group = m.OffsetFetchRequestGroup(
            **{"group_id": "g", "topics": topics, **fields}
        )
        sent = self.send(FetchOffsets(group, stable), version=version)
        return fetched_group(sent.response, version)

    def offsets(self, wanted: Wanted | None = None, **options: Any) -> dict[Any, int]:
        """Return the fetched offset of each partition, or minus its error code."""
        return {
            (topic.name, each.partition_index): -each.error_code
            or each.committed_offset
            for topic in self.fetch(wanted, **options).topics
            for each in topic.partitions
        }

    def delete_offsets(self, wanted: Wanted, group_id: str = "g") -> Sent:
        """Send an OffsetDelete."""
        topics = [
            m.OffsetDeleteRequestTopic(
                name=topic,
                partitions=[
                    m.OffsetDeleteRequestPartition(partition_index=partition)
                    for partition in partitions
                ],
            )
            for topic, partitions in wanted.items()
        ]
        return self.send(m.OffsetDeleteRequest(group_id=group_id, topics=topics))

    def delete_group(self, group_id: str = "g", version: int = 3) -> Sent:
        """Delete one group."""
        return self.send(DeleteGroup(group_id), version=version)

    def describe(
        self, group_id: str = "g", version: int = 6, with_private_fields: bool = True
    ) -> Any:
        """Describe one group."""
        request = DescribeGroup(group_id, with_private_fields)
        return self.send(request, version=version).response


def topic_id(topic: str) -> TopicId:
    """Return the id that `Topics` gives to a topic of this name."""
    return topic.encode().ljust(16, b"\0")


def by_topic(offsets: Named) -> dict[str, dict[int, dict[str, Any]]]:
    """Group offsets, or fields of the request, by topic and then by partition."""
    topics: dict[str, dict[int, dict[str, Any]]] = {}
    for (topic, partition), value in offsets.items():
        fields = value if isinstance(value, dict) else {"committed_offset": value}
        topics.setdefault(topic, {})[partition] = fields
    return topics


def codes(sent: Sent) -> dict[tuple[str, int], int]:
    """Return the error code of each partition of a response."""
    return {
        (_name_of(topic), partition.partition_index): int(partition.error_code)
        for topic in sent.response.topics
        for partition in topic.partitions
    }


def _name_of(topic: Any) -> str:
    name: str = topic.name or topic.topic_id.rstrip(b"\0").decode()
    return name
