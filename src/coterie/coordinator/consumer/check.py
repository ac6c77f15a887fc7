"""What is always true of a consumer group, whoever changed it last (habit 9).

For tests and the simulator, after every step: it walks all members and all they hold.
"""

from __future__ import annotations

from collections import Counter

from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    Member,
)
from coterie.types import TopicId


def check(group: ConsumerGroup) -> None:
    """Assert every relation between a group's parts.

    Raises:
        AssertionError: the group contradicts itself; it names the relation.
    """
    assert group.assignment_epoch <= group.epoch, "no target is of an epoch to come"
    assert group.targets.keys() <= group.members.keys(), "a target is a member's"
    orphans = group.regexes.keys() - group.regex_counts.keys()
    assert not orphans, f"expressions that nobody subscribes by: {orphans}"
    for member_id, member in group.members.items():
        assert member.member_id == member_id
        _check_epochs(group, member)
    _check_computation(group)
    _check_owners(group)
    _check_derived(group)


def _check_computation(group: ConsumerGroup) -> None:
    """Who computes is there, and computes a target that is still to come (E13)."""
    chosen = group.computation
    if chosen is None or not chosen.member_id:
        return
    assert chosen.member_id in group.members, (
        f"{chosen.member_id} computes, and is gone"
    )
    assert group.assignment_epoch < group.epoch, f"{chosen.member_id} computes in vain"
    if chosen.prepared is not None:
        epoch = chosen.prepared.epoch
        assert group.assignment_epoch < epoch <= group.epoch, epoch


def _check_epochs(group: ConsumerGroup, member: Member) -> None:
    name = f"{group.group_id}: {member.member_id}"
    assert member.epoch != LEAVE_EPOCH, f"{name} has left"
    assert member.epoch <= group.assignment_epoch, f"{name} is ahead of the target"
    if member.epoch == STATIC_LEAVE_EPOCH:
        assert member.instance_id is not None, f"{name} cannot come back"
        return
    for held in (member.assigned, member.pending_revocation):
        for epochs in held.values():
            assert epochs, f"{name} has a topic without a partition"
            newest = max(epochs.values())
            assert newest <= member.epoch, f"{name} got a partition in the future"


def _check_owners(group: ConsumerGroup) -> None:
    """No partition has two owners, and the group knows at which epoch each is owned."""
    owners: Counter[tuple[TopicId, int]] = Counter()
    for member in group.members.values():
        for held in (member.assigned, member.pending_revocation):
            for topic, partitions in held.items():
                owners.update((topic, partition) for partition in partitions)
                for partition in partitions:
                    assert group.owner_epoch(topic, partition) == member.epoch
    twice = [owned for owned, count in owners.items() if count > 1]
    assert not twice, f"{group.group_id}: partitions with two owners: {twice}"


def _check_derived(group: ConsumerGroup) -> None:
    """What is kept up to date member by member is what the members make anew."""
    anew = ConsumerGroup(group.group_id)
    for member in group.members.values():
        anew.put_member(member)
    kept, made = vars(group), vars(anew)
    for name in _DERIVED:
        assert kept[name] == made[name], f"{group.group_id}: {name}"
    for instance_id, member_id in group.static_members.items():
        assert group.members[member_id].instance_id == instance_id


_DERIVED = (
    "topic_counts",
    "assignor_counts",
    "regex_counts",
    "static_members",
    "classic_count",
    "offers",
    "classic_protocols",
    "_subscriptions",
    "_owner_epochs",
)
