"""Replay of record type 2: a generation of a classic group.

The record contains the whole group. A partition that is assigned to the same member in
two consecutive generations counts as never revoked. That holds for the eager protocol
too: its members revoke all partitions during a rebalance, but a partition that is
assigned to the same member again has not moved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

from coterie.pipeline.gold.groups.ownership import GROUP_EMPTY, MEMBER_LEFT, MOVED
from coterie.pipeline.gold.groups.rebalances import membership_cause, restarted_members
from coterie.pipeline.gold.groups.record import Record, TopicPartition, partitions_of
from coterie.pipeline.gold.groups.sessions import LEFT, REPLACED
from coterie.pipeline.gold.groups.state import CLASSIC, CONSUMER, GroupState, Member

MemberEntries: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Member entries of a record by member ID."""
Assignment: TypeAlias = Mapping[str, list[TopicPartition]]
"""Assigned partitions by member ID."""


def replay(group: GroupState, record: Record) -> None:  # noqa: PLR0915 - one pass
    """Apply a record that has a value."""
    assert record.generation is not None, "the record has a generation"
    if group.protocol == CONSUMER and group.conversion is None:
        group.begin_conversion("unknown")  # tombstones missing from the log
    entries = {entry["member_id"]: entry for entry in record.members or ()}
    is_new = _is_new_generation(group, record, entries)
    before = _Before(group)
    is_after_gap = record.is_after_gap(group.last_offset)
    assignment = {
        member_id: partitions_of(entry.get("assigned"), {})
        for member_id, entry in entries.items()
    }
    _remove_members(group, record, entries, assignment)
    for member_id, entry in entries.items():
        member = group.members.get(member_id)
        if member is None:
            session = group.begin_session(
                record, member_id, CLASSIC, is_lower_bound=is_after_gap
            )
            member = group.members[member_id] = Member(session)
        _update_member(member, record, entry)
        member.assigned = assignment[member_id]
    if is_new:
        cause = _cause(group, record, before, assignment, is_after_gap=is_after_gap)
        gap = 0
        if group.epoch is not None and not group.conversion:
            gap = max(0, record.generation - group.epoch - 1)
        rebalance = group.begin_rebalance(
            record, CLASSIC, record.generation, cause, epoch_gap=gap
        )
        # The record is written when the rebalance ends. The time since the previous
        # record is an upper bound for its duration.
        rebalance.end_ts = group.now_us
        rebalance.is_duration_exact = False
        if before.at_us is not None:
            rebalance.duration_us = group.now_us - before.at_us
    else:
        group.changes.joined.clear()
        group.changes.left.clear()
    moment = group.moment(record, record.generation)
    for member_id, partitions in assignment.items():
        assigned = group.ownership.assign(
            group.members[member_id].session,
            partitions,
            moment,
            CLASSIC,
            is_lower_bound=is_after_gap,
        )
        group.rebalances.add_assigned(assigned)
    group.protocol = CLASSIC
    group.conversion = None
    group.protocol_type = record.protocol_type
    group.assignor, group.leader_id = record.protocol, record.leader_id
    group.epoch = record.generation
    group.assignment_epoch = group.metadata_hash = None
    group.unreconciled.clear()
    empty_since_us = group.now_us if record.state_us is None else record.state_us
    group.update_empty_since(empty_since_us)
    group.rebalances.complete(group.now_us)


class _Before:
    """The state of the group before the record."""

    def __init__(self, group: GroupState) -> None:
        self.at_us = None if group.last_offset is None else group.previous_us
        self.topics = _topics_by_member(group)
        self.owned = set(group.ownership.owners)


def _topics_by_member(group: GroupState) -> dict[str, tuple[str, ...]]:
    return {
        member_id: tuple(member.subscribed_topics or ())
        for member_id, member in group.members.items()
    }


def _is_new_generation(
    group: GroupState, record: Record, entries: MemberEntries
) -> bool:
    if group.conversion:
        return True
    if group.protocol != CLASSIC:
        # A new group is written as generation 0, without members; no rebalance preceded
        # it.
        return bool(record.generation)
    # The record is also written, with the same generation, when a static member returns
    # with a new member ID. It may also be written with the same generation when the
    # last member leaves.
    became_empty = bool(group.members) and not entries
    return record.generation != group.epoch or became_empty


def _remove_members(
    group: GroupState, record: Record, entries: MemberEntries, assignment: Assignment
) -> None:
    """Remove the members that are not in the record; revoke from the others the
    partitions that they no longer have."""
    moment = group.moment(record, record.generation)
    instances = {entry.get("instance_id"): name for name, entry in entries.items()}
    instances.pop(None, None)
    reason = MEMBER_LEFT if entries else GROUP_EMPTY
    for member_id, member in list(group.members.items()):
        session = member.session
        if member_id in entries:
            group.revoke(session, assignment[member_id], moment, MOVED)
            continue
        group.revoke(session, (), moment, reason)
        successor = instances.get(session.instance_id)
        group.end_session(session, LEFT if successor is None else REPLACED)
        if successor is not None:
            group.ownership.replace_member_id(member_id, successor)
        del group.members[member_id]
    group.carried_over.clear()


def _update_member(member: Member, record: Record, entry: Mapping[str, Any]) -> None:
    session = member.session
    session.instance_id = entry.get("instance_id")
    session.client_id = entry.get("client_id")
    session.client_host = entry.get("client_host")
    session.last_offset = record.log_offset
    member.epoch = record.generation
    member.state = None
    member.subscribed_topics = entry.get("subscribed_topics")
    member.subscribed_regex = member.server_assignor = None
    member.pending_revocation = None
    member.session_timeout_ms = entry.get("session_timeout_ms")
    member.rebalance_timeout_ms = entry.get("rebalance_timeout_ms")


def _cause(
    group: GroupState,
    record: Record,
    before: _Before,
    assignment: Assignment,
    *,
    is_after_gap: bool,
) -> str:
    if group.conversion:
        return group.conversion
    if not group.epoch:
        return "unknown" if is_after_gap else "first"
    changes = group.changes
    cause = membership_cause(
        [session.member_id for session in changes.joined],
        [session.member_id for session in changes.left],
        restarted_members(group.sessions, changes.joined),
        len(group.members),
    )
    return cause or _cause_with_same_members(group, record, before, assignment)


def _cause_with_same_members(
    group: GroupState, record: Record, before: _Before, assignment: Assignment
) -> str:
    """Infer the cause of a generation with the same members from its differences.

    The log does not record why members rejoined. The order matters: a changed
    subscription changes the partitions, too.
    """
    now = {one for partitions in assignment.values() for one in partitions}
    if _topics_by_member(group) != before.topics:
        return "subscription_changed"
    if group.assignor != record.protocol:
        return "assignor_or_leader_changed"
    # A partition that never had an owner is new: its topic was created, or its
    # partition count was increased.
    if any(group.ownership.last_owner_of(partition) is None for partition in now):
        return "metadata_changed"
    if _topics_changed(group, before.owned, now):
        return "metadata_changed"
    # Cooperative protocol (KIP-429): the second generation assigns the partitions that
    # the first one revoked.
    if len(now) > len(before.owned):
        return "follow_up"
    if group.leader_id not in {None, record.leader_id}:
        return "assignor_or_leader_changed"
    return "unknown"


def _topics_changed(
    group: GroupState,
    before: Collection[TopicPartition],
    now: Collection[TopicPartition],
) -> bool:
    """Return whether a topic was deleted, or created again after its deletion.

    A topic without owners that has owners again counts only after a change of metadata:
    in a cooperative group its partitions may have been without an owner because they
    moved between members.
    """
    topics_before = {partition.topic for partition in before}
    topics_now = {partition.topic for partition in now}
    last_cause = group.rebalances.all[-1].cause if group.rebalances.all else None
    is_new = bool(topics_now - topics_before)
    return bool(topics_before - topics_now) or (
        is_new and last_cause == "metadata_changed"
    )
