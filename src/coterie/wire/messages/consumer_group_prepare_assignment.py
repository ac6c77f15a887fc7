"""ConsumerGroupPrepareAssignment, key 16384: version 0. Not Kafka's, but KIP-848's.

The member that is to compute its group's assignment asks for what it needs: the members
with what they want and have, and the topics (KIP-848, Client Side Mode). Kafka never
gave the API a number, so this key is one of ours (E13-40).
"""

from __future__ import annotations

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


class MemberPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


class PreparedMember(Struct):
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_ids: list[bytes] = array("uuid")
    assignor: MemberAssignor = struct(MemberAssignor)
    topic_partitions: list[MemberPartitions] = array(MemberPartitions)


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
