"""What members of classic groups of protocol type "consumer" wrote into subscription
and assignment. None for bytes that do not read: they are the members' own, and the
coordinator never looked at them."""

from __future__ import annotations

import struct
from typing import Any, Final, TypeVar

from coterie.errors import MalformedFrame
from coterie.wire.codec import decode
from coterie.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from coterie.wire.schema import Message

CONSUMER: Final = "consumer"
_VERSION: Final = struct.Struct(">h")
_Spoken = TypeVar("_Spoken", bound=Message)


def subscribed_topics(data: bytes) -> list[str] | None:
    """The topics of a subscription."""
    found = read(ConsumerProtocolSubscription, data)
    return None if found is None else list(found[0].topics)


def assigned_partitions(data: bytes) -> list[dict[str, Any]] | None:
    """The partitions of an assignment; no bytes are none, as Kafka's tools take it."""
    if not data:
        return []
    found = read(ConsumerProtocolAssignment, data)
    if found is None:
        return None
    return [
        {"topic_id": None, "topic": each.topic, "partition": partition}
        for each in found[0].assigned_partitions
        for partition in each.partitions
    ]


def read(kind: type[_Spoken], data: bytes) -> tuple[_Spoken, int] | None:
    """What the bytes say, if anything, and in which version.

    A version that is newer than those we know begins like the newest of them, so it
    is read as that one (E20-21)."""
    if len(data) < _VERSION.size:
        return None
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        return None
    try:
        version = min(version, kind.VERSIONS.high)
        return decode(kind, version, data, _VERSION.size)[0], version
    except MalformedFrame:
        return None
