"""Encode and decode the consumer protocol inside JoinGroup and SyncGroup, versions 0-3.

The bytes start with an int16 version. A newer version starts with the fields of the
newest supported one, so it is decoded as that one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from coterie.broker.coordinator.consumer.member import Target
from coterie.broker.coordinator.result import TopicView
from coterie.errors import MalformedFrame
from coterie.types import TopicId
from coterie.wire import messages as m
from coterie.wire.codec import EMBEDDED_ELEMENTS_MAX, decode, encode
from coterie.wire.schema import Message

_VERSION: Final = struct.Struct(">h")
_Message = TypeVar("_Message", bound=Message)


def version_of(data: bytes) -> int:
    """Return the version of a member's bytes, at most the newest supported one.

    Raises:
        MalformedFrame: The version is missing or negative.
    """
    if len(data) < _VERSION.size:
        raise MalformedFrame(f"no version in {len(data)} bytes of embedded protocol")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise MalformedFrame(f"version {version} of the embedded protocol")
    return min(version, m.ConsumerProtocolSubscription.VERSIONS.high)


def read_subscription(data: bytes) -> m.ConsumerProtocolSubscription:
    """Decode a subscription: topics, and the partitions owned at the time.

    Raises:
        MalformedFrame: The bytes are not a subscription.
    """
    return _read(m.ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> m.ConsumerProtocolAssignment:
    """Decode an assignment that a leader sent for a member.

    Raises:
        MalformedFrame: The bytes are not an assignment.
    """
    return _read(m.ConsumerProtocolAssignment, data)


def _read(kind: type[_Message], data: bytes) -> _Message:
    version = version_of(data)
    value, end = decode(kind, version, data, _VERSION.size, EMBEDDED_ELEMENTS_MAX)
    assert end <= len(data)
    return value


def write_assignment(
    partitions: Mapping[TopicId, Iterable[int]], topics: TopicView, version: int
) -> bytes:
    """Encode an assignment; partitions of deleted topics are left out."""
    named = {
        name: sorted(some)
        for topic_id, some in partitions.items()
        if (name := topics.topic_name(topic_id)) is not None
    }
    value = m.ConsumerProtocolAssignment(
        assigned_partitions=[
            m.ConsumerProtocolTopicPartitions(topic=name, partitions=some)
            for name, some in sorted(named.items())
        ]
    )
    return _VERSION.pack(version) + encode(value, version)


def known_partitions(
    named: Iterable[m.ConsumerProtocolTopicPartitions], topics: TopicView
) -> Target:
    """Return partitions by topic id; those that do not exist are dropped."""
    known: dict[TopicId, frozenset[int]] = {}
    for each in named:
        topic_id = topics.topic_id(each.topic)
        count = topics.partition_count(each.topic) or 0
        some = frozenset(p for p in each.partitions if 0 <= p < count)
        if topic_id is not None and some:
            known[topic_id] = known.get(topic_id, frozenset()) | some
    return known
