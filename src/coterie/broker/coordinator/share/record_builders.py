"""Build the records of a share group (types 10 to 15) from its values.

The records equal those of Kafka's `GroupCoordinatorRecordHelpers`. `group_records`
writes a whole group, `group_tombstones` deletes one.
"""

from __future__ import annotations

from typing import Final

from coterie.broker.coordinator.consumer.member import Target
from coterie.broker.coordinator.records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareTopicInfo,
    ShareTopicPartitionsInfo,
    TargetTopicPartitions,
)
from coterie.broker.coordinator.result import Record
from coterie.broker.coordinator.share.group import (
    PartitionStates,
    ShareGroup,
    ShareMember,
    ShareTopics,
)
from coterie.types import GroupId, MemberId

_STABLE: Final = 0
"""The state of every member in record 14."""
_MEMBER_KEYS: Final = (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupMemberMetadataKey,
)


def member_record(group_id: GroupId, member: ShareMember) -> Record:
    """Return record 10: a member's metadata and subscription."""
    key = ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
    )
    return Record(key, value)


def epoch_record(group_id: GroupId, epoch: int, metadata_hash: int) -> Record:
    """Return record 11: the group epoch and the hash of the topics' metadata."""
    assert epoch > 0, "a share group has an epoch"
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Record(ShareGroupMetadataKey(group_id=group_id), value)


def target_epoch_record(group_id: GroupId, epoch: int, at_ms: int) -> Record:
    """Return record 12: the epoch and the time of the target assignment."""
    assert epoch > 0, "a target has an epoch"
    value = ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=at_ms
    )
    return Record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_record(group_id: GroupId, member_id: MemberId, target: Target) -> Record:
    """Return record 13: a member's target assignment."""
    key = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    value = ShareGroupTargetAssignmentMemberValue(topic_partitions=_partitions(target))
    return Record(key, value)


def current_record(group_id: GroupId, member: ShareMember) -> Record:
    """Return record 14: a member's epochs and current assignment."""
    key = ShareGroupCurrentMemberAssignmentKey(
        group_id=group_id, member_id=member.member_id
    )
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=_STABLE,
        assigned_partitions=_partitions(member.assigned),
    )
    return Record(key, value)


def _partitions(target: Target) -> list[TargetTopicPartitions]:
    return [
        TargetTopicPartitions(topic_id=topic, partitions=sorted(partitions))
        for topic, partitions in sorted(target.items())
    ]


def partitions_record(group_id: GroupId, partitions: PartitionStates) -> Record:
    """Return record 15: the partitions of the group by their state."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_topics(partitions.initializing),
        initialized_topics=_topics(partitions.initialized),
        deleting_topics=[
            ShareTopicInfo(topic_id=topic_id, topic_name=name)
            for topic_id, name in sorted(partitions.deleting.items())
        ],
    )
    return Record(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def _topics(topics: ShareTopics) -> list[ShareTopicPartitionsInfo]:
    return [
        ShareTopicPartitionsInfo(
            topic_id=topic_id,
            topic_name=topic.name,
            partitions=sorted(topic.partitions),
        )
        for topic_id, topic in sorted(topics.items())
    ]


def member_tombstones(group_id: GroupId, member_id: MemberId) -> list[Record]:
    """Return the tombstones of records 14, 13 and 10, in the order of replay."""
    return [
        Record(key(group_id=group_id, member_id=member_id), None)
        for key in _MEMBER_KEYS
    ]


def group_records(group: ShareGroup) -> list[Record]:
    """Return the records of the group's current state."""
    group_id = group.group_id
    members, epoch = group.members.values(), group.assignment_epoch
    records = [member_record(group_id, member) for member in members]
    records.append(epoch_record(group_id, group.epoch, group.metadata_hash))
    records += [target_record(group_id, *each) for each in group.targets.items()]
    if epoch > 0:
        records.append(target_epoch_record(group_id, epoch, group.assigned_ms))
    records += [current_record(group_id, member) for member in members]
    if group.partitions is not None:
        records.append(partitions_record(group_id, group.partitions))
    return records


def group_tombstones(group: ShareGroup) -> list[Record]:
    """Return the tombstones of a group without members, in Kafka's order."""
    group_id = group.group_id
    assert not group.members, f"{group_id} has members"
    return [
        Record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        Record(ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        Record(ShareGroupMetadataKey(group_id=group_id), None),
    ]
