"""Replay of a consumer group's records: the one way a group changes (E22.4).

Live traffic and loading run the same replay. It forgives what compaction may have
taken: any record with a value makes the group it names, and a tombstone of something
nobody knows is nothing. It does not forgive what no legal log says: such a log must
stop the shard (E22-42, E22-43, E22-45).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from coterie.coordinator.consumer.client_side.values import (
    NO_DETAIL,
    ClientAssignor,
    TargetDetail,
)
from coterie.coordinator.consumer.group import UNASSIGNED, ConsumerGroup, ResolvedRegex
from coterie.coordinator.consumer.member import (
    LEAVE_EPOCH,
    ClassicFace,
    Held,
    Member,
    MemberState,
)
from coterie.coordinator.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    CurrentTopicPartitions,
)
from coterie.coordinator.records.consumer_group_member_metadata import (
    Assignor,
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from coterie.coordinator.records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from coterie.coordinator.records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
)
from coterie.coordinator.records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from coterie.coordinator.records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from coterie.coordinator.records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from coterie.coordinator.result import Record
from coterie.coordinator.state import State
from coterie.types import GroupId

_BEFORE_CURRENT: Final = {
    "epoch": LEAVE_EPOCH,
    "previous_epoch": LEAVE_EPOCH,
    "state": MemberState.STABLE,
    "assigned": {},
    "pending_revocation": {},
}
"""A member whose current assignment was taken away (E22-44)."""


def replay(state: State, record: Record) -> GroupId:
    """Make true what the record says; a tombstone for a group nobody knows is nothing
    (E22-41). Returns the id of the group it is about.

    Raises:
        AssertionError: No legal log says this.
    """
    key, value, _ = record
    group_id: GroupId = key.group_id  # type: ignore[attr-defined]  # as all of them
    if value is not None:
        group = _ensure(state, group_id)
        _VALUES[type(key)](state, group, key, value)
    elif (known := state.consumer_groups.get(group_id)) is not None:
        _TOMBSTONES[type(key)](state, known, key)
    return group_id


def _ensure(state: State, group_id: GroupId) -> ConsumerGroup:
    """The group; a classic one that only commits made becomes it (E22-45, H-153)."""
    group = state.consumer_groups.get(group_id)
    if group is None:
        classic = state.classic_groups.pop(group_id, None)
        assert classic is None or classic.is_simple, (
            f"{group_id} is a classic group with members or a protocol"
        )
        group = state.consumer_groups[group_id] = ConsumerGroup(group_id)
    return group


def _member(group: ConsumerGroup, member_id: str) -> Member:
    """The member; a new one knows nothing of itself yet (E22-40)."""
    return group.members.get(member_id) or Member(member_id=member_id)


# Values.


def _metadata(
    state: State,
    group: ConsumerGroup,
    key: ConsumerGroupMetadataKey,
    value: ConsumerGroupMetadataValue,
) -> None:
    assert value.epoch >= group.epoch, f"{group.group_id}: its epoch goes back"
    group.epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def _partition_metadata(state: State, group: ConsumerGroup, *_: Any) -> None:
    """Kafka before 4.1 kept here what record 3 keeps as a hash; the group counts."""


def _member_metadata(
    state: State,
    group: ConsumerGroup,
    key: ConsumerGroupMemberMetadataKey,
    value: ConsumerGroupMemberMetadataValue,
) -> None:
    before = group.members.get(key.member_id)
    member = replace(
        _member(group, key.member_id),
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=tuple(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=_classic(value.classic_member_metadata),
        client_assignors=tuple(map(_offer, value.assignors)),
    )
    group.put_member(member)
    state.topic_index.subscribe(group.group_id, before, member)


def _offer(kept: Assignor) -> ClientAssignor:
    return ClientAssignor(
        kept.name,
        kept.minimum_version,
        kept.maximum_version,
        kept.reason,
        kept.version,
        bytes(kept.metadata),
    )


def _classic(metadata: ClassicMemberMetadata | None) -> ClassicFace | None:
    if metadata is None:
        return None
    return ClassicFace(
        session_timeout_ms=metadata.session_timeout_ms,
        protocols=tuple(
            (protocol.name, protocol.metadata)
            for protocol in metadata.supported_protocols
        ),
    )


def _target_metadata(
    state: State,
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue,
) -> None:
    epoch = value.assignment_epoch
    assert epoch >= group.assignment_epoch, f"{group.group_id}: its target goes back"
    group.assignment_epoch = epoch
    group.assigned_ms = value.assignment_timestamp


def _target_member(
    state: State,
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue,
) -> None:
    group.targets[key.member_id] = {
        topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
    }
    detail = TargetDetail(
        value.error, value.metadata_version, bytes(value.metadata_bytes)
    )
    group.target_details.pop(key.member_id, None)
    if detail != NO_DETAIL:
        group.target_details[key.member_id] = detail


def _current_member(
    state: State,
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue,
) -> None:
    epoch = value.member_epoch
    member = replace(
        _member(group, key.member_id),
        epoch=epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=_held(value.assigned_partitions, epoch),
        pending_revocation=_held(value.partitions_pending_revocation, epoch),
    )
    group.put_member(member)


def _held(topics: list[CurrentTopicPartitions], epoch: int) -> Held:
    """Before Kafka 4.3 nobody wrote when a partition was assigned: at the latest, with
    the member's epoch (E3-11)."""
    return {
        topic.topic_id: (
            dict.fromkeys(topic.partitions, epoch)
            if topic.assignment_epochs is None
            else dict(zip(topic.partitions, topic.assignment_epochs, strict=True))
        )
        for topic in topics
    }


def _regular_expression(
    state: State,
    group: ConsumerGroup,
    key: ConsumerGroupRegularExpressionKey,
    value: ConsumerGroupRegularExpressionValue,
) -> None:
    assert value.topics == sorted(value.topics), key.regular_expression
    before = group.regexes.get(key.regular_expression)
    after = ResolvedRegex(tuple(value.topics), value.version, value.timestamp)
    group.regexes[key.regular_expression] = after
    state.topic_index.resolve(group.group_id, before, after)


# Tombstones.


def _no_metadata(
    state: State, group: ConsumerGroup, key: ConsumerGroupMetadataKey
) -> None:
    group_id = group.group_id
    assert not group.members, f"{group_id} has members and is taken away (H-151)"
    assert not group.targets, f"{group_id} has targets and is taken away"
    assert group.assignment_epoch == UNASSIGNED, f"{group_id} has a target epoch"
    for resolved in group.regexes.values():
        state.topic_index.resolve(group_id, resolved, None)
    del state.consumer_groups[group_id]
    if state.offsets.has(group_id):
        state.ensure_group(group_id)


def _no_partition_metadata(state: State, group: ConsumerGroup, key: Any) -> None:
    """Kafka 4.1 and later take away what older ones wrote; we keep nothing of it."""


def _no_member_metadata(
    state: State, group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey
) -> None:
    member = group.members.get(key.member_id)
    if member is None:
        return
    assert member.epoch == LEAVE_EPOCH, f"{key.member_id} still has an assignment"
    assert key.member_id not in group.targets, f"{key.member_id} still has a target"
    group.remove_member(key.member_id)
    state.topic_index.subscribe(group.group_id, member, None)


def _no_target_metadata(
    state: State, group: ConsumerGroup, key: ConsumerGroupTargetAssignmentMetadataKey
) -> None:
    group.assignment_epoch = UNASSIGNED
    group.assigned_ms = 0


def _no_target_member(
    state: State, group: ConsumerGroup, key: ConsumerGroupTargetAssignmentMemberKey
) -> None:
    group.targets.pop(key.member_id, None)
    group.target_details.pop(key.member_id, None)


def _no_current_member(
    state: State, group: ConsumerGroup, key: ConsumerGroupCurrentMemberAssignmentKey
) -> None:
    member = group.members.get(key.member_id)
    if member is not None:
        assert member.member_id == key.member_id
        group.put_member(replace(member, **_BEFORE_CURRENT))  # type: ignore[arg-type]


def _no_regular_expression(
    state: State, group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey
) -> None:
    before = group.regexes.pop(key.regular_expression, None)
    state.topic_index.resolve(group.group_id, before, None)


_VALUES: Final[Mapping[type, Callable[[State, ConsumerGroup, Any, Any], None]]] = {
    ConsumerGroupMetadataKey: _metadata,
    ConsumerGroupPartitionMetadataKey: _partition_metadata,
    ConsumerGroupMemberMetadataKey: _member_metadata,
    ConsumerGroupTargetAssignmentMetadataKey: _target_metadata,
    ConsumerGroupTargetAssignmentMemberKey: _target_member,
    ConsumerGroupCurrentMemberAssignmentKey: _current_member,
    ConsumerGroupRegularExpressionKey: _regular_expression,
}
_TOMBSTONES: Final[Mapping[type, Callable[[State, ConsumerGroup, Any], None]]] = {
    ConsumerGroupMetadataKey: _no_metadata,
    ConsumerGroupPartitionMetadataKey: _no_partition_metadata,
    ConsumerGroupMemberMetadataKey: _no_member_metadata,
    ConsumerGroupTargetAssignmentMetadataKey: _no_target_metadata,
    ConsumerGroupTargetAssignmentMemberKey: _no_target_member,
    ConsumerGroupCurrentMemberAssignmentKey: _no_current_member,
    ConsumerGroupRegularExpressionKey: _no_regular_expression,
}
