"""Replay of record types 3 to 8 and 16: a group of the consumer protocol (KIP-848).

It forgives what compaction took: a record with a value makes the group and the member
that it names, and a tombstone of something nobody knows is nothing (E22-40, E22-41).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from coterie.pipeline.gold.groups.ownership import GROUP_EMPTY, MEMBER_LEFT, MOVED
from coterie.pipeline.gold.groups.rebalances import cause_of_change, restarted
from coterie.pipeline.gold.groups.record import (
    CURRENT_MEMBER,
    GROUP_EPOCH,
    MEMBER,
    PARTITION_METADATA,
    TARGET_EPOCH,
    Record,
    parts_of,
)
from coterie.pipeline.gold.groups.sessions import LEFT, REPLACED, Session
from coterie.pipeline.gold.groups.state import (
    AWAY,
    CLASSIC,
    CONSUMER,
    STABLE,
    GroupState,
    Member,
)


def replay(group: GroupState, record: Record) -> None:
    """Make true what a record says; one without a value takes away."""
    handlers = _VALUES if record.has_value else _TOMBSTONES
    handle = handlers.get(record.record_type)
    if record.has_value:
        _ensure(group)
    elif group.protocol != CONSUMER:
        return
    if handle is not None:
        handle(group, record)
    if group.rebalances.are_lasting and _has_settled(group):
        group.rebalances.settle(group.now_us)


def _ensure(group: GroupState) -> None:
    if group.protocol == CONSUMER:
        return
    if group.protocol == CLASSIC and group.converting is None:
        group.switch("unknown")
    group.protocol = group.protocol_type = CONSUMER
    group.assignor = group.leader_id = None
    group.behind = set(group.members)


def _has_settled(group: GroupState) -> bool:
    """Every member is at the epoch of the newest target, and has it (K-05). Who means
    to come back is not waited for."""
    if not group.members:
        return True
    return group.assignment_epoch == group.epoch and not group.behind


def _look(group: GroupState, member: Member) -> None:
    """Has it what it is to have?"""
    settled = member.epoch == group.assignment_epoch and member.state == STABLE
    if settled or member.is_away:
        group.behind.discard(member.session.member_id)
    else:
        group.behind.add(member.session.member_id)


# Values.


def _member(group: GroupState, record: Record) -> None:
    member = _ensure_member(group, record)
    session = member.session
    group.carried.discard(session.member_id)
    topics = record.subscribed_topics, record.subscribed_regex
    if topics != (member.subscribed_topics, member.subscribed_regex):
        group.changes.subscription = True
    if record.server_assignor != member.server_assignor:
        group.changes.assignor = True
    member.subscribed_topics, member.subscribed_regex = topics
    member.server_assignor = record.server_assignor
    member.session_timeout_ms = record.session_timeout_ms
    member.rebalance_timeout_ms = record.rebalance_timeout_ms
    session.client_id, session.client_host = record.client_id, record.client_host
    session.rack_id = record.rack_id
    if session.instance_id is None and record.instance_id is not None:
        session.instance_id = record.instance_id
        _replaces(group, session)
    if record.is_classic_member:
        session.protocol = CLASSIC


def _replaces(group: GroupState, session: Session) -> None:
    """A static member that came back: the one whose place it takes was replaced."""
    for old in group.ended:
        if old.instance_id == session.instance_id and old is not session:
            old.end_reason = REPLACED
            session.is_lower_bound = False
            group.replaced.append((old, session))
            group.ownership.replace(old.member_id, session.member_id)


def _ensure_member(group: GroupState, record: Record) -> Member:
    assert record.member_id is not None, "the key names a member"
    member = group.members.get(record.member_id)
    if member is None:
        member = Member(_begin(group, record, record.member_id))
        group.members[record.member_id] = member
        _look(group, member)
        group.note_size(group.now_us)
    elif not member.session.is_open:
        old = member.session
        member.session = _begin(group, record, record.member_id)
        member.session.instance_id = old.instance_id
        old.end_reason = REPLACED
    member.session.seen_offset = record.log_offset
    return member


def _begin(group: GroupState, record: Record, member_id: str) -> Session:
    """Compaction may have taken what it said first, until something says otherwise."""
    lost = record.is_after_gap(None)
    return group.begin_session(record, member_id, CONSUMER, is_lower_bound=lost)


def _group_epoch(group: GroupState, record: Record) -> None:
    assert record.group_epoch is not None, "the record has an epoch"
    group.drop_carried(record, MEMBER_LEFT)
    for interval in group.closed:
        interval.epoch_to = record.group_epoch
    if record.metadata_hash != group.metadata_hash:
        group.changes.metadata = True
    gap = 0
    if group.epoch is not None and not group.converting:
        gap = max(0, record.group_epoch - group.epoch - 1)
    cause = _cause(group, record)
    group.rebalance(record, CONSUMER, record.group_epoch, cause, epoch_gap=gap)
    group.converting = None
    group.closed, group.ended, group.replaced = [], [], []
    group.epoch = record.group_epoch
    group.metadata_hash = record.metadata_hash
    if record.created_us is not None:
        group.created_us = record.created_us
    group.note_size(group.now_us)


def _cause(group: GroupState, record: Record) -> str:
    changes = group.changes
    if group.converting:
        return group.converting
    if group.epoch is None:
        return "unknown" if _begins_late(group, record) else "first"
    by_members = cause_of_change(
        [each.member_id for each in changes.came],
        [each.member_id for each in changes.went],
        restarted(group.sessions, changes.came),
        len(group.members),
    )
    if by_members:
        return by_members
    if changes.subscription:
        return "subscription_changed"
    if changes.metadata:
        return "metadata_changed"
    return "assignor_or_leader_changed" if changes.assignor else "unknown"


def _begins_late(group: GroupState, record: Record) -> bool:
    """A group's first epoch is 1 or 2: who makes a group bumps it."""
    return record.gap_offset is not None and (record.group_epoch or 0) > 1


def _partition_metadata(group: GroupState, record: Record) -> None:
    group.changes.metadata = True


def _target_epoch(group: GroupState, record: Record) -> None:
    group.assignment_epoch = record.assignment_epoch
    for member in group.members.values():
        _look(group, member)


def _current_member(group: GroupState, record: Record) -> None:
    assert record.member_epoch is not None, "the record has an epoch"
    member = _ensure_member(group, record)
    session = member.session
    assigned = parts_of(record.assigned, group.names)
    pending = parts_of(record.pending_revocation, group.names)
    lost = _lost(member, record)
    member.epoch, member.state = record.member_epoch, record.member_state
    member.assigned, member.pending_revocation = assigned, pending
    member.current_offset = record.log_offset
    if record.member_epoch == AWAY:
        _goes_away(group, record, member)
    else:
        at = group.at(record, record.member_epoch)
        owned = [*assigned, *pending]
        group.release(session, owned, at, MOVED)
        gains = group.ownership.give(session, owned, at, CONSUMER, is_lower_bound=lost)
        group.rebalances.gained(gains)
    _look(group, member)


def _lost(member: Member, record: Record) -> bool:
    """Whether the log may have lost what it was assigned before. A member whose first
    assignment came with it has lost nothing."""
    session, before = member.session, member.current_offset
    is_first = (record.previous_member_epoch or 0) <= 0
    if before is None and is_first and not record.is_after_gap(session.joined_offset):
        session.is_lower_bound = False
        return False
    if before is None:
        return session.is_lower_bound or record.is_after_gap(session.joined_offset)
    return record.is_after_gap(before)


def _goes_away(group: GroupState, record: Record, member: Member) -> None:
    """Its partitions wait for it, but nobody has them."""
    session = member.session
    group.release(session, (), group.at(record, group.epoch), MEMBER_LEFT)
    group.sessions.end(session, group.now_us, LEFT)


# Tombstones.


def _no_current_member(group: GroupState, record: Record) -> None:
    member = group.members.get(record.member_id or "")
    if member is not None:
        at = group.at(record, group.epoch)
        group.release(member.session, (), at, MEMBER_LEFT)
        member.epoch = member.state = None
        member.assigned, member.pending_revocation = (), None
        _look(group, member)


def _no_member(group: GroupState, record: Record) -> None:
    member = group.members.pop(record.member_id or "", None)
    if member is None:
        return
    session = member.session
    at = group.at(record, group.epoch)
    group.release(session, (), at, MEMBER_LEFT)
    group.end_session(session, LEFT)
    group.ended.append(session)
    group.behind.discard(session.member_id)
    if not group.members:
        for interval in group.closed:
            interval.end_reason = GROUP_EMPTY
    group.note_size(group.now_us)


def _no_group(group: GroupState, record: Record) -> None:
    group.delete(record)


def _no_target_epoch(group: GroupState, record: Record) -> None:
    group.assignment_epoch = None


_VALUES: Final[Mapping[int, Callable[[GroupState, Record], None]]] = {
    GROUP_EPOCH: _group_epoch,
    PARTITION_METADATA: _partition_metadata,
    MEMBER: _member,
    TARGET_EPOCH: _target_epoch,
    CURRENT_MEMBER: _current_member,
}
_TOMBSTONES: Final[Mapping[int, Callable[[GroupState, Record], None]]] = {
    GROUP_EPOCH: _no_group,
    MEMBER: _no_member,
    TARGET_EPOCH: _no_target_epoch,
    CURRENT_MEMBER: _no_current_member,
}
"""Types 7 and 16 say what is to be; who owns what is in type 8."""
