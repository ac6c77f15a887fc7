"""Share groups (KIP-932): membership, description and offsets."""

from __future__ import annotations

from coterie.wire.schema import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    struct,
    uuid,
)


class ShareGroupHeartbeatRequest(Message, key=76, versions="1", flexible="0+"):
    """ShareGroupHeartbeat, key 76: version 1, flexible.

    v0: early access of Kafka 4.0, which no later release serves.
    v1: a member joins, subscribes, receives its assignment and leaves (KIP-932).
    """

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(
        "string", nullable="0+", default=None
    )


class ShareHeartbeatTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


class ShareHeartbeatAssignment(Struct):
    topic_partitions: list[ShareHeartbeatTopicPartitions] = array(
        ShareHeartbeatTopicPartitions
    )


class ShareGroupHeartbeatResponse(Message, key=76, versions="1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ShareHeartbeatAssignment | None = struct(
        ShareHeartbeatAssignment, nullable="0+", default=None
    )


class ShareGroupDescribeRequest(Message, key=77, versions="1", flexible="0+"):
    """ShareGroupDescribe, key 77: version 1, flexible.

    v0: early access of Kafka 4.0, which no later release serves.
    v1: share groups, with each member's assignment (KIP-932).
    """

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


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = string()
    partitions: list[int] = array("int32")


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(
        DescribeShareGroupOffsetsRequestTopic, nullable="0+"
    )


class DescribeShareGroupOffsetsRequest(Message, key=90, versions="0-1", flexible="0+"):
    """DescribeShareGroupOffsets, key 90: versions 0-1, flexible.

    v0: start offsets of share groups (KIP-932).
    v1: lag (KIP-1226).
    """

    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(
        DescribeShareGroupOffsetsRequestGroup
    )


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = int32()
    start_offset: int = int64()
    leader_epoch: int = int32()
    lag: int = int64("1+", default=-1)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(
        DescribeShareGroupOffsetsResponsePartition
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array(
        DescribeShareGroupOffsetsResponseTopic
    )
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(Message, key=90, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(
        DescribeShareGroupOffsetsResponseGroup
    )


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = int32()
    start_offset: int = int64()


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = string()
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array(
        AlterShareGroupOffsetsRequestPartition
    )


class AlterShareGroupOffsetsRequest(Message, key=91, versions="0", flexible="0+"):
    """AlterShareGroupOffsets, key 91: version 0, flexible.

    v0: new start offsets of a share group without members (KIP-932).
    """

    group_id: str = string()
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(
        AlterShareGroupOffsetsRequestTopic
    )


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array(
        AlterShareGroupOffsetsResponsePartition
    )


class AlterShareGroupOffsetsResponse(Message, key=91, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(
        AlterShareGroupOffsetsResponseTopic
    )


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = string()


class DeleteShareGroupOffsetsRequest(Message, key=92, versions="0", flexible="0+"):
    """DeleteShareGroupOffsets, key 92: version 0, flexible.

    v0: deletion of the offsets of whole topics from a share group without members
    (KIP-932).
    """

    group_id: str = string()
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(
        DeleteShareGroupOffsetsRequestTopic
    )


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(Message, key=92, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(
        DeleteShareGroupOffsetsResponseTopic
    )
