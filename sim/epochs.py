"""Epochs never go back: a group's, its assignment's, and each member's as long as it is
that member. Nor do they across a restart, as far as anybody can have heard of them."""

from __future__ import annotations

from typing import NamedTuple

from coterie.coordinator.classic.group import ClassicGroup
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import STATIC_LEAVE_EPOCH
from coterie.coordinator.records.group_metadata import GroupMetadataValue
from coterie.coordinator.result import Record
from coterie.coordinator.state import State
from coterie.types import GroupId, MemberId
from sim.broken import Broken


class Seen(NamedTuple):
    """The epochs of a group at one time."""

    epoch: int
    assignment_epoch: int
    members: dict[MemberId, int]
    is_classic: bool = False


def seen(state: State) -> dict[GroupId, Seen]:
    """The epochs of all consumer groups of a shard, and the generations of classic
    groups, which become epochs and come of them, as they are in the log."""
    found = {
        group_id: _of_record(record, state.classic_groups[group_id])
        for group_id, record in state.group_records.items()
    }
    for group_id, group in state.consumer_groups.items():
        found[group_id] = _of_group(group)
    return found


def _of_record(record: Record, group: ClassicGroup) -> Seen:
    """Who has left since the record was written is none of its members any more."""
    value = record.value
    assert isinstance(value, GroupMetadataValue)
    ids = {member.member_id for member in value.members} & group.members.keys()
    members = dict.fromkeys(ids, value.generation)
    return Seen(value.generation, value.generation, members, is_classic=True)


def _of_group(group: ConsumerGroup) -> Seen:
    members = {member.member_id: member.epoch for member in group.members.values()}
    return Seen(group.epoch, group.assignment_epoch, members)


def check_order(before: dict[GroupId, Seen], after: dict[GroupId, Seen]) -> None:
    """Raise Broken when something went back. A group that is gone is another one when
    it comes again."""
    for group_id, old in before.items():
        new = after.get(group_id)
        if new is None or (old.is_classic != new.is_classic and not old.members):
            continue
        _check(group_id, "group epoch", old.epoch, new.epoch)
        _check(group_id, "assignment epoch", old.assignment_epoch, new.assignment_epoch)
        for member_id, epoch in old.members.items():
            now = new.members.get(member_id, epoch)
            if now != STATIC_LEAVE_EPOCH:
                _check(group_id, f"epoch of {member_id}", epoch, now)


def _check(group_id: GroupId, what: str, before: int, after: int) -> None:
    if after < before:
        raise Broken(f"{group_id}: the {what} goes back from {before} to {after}")
