"""ConsumerGroupPrepareAssignment, key 16384: version 0, flexible (KIP-848).

The member that computes its group's assignment requests the input of its assignor: the
members with subscriptions and assigned partitions, and the topics (KIP-848, Client Side
Mode). Apache Kafka assigned no key to this API; this key is Coterie's own (E13-40).
"""

from __future__ import annotations

from coterie.wire.messages.consumer_group_heartbeat import TopicPartitions
from coterie.wire.schema import (
    Message,
    Struct,
    array,
    binary,
    int8,
    int16,
    int32,
    string,
    struct,
    uuid,
)


class ConsumerGroupPrepareAssignmentRequest(
    Message, key=16384, versions="0", flexible="0+"
):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()


class MemberAssignor(Struct):
    reason: int = int8()
    metadata_version: int = int16()
    metadata_bytes: bytes = binary()


class PreparedMember(Struct):
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_ids: list[bytes] = array("uuid")
    assignor: MemberAssignor = struct(MemberAssignor)
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class PreparedTopic(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()


class ConsumerGroupPrepareAssignmentResponse(
    Message, key=16384, versions="0", flexible="0+"
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_epoch: int = int32()
    assignor_name: str = string()
    members: list[PreparedMember] = array(PreparedMember)
    topics: list[PreparedTopic] = array(PreparedTopic)
