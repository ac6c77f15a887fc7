"""ShareGroupDescribe, key 77: version 1, flexible.

v0: early access of Kafka 4.0, which no later release serves.
v1: share groups, with each member's assignment (KIP-932).
"""

from __future__ import annotations

from coterie.wire.schema import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    string,
    struct,
    uuid,
)


class ShareGroupDescribeRequest(Message, key=77, versions="1", flexible="0+"):
    group_ids: list[str] = array("string")
    include_authorized_operations: bool = boolean()


class ShareTopicPartitions(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array("int32")


class ShareAssignment(Struct):
    topic_partitions: list[ShareTopicPartitions] = array(ShareTopicPartitions)


class ShareMember(Struct):
    member_id: str = string()
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string")
    assignment: ShareAssignment = struct(ShareAssignment)


class DescribedShareGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[ShareMember] = array(ShareMember)
    authorized_operations: int = int32(default=-2147483648)


class ShareGroupDescribeResponse(Message, key=77, versions="1", flexible="0+"):
    throttle_time_ms: int = int32()
    groups: list[DescribedShareGroup] = array(DescribedShareGroup)
