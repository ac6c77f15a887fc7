"""Assert the invariants of a shard's state, for tests and the simulation.

`check` asserts every invariant of a shard's whole state. Call it after each step: a
violated invariant is a bug of the coordinator.

Raises AssertionError with a message that describes the violated invariant.
"""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from coterie.broker.coordinator.classic.group import ClassicGroup, GroupState
from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    Member,
)
from coterie.broker.coordinator.consumer.topics import TopicIndex
from coterie.broker.coordinator.records import GroupMetadataValue
from coterie.broker.coordinator.result import Ticket
from coterie.broker.coordinator.share.group import ShareGroup
from coterie.broker.coordinator.state import State
from coterie.types import GroupId, TopicId, TopicName, TopicPartition


def check(state: State) -> None:
    """Assert the invariants of all groups, offsets and indexes of a shard."""
    for group_id, group in state.classic_groups.items():
        assert group.group_id == group_id
        check_classic_group(group)
    for group_id, consumer_group in state.consumer_groups.items():
        assert consumer_group.group_id == group_id
        check_consumer_group(consumer_group)
    for group_id, share_group in state.share_groups.items():
        assert share_group.group_id == group_id
        check_share_group(share_group)
    types = Counter(
        (*state.classic_groups, *state.consumer_groups, *state.share_groups)
    )
    both = [group_id for group_id, count in types.items() if count > 1]
    assert not both, f"groups of two types: {both}"
    _check_topic_index(state)
    tickets: Counter[Ticket] = Counter()
    for group in state.classic_groups.values():
        tickets.update(group.joins.values())
        tickets.update(group.syncs.values())
    assert all(count == 1 for count in tickets.values()), "a request is parked twice"
    _check_records(state)
    _check_offsets(state)


# ------------------------------------------------------------- classic groups


def check_classic_group(group: ClassicGroup) -> None:
    """Assert the invariants of a classic group."""
    members = group.members.keys()
    for member_id, member in group.members.items():
        assert member.member_id == member_id
        assert member.protocols, "a member without a protocol"
    assert group.joins.keys() <= members, "a parked join without a member"
    assert group.syncs.keys() <= members, "a parked sync without a member"
    assert group.unsynced.keys() <= members, "an awaited sync without a member"
    assert group.new_members.keys() <= members, "a new member that is not a member"
    assert not group.syncs.keys() & group.unsynced.keys(), "a parked sync is awaited"
    assert not group.pending_members.keys() & members, "a pending member is a member"
    assert group.generation >= 0, "a negative generation"
    if group.members:
        assert group.leader_id in group.members, "the leader is not a member"
        assert group.protocol_type is not None, "members without a protocol type"
    elif group.state is GroupState.EMPTY:
        assert group.leader_id is None, "a group without members has a leader"
    static = {
        member.group_instance_id: member_id
        for member_id, member in group.members.items()
        if member.group_instance_id is not None
    }
    assert dict(group.static_members) == static, "static_members"
    supporters = Counter(
        name
        for member in group.members.values()
        for name in {name for name, _ in member.protocols}
    )
    assert dict(group.supporters) == supporters, "supporters"
    _check_classic_state(group)


def _check_classic_state(group: ClassicGroup) -> None:
    match group.state:
        case GroupState.EMPTY:
            assert not group.members, "an empty group has members"
        case GroupState.PREPARING_REBALANCE:
            assert not group.syncs, "a sync is parked in the join phase"
            assert not group.unsynced, "a sync is awaited in the join phase"
            is_complete = group.all_joined and not group.initial
            assert not is_complete, "all members have joined, the join phase goes on"
        case GroupState.COMPLETING_REBALANCE:
            assert group.leader_id not in group.syncs, "the leader's sync is parked"
            _check_generation(group)
        case GroupState.STABLE:
            assert not group.syncs, "a sync is parked in a stable group"
            _check_generation(group)
        case GroupState.DEAD:
            assert not group.joins, "a join is parked in a dead group"
            assert not group.syncs, "a sync is parked in a dead group"
        case _:
            assert_never(group.state)


def _check_generation(group: ClassicGroup) -> None:
    assert group.members, "a generation without members"
    assert not group.joins, "a join is parked in a generation"
    assert not group.new_members, "a member of a generation is new"
    supported = group.supporters.get(group.protocol_name or "", 0)
    assert supported == len(group.members), "a member does not support the protocol"


# ------------------------------------------------------------ consumer groups


def check_consumer_group(group: ConsumerGroup) -> None:
    """Assert the invariants of a consumer group."""
    assert group.assignment_epoch <= group.epoch, (
        "the assignment epoch is ahead of the group epoch"
    )
    assert group.targets.keys() <= group.members.keys(), "a target without a member"
    orphans = group.regexes.keys() - group.regex_counts.keys()
    assert not orphans, f"regular expressions without a subscriber: {orphans}"
    for member_id, member in group.members.items():
        assert member.member_id == member_id
        _check_epochs(group, member)
    _check_computation(group)
    _check_owners(group)
    _check_derived(group)


def _check_computation(group: ConsumerGroup) -> None:
    """Assert that the computing member exists and that its target assignment is still
    awaited.
    """
    computation = group.computation
    if computation is None or not computation.member_id:
        return
    member_id = computation.member_id
    assert member_id in group.members, f"{member_id} computes and is not a member"
    assert group.assignment_epoch < group.epoch, f"{member_id} computes, no target due"
    if computation.prepared is not None:
        epoch = computation.prepared.epoch
        assert group.assignment_epoch < epoch <= group.epoch, epoch


def _check_epochs(group: ConsumerGroup, member: Member) -> None:
    name = f"{group.group_id}: {member.member_id}"
    assert member.epoch != LEAVE_EPOCH, f"{name} has left"
    assert member.epoch <= group.assignment_epoch, f"{name} is ahead of the target"
    if member.epoch == STATIC_LEAVE_EPOCH:
        assert member.instance_id is not None, f"{name} left temporarily, not static"
        return
    for assigned in (member.assigned, member.pending_revocation):
        for epochs in assigned.values():
            assert epochs, f"{name} has a topic without a partition"
            newest = max(epochs.values())
            assert newest <= member.epoch, f"{name} has a partition of a later epoch"


def _check_owners(group: ConsumerGroup) -> None:
    """Assert that no partition has two owners, and that the owner epochs are right."""
    owners: Counter[tuple[TopicId, int]] = Counter()
    for member in group.members.values():
        for assigned in (member.assigned, member.pending_revocation):
            for topic, partitions in assigned.items():
                owners.update((topic, partition) for partition in partitions)
                for partition in partitions:
                    assert group.owner_epoch(topic, partition) == member.epoch
    twice = [owned for owned, count in owners.items() if count > 1]
    assert not twice, f"{group.group_id}: partitions with two owners: {twice}"


_DERIVED = (
    "topic_counts",
    "assignor_counts",
    "regex_counts",
    "static_members",
    "classic_count",
    "offers",
    "classic_protocols",
    "_reconciled",
    "_owner_epochs",
)


def _check_derived(group: ConsumerGroup) -> None:
    """Assert that the derived fields equal the fields of a group built from the same
    members.
    """
    rebuilt = ConsumerGroup(group.group_id)
    for member in group.members.values():
        rebuilt.put_member(member)
    for name in _DERIVED:
        assert getattr(group, name) == getattr(rebuilt, name), (group.group_id, name)
    for instance_id, member_id in group.static_members.items():
        assert group.members[member_id].instance_id == instance_id


# --------------------------------------------------------------- share groups


def check_share_group(group: ShareGroup) -> None:
    """Assert the invariants of a share group."""
    assert group.targets.keys() <= group.members.keys(), "a target without a member"
    assert group.assignment_epoch <= group.epoch, "a target ahead of its group"
    names: Counter[TopicName] = Counter()
    for member_id, member in group.members.items():
        assert member.member_id == member_id
        assert member.epoch <= group.assignment_epoch, "a member ahead of the target"
        assert all(member.assigned.values()), "a topic without partitions"
        names.update(member.topic_names)
    assert group.topic_counts == names, "topic_counts"


# ---------------------------------------------------------------- whole shards


def _check_topic_index(state: State) -> None:
    index = TopicIndex()
    for group_id, group in state.consumer_groups.items():
        for member in group.members.values():
            index.subscribe(group_id, (), member.topic_names)
        for resolved in group.regexes.values():
            index.replace_regex_topics(group_id, None, resolved)
    for group_id, share_group in state.share_groups.items():
        for share_member in share_group.members.values():
            index.subscribe(group_id, (), share_member.topic_names)
    assert state.topic_index == index, "topic_index"


def _check_records(state: State) -> None:
    """Assert that a stable classic group equals its newest record."""
    for group_id, record in state.group_records.items():
        value = record.value
        assert isinstance(value, GroupMetadataValue)
        group = state.classic_groups.get(group_id)
        assert group is not None, group_id
        if group.state is GroupState.STABLE:
            assert group.generation == value.generation
            assert [*group.members] == [each.member_id for each in value.members]


def _check_offsets(state: State) -> None:
    stored, pending = state.offsets.stored, state.offsets.pending
    for group_id in {*stored, *pending.groups()}:
        assert state.group(group_id) is not None, f"offsets without a group: {group_id}"
        by_topic = stored.group(group_id)
        assert bool(by_topic) == (group_id in stored), "a stored group without offsets"
        assert all(by_topic.values()), "a stored topic without offsets"
    indexed: dict[GroupId, set[TopicPartition]] = {}
    for transaction in pending.transactions.values():
        assert transaction.groups, "a pending transaction without offsets"
        for group_id, offsets in transaction.groups.items():
            assert offsets, "a pending group without offsets"
            indexed.setdefault(group_id, set()).update(offsets)
    assert indexed == {
        group_id: {name for name, _ in pending.items(group_id)}
        for group_id in pending.groups()
    }
