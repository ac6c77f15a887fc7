"""Build the records of a consumer group (types 3 to 8 and 16) from its values.

The records equal those of Kafka's `GroupCoordinatorRecordHelpers`. `group_records`
writes a whole group, `group_tombstones` deletes one. The handler of a request decides
their order.
"""

from __future__ import annotations

from typing import Final

from coterie.broker.coordinator.client_side.values import (
    NO_DETAIL,
    TargetDetail,
)
from coterie.broker.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from coterie.broker.coordinator.consumer.member import (
    AssignedPartitions,
    Member,
    Target,
)
from coterie.broker.coordinator.records import (
    Assignor,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
)
from coterie.broker.coordinator.result import Record
from coterie.types import GroupId, MemberId


def member_record(group_id: GroupId, member: Member) -> Record:
    """Return record 5: a member's metadata and subscription."""
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=_classic(member),
        assignors=[
            Assignor(
                name=each.name,
                minimum_version=each.minimum,
                maximum_version=each.maximum,
                reason=each.reason,
                version=each.version,
                metadata=each.metadata,
            )
            for each in member.client_assignors
        ],
    )
    return Record(key, value)


def _classic(member: Member) -> ClassicMemberMetadata | None:
    if member.classic is None:
        return None
    return ClassicMemberMetadata(
        session_timeout_ms=member.classic.session_timeout_ms,
        supported_protocols=[
            ClassicProtocol(name=name, metadata=metadata)
            for name, metadata in member.classic.protocols
        ],
    )


def epoch_record(group_id: GroupId, epoch: int, metadata_hash: int) -> Record:
    """Return record 3: the group epoch and the hash of the topics' metadata."""
    assert epoch >= 0, "a group that is written has an epoch"
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Record(ConsumerGroupMetadataKey(group_id=group_id), value)


def regex_record(group_id: GroupId, regex: str, resolved: ResolvedRegex) -> Record:
    """Return record 16: the topics that match a regular expression."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    value = ConsumerGroupRegularExpressionValue(
        topics=list(resolved.topics),
        version=resolved.version,
        timestamp=resolved.timestamp_ms,
    )
    return Record(key, value)


def target_record(
    group_id: GroupId,
    member_id: MemberId,
    target: Target,
    detail: TargetDetail = NO_DETAIL,
) -> Record:
    """Return record 7: a member's target assignment."""
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartitions(topic_id=topic, partitions=sorted(partitions))
            for topic, partitions in sorted(target.items())
        ],
        error=detail.error,
        metadata_version=detail.version,
        metadata_bytes=detail.metadata,
    )
    return Record(key, value)


def target_epoch_record(group_id: GroupId, epoch: int, at_ms: int) -> Record:
    """Return record 6: the epoch and the time of the target assignment."""
    assert epoch > 0, "a target has an epoch"
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=at_ms
    )
    return Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_record(group_id: GroupId, member: Member) -> Record:
    """Return record 8: a member's epochs and current assignment."""
    key = ConsumerGroupCurrentMemberAssignmentKey(
        group_id=group_id, member_id=member.member_id
    )
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_partitions(member.assigned),
        partitions_pending_revocation=_partitions(member.pending_revocation),
    )
    return Record(key, value)


def _partitions(held: AssignedPartitions) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(
            topic_id=topic,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[partition] for partition in sorted(epochs)],
        )
        for topic, epochs in sorted(held.items())
    ]


_MEMBER_KEYS: Final = (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupMemberMetadataKey,
)


def member_tombstones(group_id: GroupId, member_id: MemberId) -> list[Record]:
    """Return the tombstones of records 8, 7 and 5, in the order of replay."""
    return [
        Record(key(group_id=group_id, member_id=member_id), None)
        for key in _MEMBER_KEYS
    ]


def regex_tombstone(group_id: GroupId, regex: str) -> Record:
    """Return the tombstone of a regular expression."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return Record(key, None)


def group_records(group: ConsumerGroup) -> list[Record]:
    """Return the records of the group's current state."""
    group_id = group.group_id
    members, epoch = group.members.values(), group.assignment_epoch
    return [
        *(member_record(group_id, member) for member in members),
        *(regex_record(group_id, *each) for each in group.regexes.items()),
        epoch_record(group_id, group.epoch, group.metadata_hash),
        *(
            target_record(group_id, member_id, target, group.detail(member_id))
            for member_id, target in group.targets.items()
        ),
        *(
            [target_epoch_record(group_id, epoch, group.assigned_ms)]
            if epoch > 0
            else []
        ),
        *(current_record(group_id, member) for member in members),
    ]


def group_tombstones(group: ConsumerGroup) -> list[Record]:
    """Return the tombstones of the group, members first."""
    group_id = group.group_id
    current, target, metadata = (
        [Record(key(group_id=group_id, member_id=each), None) for each in group.members]
        for key in _MEMBER_KEYS
    )
    return [
        *current,
        *target,
        Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *metadata,
        *(regex_tombstone(group_id, regex) for regex in group.regexes),
        Record(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]
