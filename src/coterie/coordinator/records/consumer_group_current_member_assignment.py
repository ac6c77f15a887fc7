"""Record type 8: the partitions a member of a consumer group owns, and its epoch."""

from __future__ import annotations

from coterie.wire.schema import Message, Struct, array, int8, int32, string, uuid


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
