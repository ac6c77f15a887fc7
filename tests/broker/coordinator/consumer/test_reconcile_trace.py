"""KIP-848's reference trace, step by step: a third member joins a group (E5.3).

Each step checks the reconciled member, whether its assignment changed (the heartbeat
response then contains it), and whether the member changed at all (a record is written).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import pytest

from coterie.broker.coordinator.consumer.group import ConsumerGroup, ConsumerGroupState
from coterie.broker.coordinator.consumer.member import Member, MemberState
from coterie.broker.coordinator.consumer.reconcile import (
    Owned,
    ReconcileInput,
    reconcile,
)
from coterie.types import TopicId

FOO, BAR = b"f" * 16, b"b" * 16
STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS
Plain = Mapping[TopicId, Collection[int]]


class Outcome(NamedTuple):
    """The state of a member after a heartbeat, and the kinds of changes."""

    epoch: int
    previous_epoch: int
    state: MemberState
    is_assignment_changed: bool
    is_record_written: bool


def beat(group: ConsumerGroup, member_id: str, owned: Owned | None = None) -> Outcome:
    """Reconcile a member, and replay the result."""
    before = group.members[member_id]
    step = ReconcileInput(
        target_epoch=group.assignment_epoch,
        target=group.target(member_id),
        owner_epoch=group.owner_epoch,
        subscribed=(FOO, BAR),
        owned=owned,
    )
    after = reconcile(before, step)
    if after is not before:
        group.put_member(after)
    return Outcome(
        after.epoch,
        after.previous_epoch,
        after.state,
        after.assigned != before.assigned,
        after is not before,
    )


def held(group: ConsumerGroup, member_id: str) -> dict[TopicId, set[int]]:
    assigned = group.members[member_id].assigned
    return {topic: set(partitions) for topic, partitions in assigned.items()}


def set_target(group: ConsumerGroup, member_id: str, target: Plain) -> None:
    group.targets[member_id] = {t: frozenset(some) for t, some in target.items()}


def put_stable(group: ConsumerGroup, member_id: str, assigned: Plain) -> None:
    held_at = {topic: dict.fromkeys(some, 10) for topic, some in assigned.items()}
    member = Member(member_id=member_id, epoch=10, previous_epoch=9, assigned=held_at)
    group.put_member(member)
    set_target(group, member_id, assigned)


def group_of_two() -> ConsumerGroup:
    """Return a stable group at epoch 10, with members m1 and m2."""
    group = ConsumerGroup("group")
    group.epoch = group.assignment_epoch = 10
    put_stable(group, "m1", {FOO: [0, 1, 2], BAR: [0, 1]})
    put_stable(group, "m2", {FOO: [3, 4, 5], BAR: [2]})
    return group


def add_the_third(group: ConsumerGroup) -> None:
    """Add m3 at group epoch 11, with a target assignment for all members."""
    group.put_member(Member(member_id="m3"))
    group.epoch = group.assignment_epoch = 11
    set_target(group, "m1", {FOO: [0, 1], BAR: [0]})
    set_target(group, "m2", {FOO: [2, 3], BAR: [2]})
    set_target(group, "m3", {FOO: [4, 5], BAR: [1]})


@pytest.mark.fact("E4-04", "E5-10", "E5-12", "E5-13", "E5-14")
def test_the_reference_trace() -> None:
    group = group_of_two()
    assert group.state is ConsumerGroupState.STABLE
    add_the_third(group)

    # 1: m3 joins and has to wait for everything.
    assert beat(group, "m3", {}) == Outcome(11, 0, UNRELEASED, False, True)
    assert held(group, "m3") == {}
    assert group.state is ConsumerGroupState.RECONCILING
    # 2 and 3: m1 and m2 must revoke partitions.
    assert beat(group, "m1") == Outcome(10, 10, UNREVOKED, True, True)
    assert held(group, "m1") == {FOO: {0, 1}, BAR: {0}}
    assert beat(group, "m2") == Outcome(10, 10, UNREVOKED, True, True)
    assert held(group, "m2") == {FOO: {3}, BAR: {2}}
    # 4: m3 still waits; its previous epoch changes, so a record is written.
    assert beat(group, "m3") == Outcome(11, 11, UNRELEASED, False, True)
    # 5: m1 has revoked its partitions.
    owned_by_m1 = {FOO: [0, 1], BAR: [0]}
    assert beat(group, "m1", owned_by_m1) == Outcome(11, 10, STABLE, False, True)
    # 6: m2 has not revoked its partitions yet.
    assert beat(group, "m2") == Outcome(10, 10, UNREVOKED, False, False)
    # 7 and 8: m3 gets the partitions of m1 and waits for others.
    assert beat(group, "m3") == Outcome(11, 11, UNRELEASED, True, True)
    assert held(group, "m3") == {BAR: {1}}
    assert beat(group, "m3") == Outcome(11, 11, UNRELEASED, False, False)
    # 9: m2 has revoked, and gets a partition of m1 in the same step.
    owned_by_m2 = {FOO: [3], BAR: [2]}
    assert beat(group, "m2", owned_by_m2) == Outcome(11, 10, STABLE, True, True)
    assert held(group, "m2") == {FOO: {2, 3}, BAR: {2}}
    # 10: m3 gets its remaining partitions.
    assert beat(group, "m3", {BAR: [1]}) == Outcome(11, 11, STABLE, True, True)
    assert held(group, "m3") == {FOO: {4, 5}, BAR: {1}}
    assert group.state is ConsumerGroupState.STABLE
