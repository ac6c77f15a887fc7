"""Members of groups of KIP-848, and their description."""

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
    """ConsumerGroupHeartbeat, key 68: versions 0-1, flexible from 0.

    v0: joins, keeps alive, assigns and leaves (KIP-848).
    v1: subscription by regular expression; the member generates its id (KIP-1082).

    Tagged fields from `PRIVATE_TAG` on are those of KIP-848 for client-side assignors,
    which Kafka never shipped. Responses have them only for members that sent
    client assignors.
    """

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


class ConsumerGroupDescribeRequest(Message, key=69, versions="0-1", flexible="0+"):
    """ConsumerGroupDescribe, key 69: versions 0-1, flexible from 0.

    v0: consumer groups, with each member's current and target assignment (KIP-848).
    v1: member type: classic or consumer protocol (KIP-1099).
    """

    group_ids: list[str] = array("string")
    include_authorized_operations: bool = boolean()


class DescribedTopicPartitions(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array("int32")


class DescribedAssignment(Struct):
    topic_partitions: list[DescribedTopicPartitions] = array(DescribedTopicPartitions)


class DescribedMember(Struct):
    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string")
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: DescribedAssignment = struct(DescribedAssignment)
    target_assignment: DescribedAssignment = struct(DescribedAssignment)
    member_type: int = int8("1+", default=-1)


class DescribedConsumerGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[DescribedMember] = array(DescribedMember)
    authorized_operations: int = int32(default=-2147483648)


class ConsumerGroupDescribeResponse(Message, key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    groups: list[DescribedConsumerGroup] = array(DescribedConsumerGroup)


class ConsumerGroupPrepareAssignmentRequest(
    Message, key=16384, versions="0", flexible="0+"
):
    """ConsumerGroupPrepareAssignment, key 16384: version 0, flexible (KIP-848).

    The member that computes its group's assignment requests the input of its assignor: the
    members with subscriptions and assigned partitions, and the topics (KIP-848, Client Side
    Mode). Apache Kafka assigned no key to this API; this key is Coterie's own.
    """

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


class InstalledMember(Struct):
    member_id: str = string()
    partitions: list[TopicPartitions] = array(TopicPartitions)
    metadata_version: int = int16()
    metadata_bytes: bytes = binary()


class ConsumerGroupInstallAssignmentRequest(
    Message, key=16385, versions="0", flexible="0+"
):
    """ConsumerGroupInstallAssignment, key 16385: version 0, flexible (KIP-848).

    The member that computed its group's assignment sends it with the group epoch that it
    computed it for, or an error (KIP-848, Client Side Mode). Apache Kafka assigned no key
    to this API; this key is Coterie's own.
    """

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    group_epoch: int = int32()
    error: int = int8()
    members: list[InstalledMember] = array(InstalledMember)


class ConsumerGroupInstallAssignmentResponse(
    Message, key=16385, versions="0", flexible="0+"
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
