"""Check that a world has settled: all members have reached the target assignment, and
each partition has one owner.
"""

from __future__ import annotations

from coterie.broker.coordinator.classic.group import ClassicGroup, GroupState
from coterie.broker.coordinator.consumer.group import ConsumerGroup, ConsumerGroupState
from coterie.broker.coordinator.consumer.member import Member as GroupMember
from coterie.broker.runtime.shards import Phase
from coterie.types import GroupId
from sim.members.member import Member
from sim.plan import Protocol
from sim.population import Population
from sim.topics import TopicIdPartition, Topics


def find_disorder(world: Population) -> str | None:
    """Return a description of a violation, or None."""
    for group_id in [group.group_id for group in world.plan.groups]:
        disorder = _of_group(world, group_id)
        if disorder is not None:
            return f"{group_id}: {disorder}"
    return None


def _of_group(world: Population, group_id: GroupId) -> str | None:
    partition = world.partition(group_id)
    if partition is None or partition.phase is not Phase.ACTIVE:
        return "its shard is not active"
    group = partition.shard.state.offset_group(group_id)
    slots = [s for s in world.slots if s.config.group_id == group_id]
    is_full = _is_full(world, group)
    members: list[Member] = []
    for slot in slots:
        member = slot.member
        if member is not None and member.is_leaving:
            return f"{member.name} is leaving"
        is_out = member is None or not is_in_group(world, member)
        may_be_out = isinstance(group, ConsumerGroup) or (
            slot.protocol is Protocol.CONSUMER
        )
        if is_full and is_out and may_be_out:
            continue
        if member is not None:
            members.append(member)
        elif slot.is_wanted:
            return f"{slot.config.name} is missing"
    if not members:
        return None if group is None or not group.members else "it has members"
    if group is None:
        return "the group does not exist"
    disorder = _of_members(group, members)
    if disorder is not None:
        return disorder
    return _of_parts(world.topics, members)


def _of_members(
    group: ClassicGroup | ConsumerGroup, members: list[Member]
) -> str | None:
    ids = {member.member_id for member in members}
    if group.members.keys() != ids:
        return f"its members are {sorted(group.members)}, there are {sorted(ids)}"
    if group.state not in (GroupState.STABLE, ConsumerGroupState.STABLE):
        return f"it is {group.state.value}"
    for member in members:
        if not member.is_settled:
            return f"{member.name} is not settled"
        disorder = _of_member(group, member)
        if disorder is not None:
            return f"{member.name} {disorder}"
    return None


def _of_member(group: ClassicGroup | ConsumerGroup, member: Member) -> str | None:
    if isinstance(group, ClassicGroup):
        is_there = member.epoch_or_generation == group.generation
        return None if is_there else f"is not in generation {group.generation}"
    known = group.members[member.member_id]
    if not member.epoch_or_generation == known.epoch == group.epoch:
        return f"is not at epoch {group.epoch}"
    if _held(known) != member.owned:
        return "reads other partitions than the group assigned"
    return None


def _held(member: GroupMember) -> set[TopicIdPartition]:
    return {(topic, p) for topic, held in member.assigned.items() for p in held}


def _of_parts(topics: Topics, members: list[Member]) -> str | None:
    names = set().union(*(member.wanted(topics.known) for member in members))
    wanted = topics.parts(names)
    read = [part for member in members for part in member.owned]
    if len(read) != len(set(read)):
        return "a partition has two readers"
    if wanted != set(read):
        missing, surplus = wanted - set(read), set(read) - wanted
        return (
            f"unread: {topics.describe(missing)}; surplus: {topics.describe(surplus)}"
        )
    return None


def _is_full(world: Population, group: ClassicGroup | ConsumerGroup | None) -> bool:
    """Return whether the group refuses new members."""
    most = world.plan.settings.group_consumer_max_size
    return group is not None and len(group.members) >= most


def is_in_group(world: Population, member: Member) -> bool:
    """Return whether the member is in the group."""
    partition = world.partition(member.group_id)
    group = None if partition is None else partition.shard.state.group(member.group_id)
    return group is not None and member.member_id in group.members
