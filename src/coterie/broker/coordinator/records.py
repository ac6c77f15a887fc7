"""The record types of `__consumer_offsets`: the schemas of their keys and values.

`record_serde` encodes and decodes them. Field names and versions are those of Kafka's
`group-coordinator/src/main/resources/common/message/*.json`; the comment above each
group of classes gives the record type, which is the "version" in the key's bytes.
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
    int64,
    string,
    struct,
    uuid,
)

# Types 0 and 1: a committed offset. Type 0 (LEGACY_OFFSET_COMMIT) is written by old
# brokers.


class OffsetCommitKey(Message, versions="0"):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1)
    topic_id: bytes = uuid("4+", tag=0, tagged="4+")


# Type 2: a classic group with its members.


class GroupMetadataKey(Message, versions="0"):
    group: str = string()


class MemberMetadata(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32()
    subscription: bytes = binary()
    assignment: bytes = binary()


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)


# Type 3: the group epoch of a consumer group.


class ConsumerGroupMetadataKey(Message, versions="0"):
    group_id: str = string()


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64(tag=0, tagged="0+")
    creation_time_ms: int = int64(default=-1, tag=1, tagged="0+")
    """Written by Kafka's trunk after 4.4. We decode it and do not write it."""


# Type 4: the topics a consumer group subscribes to. Since Kafka 4.1 only
# tombstones are written; the hash in type 3 replaced it (KIP-1101).


class ConsumerGroupPartitionMetadataKey(Message, versions="0"):
    group_id: str = string()


class PartitionMetadata(Struct):
    partition: int = int32()
    racks: list[str] = array("string")


class TopicMetadata(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


class ConsumerGroupPartitionMetadataValue(Message, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = array(TopicMetadata)


# Type 5: a member of a consumer group and its subscription. The field `assignors` holds
# KIP-848's client-side assignors, which Kafka's schema lacks.


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


# Type 6: the group epoch that the target assignment was computed for.


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions="0"):
    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, tagged="0+")


# Type 7: the target assignment of one member. The fields `error` and `metadata_*`
# belong to KIP-848's client-side assignors, which Kafka's schema lacks.


class ConsumerGroupTargetAssignmentMemberKey(Message, versions="0"):
    group_id: str = string()
    member_id: str = string()


class TargetTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[TargetTopicPartitions] = array(TargetTopicPartitions)
    error: int = int8(tag=PRIVATE_TAG, tagged="0+")
    metadata_version: int = int16(tag=PRIVATE_TAG + 1, tagged="0+")
    metadata_bytes: bytes = binary(tag=PRIVATE_TAG + 2, tagged="0+")


# Type 8: the member epoch and the assigned partitions of one member.


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions="0"):
    group_id: str = string()
    member_id: str = string()


class CurrentTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")
    assignment_epochs: list[int] | None = array(
        "int32", nullable="0+", default=None, tag=0, tagged="0+"
    )


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[CurrentTopicPartitions] = array(CurrentTopicPartitions)
    partitions_pending_revocation: list[CurrentTopicPartitions] = array(
        CurrentTopicPartitions
    )


# Type 10: a member of a share group and its subscription (KIP-932).


class ShareGroupMemberMetadataKey(Message, versions="0"):
    group_id: str = string()
    member_id: str = string()


class ShareGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string")


# Type 11: the group epoch of a share group.


class ShareGroupMetadataKey(Message, versions="0"):
    group_id: str = string()


class ShareGroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64()


# Type 12: the group epoch that the target assignment was computed for.


class ShareGroupTargetAssignmentMetadataKey(Message, versions="0"):
    group_id: str = string()


class ShareGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, tagged="0+")


# Type 13: the target assignment of one member of a share group.


class ShareGroupTargetAssignmentMemberKey(Message, versions="0"):
    group_id: str = string()
    member_id: str = string()


class ShareGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[TargetTopicPartitions] = array(TargetTopicPartitions)


# Type 14: the member epoch and the assigned partitions of one member of a share group.


class ShareGroupCurrentMemberAssignmentKey(Message, versions="0"):
    group_id: str = string()
    member_id: str = string()


class ShareGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TargetTopicPartitions] = array(TargetTopicPartitions)


# Type 15: the partitions of a share group whose state is initialized, is being
# initialized, or is being deleted.


class ShareGroupStatePartitionMetadataKey(Message, versions="0"):
    group_id: str = string()


class ShareTopicPartitionsInfo(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array("int32")


class ShareTopicInfo(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()


class ShareGroupStatePartitionMetadataValue(Message, versions="0", flexible="0+"):
    initializing_topics: list[ShareTopicPartitionsInfo] = array(
        ShareTopicPartitionsInfo
    )
    initialized_topics: list[ShareTopicPartitionsInfo] = array(ShareTopicPartitionsInfo)
    deleting_topics: list[ShareTopicInfo] = array(ShareTopicInfo)


# Type 16: the topics that match a regular expression of the group.


class ConsumerGroupRegularExpressionKey(Message, versions="0"):
    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    topics: list[str] = array("string")
    version: int = int64()
    timestamp: int = int64()
