"""Check that the epochs of groups, assignments and members never decrease. Across a
restart this holds for durable epochs, which responses may have contained.
"""

from __future__ import annotations

from typing import NamedTuple

from coterie.broker.coordinator.classic.group import ClassicGroup
from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import STATIC_LEAVE_EPOCH
from coterie.broker.coordinator.records import GroupMetadataValue
from coterie.broker.coordinator.result import Record
from coterie.broker.coordinator.state import State
from coterie.types import GroupId, MemberId
from sim.broken import Broken


class EpochSnapshot(NamedTuple):
    """The epochs of a group at one time."""

    epoch: int
    assignment_epoch: int
    members: dict[MemberId, int]
    is_classic: bool = False


def seen(state: State) -> dict[GroupId, EpochSnapshot]:
    """Return the epochs of all consumer groups, and the durable generations of classic
    groups."""
    found = {
        group_id: _of_record(record, state.classic_groups[group_id])
        for group_id, record in state.group_records.items()
    }
    for group_id, group in state.consumer_groups.items():
        found[group_id] = _of_group(group)
    return found


def _of_record(record: Record, group: ClassicGroup) -> EpochSnapshot:
    """Return the epochs of a record; members that have left since are dropped."""
    value = record.value
    assert isinstance(value, GroupMetadataValue)
    ids = {member.member_id for member in value.members} & group.members.keys()
    members = dict.fromkeys(ids, value.generation)
    return EpochSnapshot(value.generation, value.generation, members, is_classic=True)


def _of_group(group: ConsumerGroup) -> EpochSnapshot:
    members = {member.member_id: member.epoch for member in group.members.values()}
    return EpochSnapshot(group.epoch, group.assignment_epoch, members)


def check_order(
    before: dict[GroupId, EpochSnapshot], after: dict[GroupId, EpochSnapshot]
) -> None:
    """Raise Broken when an epoch decreased. A deleted group may start over, and so may
    one whose members have left and that others changed to the other protocol since."""
    for group_id, old in before.items():
        new = after.get(group_id)
        if new is None or (
            old.is_classic != new.is_classic
            and not old.members.keys() & new.members.keys()
        ):
            continue
        _check(group_id, "group epoch", old.epoch, new.epoch)
        _check(group_id, "assignment epoch", old.assignment_epoch, new.assignment_epoch)
        for member_id, epoch in old.members.items():
            now = new.members.get(member_id, epoch)
            if now != STATIC_LEAVE_EPOCH:
                _check(group_id, f"epoch of {member_id}", epoch, now)


def _check(group_id: GroupId, what: str, before: int, after: int) -> None:
    if after < before:
        raise Broken(f"{group_id}: the {what} decreases from {before} to {after}")
