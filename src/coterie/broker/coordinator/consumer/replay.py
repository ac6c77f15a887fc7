"""Replay the records of consumer groups: the only way a consumer group changes.

Live requests and loading use the same replay. Compaction may have removed any earlier
record: a record with a value creates its group, and a tombstone without its object does
nothing. A loader may have read records before compaction, and miss the tombstones that
followed them: then a tombstone removes what belongs to its object, too, and a value
ends the group of the other protocol (KAFKA-21102, KAFKA-21117). Without that excuse, a
record that violates an invariant stops the shard.
"""

from __future__ import annotations

from typing import Any, Final

from coterie.broker.coordinator.client_side.values import (
    NO_DETAIL,
    ClientAssignor,
    TargetDetail,
)
from coterie.broker.coordinator.consumer.group import (
    UNASSIGNED,
    ConsumerGroup,
    ResolvedRegex,
)
from coterie.broker.coordinator.consumer.member import (
    LEAVE_EPOCH,
    AssignedPartitions,
    ClassicMemberInfo,
    Member,
    MemberState,
    unique_names,
)
from coterie.broker.coordinator.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
)
from coterie.broker.coordinator.result import Record
from coterie.broker.coordinator.state import State
from coterie.types import GroupId, MemberId
from coterie.wire.schema import Message

_BEFORE_CURRENT: Final[dict[str, Any]] = {
    "epoch": LEAVE_EPOCH,
    "previous_epoch": LEAVE_EPOCH,
    "state": MemberState.STABLE,
    "assigned": {},
    "pending_revocation": {},
}
"""The fields of a member whose current assignment was deleted."""


def replay(state: State, record: Record) -> GroupId:
    """Apply a record to the state; return its group id.

    A tombstone for an unknown group does nothing.

    Raises:
        AssertionError: The record violates an invariant, for example it assigns a
            partition that another member owns.
    """
    key: Any = record.key
    group_id: GroupId = key.group_id
    group = state.consumer_groups.get(group_id)
    if record.value is None:
        if group is not None:
            _replay_tombstone(state, group, key)
        return group_id
    if group is None:
        # The new group replaces a simple classic group, which commits created.
        classic = state.classic_groups.pop(group_id, None)
        assert classic is None or classic.is_simple or state.is_loading, (
            f"{group_id} is a classic group with members or a protocol"
        )
        state.group_records.pop(group_id, None)
        group = ConsumerGroup(group_id, is_loading=state.is_loading)
        state.consumer_groups[group_id] = group
    _replay_value(state, group, key, record.value)
    return group_id


def _replay_value(state: State, group: ConsumerGroup, key: Any, value: Message) -> None:
    match value:
        case ConsumerGroupCurrentMemberAssignmentValue(member_epoch=epoch):
            group.put_member(
                _member(group, key.member_id)._replace(
                    epoch=epoch,
                    previous_epoch=value.previous_member_epoch,
                    state=MemberState(value.state),
                    assigned=_partitions(value.assigned_partitions, epoch),
                    pending_revocation=_partitions(
                        value.partitions_pending_revocation, epoch
                    ),
                )
            )
        case ConsumerGroupTargetAssignmentMemberValue():
            group.targets[key.member_id] = {
                topic.topic_id: frozenset(topic.partitions)
                for topic in value.topic_partitions
            }
            detail = TargetDetail(
                value.error, value.metadata_version, bytes(value.metadata_bytes)
            )
            group.target_details.pop(key.member_id, None)
            if detail != NO_DETAIL:
                group.target_details[key.member_id] = detail
        case ConsumerGroupMemberMetadataValue():
            before = group.members.get(key.member_id)
            member = _with_metadata(_member(group, key.member_id), value)
            group.put_member(member)
            state.topic_index.subscribe(
                group.group_id,
                () if before is None else before.topic_names,
                member.topic_names,
            )
        case ConsumerGroupMetadataValue():
            assert value.epoch >= group.epoch or state.is_loading, (
                f"{group.group_id}: its epoch decreases"
            )
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash
        case ConsumerGroupTargetAssignmentMetadataValue():
            epoch = value.assignment_epoch
            assert epoch >= group.assignment_epoch or state.is_loading, (
                f"{group.group_id}: its target epoch decreases"
            )
            group.assignment_epoch = epoch
            group.assigned_ms = value.assignment_timestamp
        case ConsumerGroupRegularExpressionValue():
            assert value.topics == sorted(value.topics), key.regular_expression
            old = group.regexes.get(key.regular_expression)
            new = ResolvedRegex(tuple(value.topics), value.version, value.timestamp)
            group.regexes[key.regular_expression] = new
            state.topic_index.replace_regex_topics(group.group_id, old, new)
        case _:
            # Kafka before 4.1 wrote type 4 where type 3 now has a hash (KIP-1101).
            assert type(value) is ConsumerGroupPartitionMetadataValue, value


def _member(group: ConsumerGroup, member_id: MemberId) -> Member:
    # A record may precede the one with the member's metadata.
    return group.members.get(member_id) or Member(member_id=member_id)


def _with_metadata(member: Member, value: ConsumerGroupMemberMetadataValue) -> Member:
    classic = value.classic_member_metadata
    return member._replace(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=unique_names(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicMemberInfo(
            session_timeout_ms=classic.session_timeout_ms,
            protocols=tuple((p.name, p.metadata) for p in classic.supported_protocols),
        ),
        client_assignors=tuple(
            ClientAssignor(
                each.name,
                each.minimum_version,
                each.maximum_version,
                each.reason,
                each.version,
                bytes(each.metadata),
            )
            for each in value.assignors
        ),
    )


def _partitions(topics: list[CurrentTopicPartitions], epoch: int) -> AssignedPartitions:
    """Return the partitions with their assignment epochs.

    Before Kafka 4.3 the record lacks them: then they are the member's epoch.
    """
    return {
        topic.topic_id: (
            dict.fromkeys(topic.partitions, epoch)
            if topic.assignment_epochs is None
            else dict(zip(topic.partitions, topic.assignment_epochs, strict=True))
        )
        for topic in topics
    }


def _replay_tombstone(state: State, group: ConsumerGroup, key: Message) -> None:
    match key:
        case ConsumerGroupCurrentMemberAssignmentKey():
            if (member := group.members.get(key.member_id)) is not None:
                group.put_member(member._replace(**_BEFORE_CURRENT))
        case ConsumerGroupTargetAssignmentMemberKey():
            group.remove_target(key.member_id)
        case ConsumerGroupMemberMetadataKey(member_id=member_id):
            if (member := group.members.get(member_id)) is not None:
                if not state.is_loading:
                    assert member.epoch == LEAVE_EPOCH, f"{member_id} has an assignment"
                    assert member_id not in group.targets, f"{member_id} has a target"
                group.remove_target(member_id)
                group.remove_member(member_id)
                state.topic_index.subscribe(group.group_id, member.topic_names, ())
        case ConsumerGroupTargetAssignmentMetadataKey():
            assert not group.targets or state.is_loading, (
                f"{group.group_id} has targets"
            )
            group.remove_targets()
            group.assignment_epoch = UNASSIGNED
            group.assigned_ms = 0
        case ConsumerGroupRegularExpressionKey():
            resolved = group.regexes.pop(key.regular_expression, None)
            state.topic_index.replace_regex_topics(group.group_id, resolved, None)
        case ConsumerGroupMetadataKey():
            _remove_group(state, group)
        case _:
            assert type(key) is ConsumerGroupPartitionMetadataKey, key


def _remove_group(state: State, group: ConsumerGroup) -> None:
    if not state.is_loading:
        group_id = group.group_id
        assert not group.members, f"{group_id} is deleted and has members"
        assert not group.targets, f"{group_id} is deleted and has targets"
        assert group.assignment_epoch == UNASSIGNED, f"{group_id} has a target epoch"
    remove_group(state, group)
    if state.offsets.has(group.group_id):
        state.ensure_group(group.group_id)


def remove_group(state: State, group: ConsumerGroup) -> None:
    """Remove a group with its members."""
    group_id = group.group_id
    for member in group.members.values():
        state.topic_index.subscribe(group_id, member.topic_names, ())
    for resolved in group.regexes.values():
        state.topic_index.replace_regex_topics(group_id, resolved, None)
    del state.consumer_groups[group_id]
