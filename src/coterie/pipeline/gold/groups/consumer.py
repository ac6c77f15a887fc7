"""Replay of record types 3 to 8 and 16: a group of the consumer protocol (KIP-848).

Records may be missing after compaction. A record with a value creates its group and
member if they are missing (E22-40); a tombstone for a missing group or member is
ignored (E22-41).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from coterie.pipeline.gold.groups.ownership import GROUP_EMPTY, MEMBER_LEFT, MOVED
from coterie.pipeline.gold.groups.rebalances import membership_cause, restarted_members
from coterie.pipeline.gold.groups.record import (
    CURRENT_MEMBER,
    GROUP_EPOCH,
    MEMBER,
    PARTITION_METADATA,
    TARGET_EPOCH,
    Record,
    partitions_of,
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
    """Apply a record, which may be a tombstone."""
    if group.protocol != CONSUMER:
        if not record.has_value:
            return
        if group.protocol == CLASSIC and group.conversion is None:
            group.begin_conversion("unknown")  # tombstone missing from the log
        group.protocol = group.protocol_type = CONSUMER
        group.assignor = group.leader_id = None
        group.unreconciled = set(group.members)
    handlers = _VALUES if record.has_value else _TOMBSTONES
    handler = handlers.get(record.record_type)
    if handler is not None:
        handler(group, record)
    if group.rebalances.in_progress and _is_reconciled(group):
        group.rebalances.complete(group.now_us)


def _is_reconciled(group: GroupState) -> bool:
    """Return whether all members have reconciled the newest target assignment."""
    if not group.members:
        return True
    return group.assignment_epoch == group.epoch and not group.unreconciled


def _update_reconciled(group: GroupState, member: Member) -> None:
    # The coordinator does not wait for a static member that left temporarily (epoch
    # -2).
    is_stable = member.epoch == group.assignment_epoch and member.state == STABLE
    if is_stable or member.is_away:
        group.unreconciled.discard(member.session.member_id)
    else:
        group.unreconciled.add(member.session.member_id)


# Records with a value.


def _member(group: GroupState, record: Record) -> None:
    member = _ensure_member(group, record)
    session = member.session
    group.carried_over.discard(session.member_id)
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
        _mark_replaced(group, session)
    if record.is_classic_member:
        session.protocol = CLASSIC


def _mark_replaced(group: GroupState, session: Session) -> None:
    """Mark the session that a returning static member replaces. The tombstones of the
    old member ID and the record of the new one are in the same batch."""
    for old in group.ended_sessions:
        if old.instance_id == session.instance_id and old is not session:
            old.end_reason = REPLACED
            session.is_lower_bound = False
            group.replaced.append((old, session))
            group.ownership.replace_member_id(old.member_id, session.member_id)


def _ensure_member(group: GroupState, record: Record) -> Member:
    assert record.member_id is not None, "the key names a member"
    member = group.members.get(record.member_id)
    if member is None:
        member = Member(_begin_session(group, record, record.member_id))
        group.members[record.member_id] = member
        _update_reconciled(group, member)
        group.update_empty_since(group.now_us)
    elif not member.session.is_open:
        # A static member that left temporarily has returned with the same member ID.
        old = member.session
        member.session = _begin_session(group, record, record.member_id)
        member.session.instance_id = old.instance_id
        old.end_reason = REPLACED
    member.session.last_offset = record.log_offset
    return member


def _begin_session(group: GroupState, record: Record, member_id: str) -> Session:
    # After any gap, compaction may have removed the member's first records. The first
    # assignment corrects this when it shows that the member is new: see _is_after_loss.
    return group.begin_session(
        record, member_id, CONSUMER, is_lower_bound=record.is_after_gap(None)
    )


def _group_epoch(group: GroupState, record: Record) -> None:
    assert record.group_epoch is not None, "the record has an epoch"
    group.remove_carried_over(record, MEMBER_LEFT)
    for interval in group.closed_intervals:
        interval.epoch_to = record.group_epoch
    if record.metadata_hash != group.metadata_hash:
        group.changes.metadata = True
    gap = 0
    if group.epoch is not None and not group.conversion:
        gap = max(0, record.group_epoch - group.epoch - 1)
    cause = _cause(group, record)
    group.begin_rebalance(record, CONSUMER, record.group_epoch, cause, epoch_gap=gap)
    group.conversion = None
    group.closed_intervals, group.ended_sessions, group.replaced = [], [], []
    group.epoch = record.group_epoch
    group.metadata_hash = record.metadata_hash
    if record.created_us is not None:
        group.created_us = record.created_us
    group.update_empty_since(group.now_us)


def _cause(group: GroupState, record: Record) -> str:
    changes = group.changes
    if group.conversion:
        return group.conversion
    if group.epoch is None:
        may_lack_epochs = record.gap_offset is not None and not _is_first(group, record)
        return "unknown" if may_lack_epochs else "first"
    cause = membership_cause(
        [session.member_id for session in changes.joined],
        [session.member_id for session in changes.left],
        restarted_members(group.sessions, changes.joined),
        len(group.members),
    )
    if cause:
        return cause
    # A changed subscription changes the metadata hash, too, so it is checked first.
    if changes.subscription:
        return "subscription_changed"
    if changes.metadata:
        return "metadata_changed"
    return "assignor_or_leader_changed" if changes.assignor else "unknown"


def _is_first(group: GroupState, record: Record) -> bool:
    """Return whether the epoch is the first of its group, though it is after a gap."""
    # The first epoch is 1, and 2 since Apache Kafka 4.3 (ModernGroup). A log does not
    # name its writer: 2 is the first if the only member is new, without an assignment.
    if record.group_epoch != 2 or len(group.members) != 1:
        return (record.group_epoch or 0) <= 1
    [member] = group.members.values()
    return member.epoch is None and member.session in group.changes.joined


def _partition_metadata(group: GroupState, record: Record) -> None:
    group.changes.metadata = True


def _target_epoch(group: GroupState, record: Record) -> None:
    group.assignment_epoch = record.assignment_epoch
    for member in group.members.values():
        _update_reconciled(group, member)


def _current_member(group: GroupState, record: Record) -> None:
    assert record.member_epoch is not None, "the record has an epoch"
    member = _ensure_member(group, record)
    session = member.session
    assigned = partitions_of(record.assigned, group.names)
    pending = partitions_of(record.pending_revocation, group.names)
    is_after_loss = _is_after_loss(member, record)
    member.epoch, member.state = record.member_epoch, record.member_state
    member.assigned, member.pending_revocation = assigned, pending
    member.current_offset = record.log_offset
    if record.member_epoch == AWAY:
        # The partitions stay reserved for the static member, but no member consumes
        # them.
        group.revoke(session, (), group.moment(record, group.epoch), MEMBER_LEFT)
        group.sessions.end(session, group.now_us, LEFT)
    else:
        moment = group.moment(record, record.member_epoch)
        owned = [*assigned, *pending]
        group.revoke(session, owned, moment, MOVED)
        group.rebalances.add_assigned(
            group.ownership.assign(
                session, owned, moment, CONSUMER, is_lower_bound=is_after_loss
            )
        )
    _update_reconciled(group, member)


def _is_after_loss(member: Member, record: Record) -> bool:
    """Return whether earlier assignments of the member may be missing from the log."""
    session, before = member.session, member.current_offset
    if before is not None:
        return record.is_after_gap(before)
    is_first = (record.previous_member_epoch or 0) <= 0
    if is_first and not record.is_after_gap(session.joined_offset):
        # The first assignment ever, without a gap since the member's first record.
        session.is_lower_bound = False
        return False
    return session.is_lower_bound or record.is_after_gap(session.joined_offset)


# Tombstones.


def _remove_current_member(group: GroupState, record: Record) -> None:
    member = group.members.get(record.member_id or "")
    if member is not None:
        moment = group.moment(record, group.epoch)
        group.revoke(member.session, (), moment, MEMBER_LEFT)
        member.epoch = member.state = None
        member.assigned, member.pending_revocation = (), None
        _update_reconciled(group, member)


def _remove_member(group: GroupState, record: Record) -> None:
    member = group.members.pop(record.member_id or "", None)
    if member is None:
        return
    session = member.session
    group.revoke(session, (), group.moment(record, group.epoch), MEMBER_LEFT)
    group.end_session(session, LEFT)
    group.ended_sessions.append(session)
    group.unreconciled.discard(session.member_id)
    if not group.members:
        for interval in group.closed_intervals:
            interval.end_reason = GROUP_EMPTY
    group.update_empty_since(group.now_us)


def _remove_target_epoch(group: GroupState, record: Record) -> None:
    group.assignment_epoch = None


# Types 7 (target assignment of a member) and 16 (resolved regular expression) have no
# handler: neither changes the owner of a partition; type 8 does.
_VALUES: Final[Mapping[int, Callable[[GroupState, Record], None]]] = {
    GROUP_EPOCH: _group_epoch,
    PARTITION_METADATA: _partition_metadata,
    MEMBER: _member,
    TARGET_EPOCH: _target_epoch,
    CURRENT_MEMBER: _current_member,
}
_TOMBSTONES: Final[Mapping[int, Callable[[GroupState, Record], None]]] = {
    GROUP_EPOCH: GroupState.delete,
    MEMBER: _remove_member,
    TARGET_EPOCH: _remove_target_epoch,
    CURRENT_MEMBER: _remove_current_member,
}
