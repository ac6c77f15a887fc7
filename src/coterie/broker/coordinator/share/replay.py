"""Replay the records of share groups: the only way a share group changes.

Live requests and loading use the same replay. As for consumer groups, a record with a
value creates its group, and a tombstone without its object does nothing. A record that
violates an invariant stops the shard, unless a log is loaded that was compacted
meanwhile (KAFKA-21102).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie.broker.coordinator.consumer.group import UNASSIGNED
from coterie.broker.coordinator.consumer.member import (
    LEAVE_EPOCH,
    Target,
    unique_names,
)
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
    ShareTopicPartitionsInfo,
    TargetTopicPartitions,
)
from coterie.broker.coordinator.result import Origin, Record
from coterie.broker.coordinator.share.group import (
    PartitionStates,
    ShareGroup,
    ShareMember,
    ShareTopic,
    ShareTopics,
)
from coterie.broker.coordinator.state import State
from coterie.types import GroupId, MemberId
from coterie.wire.schema import Message

SHARE_GROUP_KEYS = (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)
"""The keys of the records that `replay` applies."""


def replay(state: State, record: Record, origin: Origin) -> None:
    """Apply a record to the state.

    Raises:
        AssertionError: The record violates an invariant, for example it is of a group
            of another type.
    """
    key: Any = record.key
    group_id: GroupId = key.group_id
    group = state.share_groups.get(group_id)
    if record.value is None:
        if group is not None:
            _replay_tombstone(state, group, key)
        return
    if group is None:
        # The new group replaces a simple classic group, which commits created.
        classic = state.classic_groups.pop(group_id, None)
        assert classic is None or classic.is_simple or state.is_loading, group_id
        state.group_records.pop(group_id, None)
        group = state.share_groups[group_id] = ShareGroup(group_id)
    _replay_value(state, group, key, record.value, origin)


def _replay_value(
    state: State, group: ShareGroup, key: Any, value: Message, origin: Origin
) -> None:
    match value:
        case ShareGroupCurrentMemberAssignmentValue():
            group.put_member(
                _member(group, key.member_id)._replace(
                    epoch=value.member_epoch,
                    previous_epoch=value.previous_member_epoch,
                    assigned=_target(value.assigned_partitions),
                )
            )
        case ShareGroupTargetAssignmentMemberValue():
            group.put_target(key.member_id, _target(value.topic_partitions))
        case ShareGroupMemberMetadataValue():
            before = group.members.get(key.member_id)
            names = unique_names(value.subscribed_topic_names)
            group.put_member(
                _member(group, key.member_id)._replace(
                    rack_id=value.rack_id,
                    client_id=value.client_id,
                    client_host=value.client_host,
                    topic_names=names,
                )
            )
            state.topic_index.subscribe(
                group.group_id, () if before is None else before.topic_names, names
            )
        case ShareGroupMetadataValue():
            assert value.epoch >= group.epoch or state.is_loading, (
                f"{group.group_id}: its epoch decreases"
            )
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash
        case ShareGroupTargetAssignmentMetadataValue():
            group.assignment_epoch = value.assignment_epoch
            group.assigned_ms = value.assignment_timestamp
        case _:
            assert type(value) is ShareGroupStatePartitionMetadataValue, value
            group.put_partitions(
                PartitionStates(
                    _topics(value.initializing_topics),
                    _topics(value.initialized_topics),
                    {each.topic_id: each.topic_name for each in value.deleting_topics},
                    origin.timestamp_ms,
                )
            )


def _member(group: ShareGroup, member_id: MemberId) -> ShareMember:
    # A record may precede the one with the member's metadata.
    return group.members.get(member_id) or ShareMember(member_id)


def _target(topics: Iterable[TargetTopicPartitions]) -> Target:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}


def _topics(topics: Iterable[ShareTopicPartitionsInfo]) -> ShareTopics:
    return {
        topic.topic_id: ShareTopic(topic.topic_name, frozenset(topic.partitions))
        for topic in topics
    }


def _replay_tombstone(state: State, group: ShareGroup, key: Message) -> None:
    match key:
        case ShareGroupCurrentMemberAssignmentKey():
            if (member := group.members.get(key.member_id)) is not None:
                group.put_member(
                    member._replace(
                        epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned={}
                    )
                )
        case ShareGroupTargetAssignmentMemberKey():
            group.put_target(key.member_id, None)
        case ShareGroupMemberMetadataKey(member_id=member_id):
            _remove_member(state, group, member_id)
        case ShareGroupTargetAssignmentMetadataKey():
            assert not group.targets or state.is_loading, (
                f"{group.group_id} has targets"
            )
            for member_id in [*group.targets]:
                group.put_target(member_id, None)
            group.assignment_epoch = UNASSIGNED
            group.assigned_ms = 0
        case ShareGroupStatePartitionMetadataKey():
            group.put_partitions(None)
        case _:
            assert type(key) is ShareGroupMetadataKey, key
            if not state.is_loading:
                assert not group.members, f"{group.group_id} has members"
                assert not group.targets, f"{group.group_id} has targets"
                assert group.assignment_epoch == UNASSIGNED, group.group_id
            remove_group(state, group)
            if state.offsets.has(group.group_id):
                state.ensure_group(group.group_id)


def _remove_member(state: State, group: ShareGroup, member_id: MemberId) -> None:
    member = group.members.get(member_id)
    if member is None:
        return
    if not state.is_loading:
        assert member.epoch == LEAVE_EPOCH, f"{member_id} has an assignment"
        assert member_id not in group.targets, f"{member_id} has a target"
    group.put_target(member_id, None)
    group.remove_member(member_id)
    state.topic_index.subscribe(group.group_id, member.topic_names, ())


def remove_group(state: State, group: ShareGroup) -> None:
    """Remove a group with its members."""
    for member in group.members.values():
        state.topic_index.subscribe(group.group_id, member.topic_names, ())
    del state.share_groups[group.group_id]
