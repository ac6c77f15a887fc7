"""Client-side assignors: a member computes the assignment of its whole group (E13).

    def all_to_one(members, topics):
        numbered = [(topic, n) for topic, count in topics.items() for n in range(count)]
        return {min(members): [TopicPartition(*each) for each in numbered]}

    GroupMember(..., assignors=[ClientAssignor("all-to-one", all_to_one)])

KIP-848 has them and Apache Kafka never shipped them: they need Coterie, with
`group.consumer.client.assignors.enable`. The coordinator picks one member at a time to
compute. Rules of this file: values and their translation, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from coterie.types import MemberId, TopicId, TopicName, TopicPartition
from coterie.wire.messages import consumer_group_heartbeat as heartbeat
from coterie.wire.messages.consumer_group_install_assignment import (
    InstalledMember,
    InstalledPartitions,
)
from coterie.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentResponse,
    PreparedMember,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorMember:
    """A member as its assignor sees it. `target` is what the group meant it to have so
    far; `metadata` is what its own `ClientAssignor` says, in its `version`."""

    instance_id: str | None
    rack_id: str | None
    topics: frozenset[TopicName]
    target: frozenset[TopicPartition]
    version: int
    metadata: bytes


AssignmentOf: TypeAlias = Mapping[MemberId, Iterable[TopicPartition]]
AssignorFunction: TypeAlias = Callable[
    [Mapping[MemberId, AssignorMember], Mapping[TopicName, int]], AssignmentOf
]
"""From members by id, and partition counts by topic, to partitions by member. Whoever
is left out gets nothing. It runs in the event loop: it should be quick."""


@dataclass(frozen=True, slots=True)
class ClientAssignor:
    """An assignor that a member offers to run. A group uses it only when one version of
    metadata can be read by all its members (E13-13)."""

    name: str
    assign: AssignorFunction
    metadata: bytes = b""
    minimum_version: int = 0
    maximum_version: int = 0
    version: int = 0


def declared(assignors: Sequence[ClientAssignor]) -> list[heartbeat.ClientAssignor]:
    """Assignors as a heartbeat declares them."""
    return [
        heartbeat.ClientAssignor(
            name=each.name,
            minimum_version=each.minimum_version,
            maximum_version=each.maximum_version,
            metadata_version=each.version,
            metadata_bytes=each.metadata,
        )
        for each in assignors
    ]


def computed(
    assignor: ClientAssignor, prepared: ConsumerGroupPrepareAssignmentResponse
) -> list[InstalledMember]:
    """What the assignor makes of the group, to be installed.

    Raises what the function raises, and ValueError when it gives a topic that it was
    not given. The coordinator checks the rest (E13-30 to E13-35).
    """
    names = {topic.topic_id: topic.topic_name for topic in prepared.topics}
    ids = {name: topic_id for topic_id, name in names.items()}
    members = {each.member_id: _seen(each, names) for each in prepared.members}
    counts = {topic.topic_name: topic.num_partitions for topic in prepared.topics}
    return [
        InstalledMember(member_id=member_id, partitions=_by_id(partitions, ids))
        for member_id, partitions in assignor.assign(members, counts).items()
    ]


def _seen(member: PreparedMember, names: Mapping[TopicId, TopicName]) -> AssignorMember:
    return AssignorMember(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        topics=frozenset(
            names[topic_id]
            for topic_id in member.subscribed_topic_ids
            if topic_id in names
        ),
        target=frozenset(
            TopicPartition(names[topic.topic_id], number)
            for topic in member.topic_partitions
            if topic.topic_id in names
            for number in topic.partitions
        ),
        version=member.assignor.metadata_version,
        metadata=member.assignor.metadata_bytes,
    )


def _by_id(
    partitions: Iterable[TopicPartition], ids: Mapping[TopicName, TopicId]
) -> list[InstalledPartitions]:
    topics: dict[TopicId, list[int]] = {}
    for name, number in sorted(partitions):
        if name not in ids:
            raise ValueError(
                f"the assignor gave topic {name!r}, which it was not given"
            )
        topics.setdefault(ids[name], []).append(number)
    return [
        InstalledPartitions(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in topics.items()
    ]
