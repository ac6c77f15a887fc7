"""What classic members say to each other inside JoinGroup and SyncGroup, read and
written by the coordinator (E20): the consumer protocol, versions 0-3.

Two bytes of version come first. A version that is newer than those we know begins like
the newest that we do, so it is read as that one (E20-21).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from coterie.coordinator.consumer.member import Target
from coterie.coordinator.result import TopicView
from coterie.errors import MalformedFrame
from coterie.types import TopicId
from coterie.wire.codec import decode, encode
from coterie.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from coterie.wire.schema import Message

_VERSION: Final = struct.Struct(">h")
_Spoken = TypeVar("_Spoken", bound=Message)


def version_of(data: bytes) -> int:
    """The version in which a member speaks, as far as we do, too.

    Raises:
        MalformedFrame: There is none, or it is negative.
    """
    if len(data) < _VERSION.size:
        raise MalformedFrame(f"no version in {len(data)} bytes of embedded protocol")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise MalformedFrame(f"version {version} of the embedded protocol")
    return min(version, ConsumerProtocolSubscription.VERSIONS.high)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """What a member joined with: its topics, and what it owned then.

    Raises:
        MalformedFrame: These are not such bytes.
    """
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """What the leader of a generation gave a member.

    Raises:
        MalformedFrame: These are not such bytes.
    """
    return _read(ConsumerProtocolAssignment, data)


def _read(kind: type[_Spoken], data: bytes) -> _Spoken:
    value, end = decode(kind, version_of(data), data, _VERSION.size)
    assert end <= len(data)
    return value


def write_assignment(
    partitions: Mapping[TopicId, Iterable[int]], topics: TopicView, version: int
) -> bytes:
    """Partitions as a classic member is told them; those of topics that are gone are
    left out (E20-26)."""
    named = {
        name: sorted(some)
        for topic_id, some in partitions.items()
        if (name := topics.topic_name(topic_id)) is not None
    }
    value = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartitions(topic=name, partitions=some)
            for name, some in sorted(named.items())
        ]
    )
    return _VERSION.pack(version) + encode(value, version)


def known_partitions(named: Iterable[TopicPartitions], topics: TopicView) -> Target:
    """Partitions by their topics' ids; those that do not exist are dropped (E20-16)."""
    known: dict[TopicId, frozenset[int]] = {}
    for each in named:
        topic_id = topics.topic_id(each.topic)
        count = topics.partition_count(each.topic) or 0
        some = frozenset(p for p in each.partitions if 0 <= p < count)
        if topic_id is not None and some:
            known[topic_id] = known.get(topic_id, frozenset()) | some
    return known
