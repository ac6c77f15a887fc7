"""The records of a consumer group, made of its values (E22.2).

A group can be written out whole (`group_records`) and be taken away whole
(`group_tombstones`); what one step writes in which order is the step's (E22.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coterie.coordinator.consumer.client_side.values import NO_DETAIL, TargetDetail
from coterie.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from coterie.coordinator.consumer.member import Held, Member, Target
from coterie.coordinator.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    CurrentTopicPartitions,
)
from coterie.coordinator.records.consumer_group_member_metadata import (
    Assignor,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from coterie.coordinator.records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from coterie.coordinator.records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from coterie.coordinator.records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TargetTopicPartitions,
)
from coterie.coordinator.records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from coterie.coordinator.result import Record
from coterie.types import GroupId, MemberId


def member_record(group_id: GroupId, member: Member) -> Record:
    """Type 5: the member as it described itself."""
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
    """Type 3: the group's epoch, and what it saw of its topics then (E15-03)."""
    assert epoch >= 0, "a group that is written has an epoch"
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Record(ConsumerGroupMetadataKey(group_id=group_id), value)


def regex_record(group_id: GroupId, regex: str, resolved: ResolvedRegex) -> Record:
    """Type 16: the topics that a regular expression matched."""
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
    """Type 7: what a member shall own, and what it is told beside."""
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
    """Type 6: the epoch of the target, and when it was made."""
    assert epoch > 0, "a target has an epoch"
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=at_ms
    )
    return Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_record(group_id: GroupId, member: Member) -> Record:
    """Type 8: what the member owns, has to revoke, and its epochs."""
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


def _partitions(held: Held) -> list[CurrentTopicPartitions]:
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
    """Types 8, 7 and 5, in the order that replay demands (E22-26, E22-42)."""
    return [
        Record(key(group_id=group_id, member_id=member_id), None)
        for key in _MEMBER_KEYS
    ]


def regex_tombstone(group_id: GroupId, regex: str) -> Record:
    """Nobody subscribes by this regular expression any more (E14-10)."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return Record(key, None)


def group_records(group: ConsumerGroup) -> list[Record]:
    """Everything that makes the group as it is, to be replayed (E20-14)."""
    return [*_written_out(group)]


def _written_out(group: ConsumerGroup) -> Iterator[Record]:
    group_id = group.group_id
    for member in group.members.values():
        yield member_record(group_id, member)
    for regex, resolved in group.regexes.items():
        yield regex_record(group_id, regex, resolved)
    yield epoch_record(group_id, group.epoch, group.metadata_hash)
    for member_id, target in group.targets.items():
        yield target_record(group_id, member_id, target, group.detail(member_id))
    if group.assignment_epoch > 0:
        yield target_epoch_record(group_id, group.assignment_epoch, group.assigned_ms)
    for member in group.members.values():
        yield current_record(group_id, member)


def group_tombstones(group: ConsumerGroup) -> list[Record]:
    """Everything that takes the group away, members first (E22-29)."""
    return [*_taken_away(group)]


def _taken_away(group: ConsumerGroup) -> Iterator[Record]:
    group_id = group.group_id
    current, target, metadata = (
        [Record(key(group_id=group_id, member_id=each), None) for each in group.members]
        for key in _MEMBER_KEYS
    )
    yield from current
    yield from target
    yield Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    yield from metadata
    for regex in group.regexes:
        yield regex_tombstone(group_id, regex)
    yield Record(ConsumerGroupMetadataKey(group_id=group_id), None)
