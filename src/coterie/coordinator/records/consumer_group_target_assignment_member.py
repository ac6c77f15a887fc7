"""Record type 7: the partitions a member of a consumer group shall own."""

from __future__ import annotations

from coterie.wire.schema import Message, Struct, array, string, uuid


class ConsumerGroupTargetAssignmentMemberKey(Message, versions="0"):
    group_id: str = string()
    member_id: str = string()


class TargetTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[TargetTopicPartitions] = array(TargetTopicPartitions)
