"""The metadata that classic members exchange: subscriptions, and the leader's
assignments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coterie.types import MemberId, TopicName
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from sim.topics import Topics

Named = tuple[TopicName, int]
EAGER = "range"
COOPERATIVE = "cooperative-sticky"
_VERSION = 3


class Subscription(NamedTuple):
    """The subscription of a member in a join."""

    topics: tuple[TopicName, ...]
    owned: frozenset[Named]
    generation: int


def write_subscription(given: Subscription) -> bytes:
    """Encode a subscription."""
    value = m.ConsumerProtocolSubscription(
        topics=list(given.topics),
        owned_partitions=_listed(given.owned),
        generation_id=given.generation,
    )
    return _VERSION.to_bytes(2) + encode(value, _VERSION)


def read_subscription(data: bytes) -> Subscription:
    """Decode a subscription."""
    version = int.from_bytes(data[:2])
    value, _ = decode(m.ConsumerProtocolSubscription, version, data, 2)
    owned = frozenset(_named(value.owned_partitions))
    return Subscription(tuple(value.topics), owned, value.generation_id)


def write_assignment(parts: Iterable[Named]) -> bytes:
    """Encode an assignment."""
    value = m.ConsumerProtocolAssignment(assigned_partitions=_listed(parts))
    return _VERSION.to_bytes(2) + encode(value, _VERSION)


def read_assignment(data: bytes) -> frozenset[Named]:
    """Decode an assignment; empty bytes are an empty assignment."""
    if not data:
        return frozenset()
    version = int.from_bytes(data[:2])
    value, _ = decode(m.ConsumerProtocolAssignment, version, data, 2)
    return frozenset(_named(value.assigned_partitions))


def assign(
    members: Mapping[MemberId, Subscription], topics: Topics, *, cooperative: bool
) -> dict[MemberId, set[Named]]:
    """Assign partitions as the leader: balanced, and sticky if cooperative. A
    cooperative leader does not assign partitions that another member still owns
    (KIP-429).
    """
    owners = _owners(members)
    given: dict[MemberId, set[Named]] = {member_id: set() for member_id in members}
    names = sorted({name for each in members.values() for name in each.topics})
    for name in names:
        for partition in range(topics.partition_count(name) or 0):
            part = (name, partition)
            able = [each for each in sorted(members) if name in members[each].topics]
            owner = owners.get(part)
            fewest = min(len(given[member_id]) for member_id in able)
            keeps = cooperative and owner in able and len(given[owner]) <= fewest
            to = (
                owner
                if keeps
                else min(able, key=lambda able_id: (len(given[able_id]), able_id))
            )
            assert to is not None
            given[to].add(part)
    if cooperative:
        for member_id, parts in given.items():
            parts -= {p for p in parts if owners.get(p, member_id) != member_id}
    return given


def _owners(members: Mapping[MemberId, Subscription]) -> dict[Named, MemberId]:
    """Return the owner of each partition. If two members claim it, the owner is the one
    with the later generation.
    """
    owners: dict[Named, MemberId] = {}
    for member_id in sorted(members, key=lambda each: (members[each].generation, each)):
        owners.update(dict.fromkeys(members[member_id].owned, member_id))
    return owners


def _listed(parts: Iterable[Named]) -> list[m.ConsumerProtocolTopicPartitions]:
    by_topic: dict[TopicName, list[int]] = {}
    for name, partition in sorted(parts):
        by_topic.setdefault(name, []).append(partition)
    return [
        m.ConsumerProtocolTopicPartitions(topic=name, partitions=partitions)
        for name, partitions in by_topic.items()
    ]


def _named(listed: Iterable[m.ConsumerProtocolTopicPartitions]) -> list[Named]:
    return [
        (topic.topic, partition) for topic in listed for partition in topic.partitions
    ]
