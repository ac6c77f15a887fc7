"""ConsumerGroupHeartbeat, key 68: versions 0-1, flexible from 0.

v0: joins, keeps alive, assigns and leaves (KIP-848).
v1: subscription by regular expression; the member generates its id (KIP-1082).

Tagged fields from `PRIVATE_TAG` on are those of KIP-848 for client-side assignors,
which Kafka never shipped (E7.1, E7.2). Responses have them only for members that sent
client assignors.
"""

from __future__ import annotations

from coterie.wire.schema import (
    PRIVATE_TAG,
    Message,
    Struct,
    array,
    binary,
    boolean,
    int8,
    int16,
    int32,
    string,
    struct,
    uuid,
)


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


class ClientAssignor(Struct):
    name: str = string()
    minimum_version: int = int16()
    maximum_version: int = int16()
    reason: int = int8()
    metadata_version: int = int16()
    metadata_bytes: bytes = binary()


class ConsumerGroupHeartbeatRequest(Message, key=68, versions="0-1", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(
        "string", nullable="0+", default=None
    )
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(
        TopicPartitions, nullable="0+", default=None
    )
    client_assignors: list[ClientAssignor] | None = array(
        ClientAssignor, nullable="0+", default=None, tag=PRIVATE_TAG, tagged="0+"
    )


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)
    error: int = int8(tag=PRIVATE_TAG, tagged="0+")
    metadata_version: int = int16(tag=PRIVATE_TAG + 1, tagged="0+")
    metadata_bytes: bytes = binary(tag=PRIVATE_TAG + 2, tagged="0+")


class ConsumerGroupHeartbeatResponse(Message, key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable="0+", default=None)
    should_compute_assignment: bool = boolean(tag=PRIVATE_TAG, tagged="0+")
