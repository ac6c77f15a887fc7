"""Record type 7: the partitions a member of a consumer group shall own.

Error and metadata are the KIP's, which Kafka does not have (E13-42).
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
    string,
    uuid,
)


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
