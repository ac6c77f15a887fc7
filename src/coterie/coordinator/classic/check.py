"""What is always true of a classic group, whoever changed it last (habit 9).

For tests, the simulator and a loader that wants to know: it walks all members.
"""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from coterie.coordinator.classic.group import ClassicGroup, GroupState


def check(group: ClassicGroup) -> None:
    """Assert every relation between a group's parts.

    Raises:
        AssertionError: the group contradicts itself; it names the relation.
    """
    members = group.members.keys()
    for member_id, member in group.members.items():
        assert member.member_id == member_id
        assert member.protocols, "a member can do at least one protocol"
    assert group.joins.keys() <= members, "a parked join is a member's"
    assert group.syncs.keys() <= members, "a parked sync is a member's"
    assert group.unsynced.keys() <= members, "an awaited sync is a member's"
    assert group.new_members.keys() <= members, "a new member is a member"
    assert not group.syncs.keys() & group.unsynced.keys(), "a parked sync has come"
    assert not group.pending_members.keys() & members, "a pending member is none yet"
    assert group.generation >= 0, "a generation is not negative"
    _check_leader(group)
    _check_indexes(group)
    _check_state(group)


def _check_leader(group: ClassicGroup) -> None:
    if group.members:
        assert group.leader_id in group.members, "the leader is a member"
        assert group.protocol_type is not None, "members have a protocol type"
    elif group.state is GroupState.EMPTY:
        assert group.leader_id is None, "nobody leads nobody"


def _check_indexes(group: ClassicGroup) -> None:
    static = {
        member.group_instance_id: member_id
        for member_id, member in group.members.items()
        if member.group_instance_id is not None
    }
    assert dict(group.static_members) == static, "each instance has its one member"
    names = (
        {name for name, _ in member.protocols} for member in group.members.values()
    )
    supporters = Counter(name for each in names for name in each)
    assert dict(group.supporters) == supporters, "the count of a protocol's supporters"


def _check_state(group: ClassicGroup) -> None:
    match group.state:
        case GroupState.EMPTY:
            assert not group.members, "an empty group has no members"
        case GroupState.PREPARING_REBALANCE:
            assert not group.syncs, "no sync is parked in the join phase"
            assert not group.unsynced, "no sync is awaited in the join phase"
            done = group.all_joined and not group.initial
            assert not done, "a join phase ends when all have joined"
        case GroupState.COMPLETING_REBALANCE:
            assert group.leader_id not in group.syncs, "the leader's sync ends it all"
            _check_generation(group)
        case GroupState.STABLE:
            assert not group.syncs, "a stable group answers syncs at once"
            _check_generation(group)
        case GroupState.DEAD:
            assert not group.joins, "nobody waits for a dead group"
            assert not group.syncs, "nobody waits for a dead group"
        case _:
            assert_never(group.state)


def _check_generation(group: ClassicGroup) -> None:
    assert group.members, "a generation has members"
    assert not group.joins, "no join is parked in a generation"
    assert not group.new_members, "the members of a generation are not new"
    supported = group.supporters.get(group.protocol_name or "", 0)
    assert supported == len(group.members), "every member supports the protocol"
