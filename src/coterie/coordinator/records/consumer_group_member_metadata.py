"""Record type 5: a member of a consumer group, as it described itself.

The assignors are the KIP's, which Kafka does not have (E13-42).
"""

from __future__ import annotations

from coterie.wire.schema import (
    PRIVATE_TAG,
    Message,
    Struct,
    array,
    binary,
    int8,
    int16,
    int32,
    string,
    struct,
)


class ConsumerGroupMemberMetadataKey(Message, versions="0"):
    group_id: str = string()
    member_id: str = string()


class ClassicProtocol(Struct):
    name: str = string()
    metadata: bytes = binary()


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class Assignor(Struct):
    name: str = string()
    minimum_version: int = int16()
    maximum_version: int = int16()
    reason: int = int8()
    version: int = int16()
    metadata: bytes = binary()


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string")
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable="0+", default=None, tag=0, tagged="0+"
    )
    assignors: list[Assignor] = array(Assignor, tag=PRIVATE_TAG, tagged="0+")
