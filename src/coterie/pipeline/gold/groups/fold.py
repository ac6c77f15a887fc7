"""All that happened in one group, from its records in order of the log.

Pure, and without Spark: `pipeline.gold.group_history` calls it for each group. A change
of protocol is seen by looking ahead (K-07): the tombstones of one kind of group right
before the records of the other, in one batch, end nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coterie.pipeline.gold.groups import classic, consumer
from coterie.pipeline.gold.groups.record import (
    CLASSIC_GROUP,
    GROUP_EPOCH,
    Names,
    Part,
    Record,
)
from coterie.pipeline.gold.groups.state import (
    CLASSIC,
    CONSUMER,
    STABLE,
    Changes,
    GroupState,
    Member,
)
from coterie.pipeline.gold.groups.storms import StormRule, mark_storms

_STATES: Final = {0: "stable", 1: "unrevoked_partitions", 2: "unreleased_partitions"}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Folded:
    """Rows of the gold tables, without the columns that all rows of a group share.
    Times are in microseconds since 1970."""

    group: Row
    members: Sequence[Row]
    ownership: Sequence[Row]
    sessions: Sequence[Row]
    rebalances: Sequence[Row]


def fold(
    group_id: str,
    records: Sequence[Record],
    names: Names,
    storms: StormRule,
) -> Folded:
    """Replay a group's records, which are all it has, in order of their offsets."""
    group = GroupState(group_id, names)
    downgrades = _downgrades(records)
    for index, record in enumerate(records):
        _advance(group, record)
        if index in downgrades:
            if group.protocol == CONSUMER and group.converting is None:
                group.switch("downgraded")
        elif record.record_type != CLASSIC_GROUP:
            consumer.replay(group, record)
        elif record.has_value:
            classic.replay(group, record)
        elif group.protocol == CLASSIC:
            _end_classic(group, record, records[index + 1 : index + 2])
        group.last_offset = record.log_offset
    group.rebalances.finish()
    mark_storms(group_id, group.rebalances.all, storms)
    return Folded(
        _group_row(group),
        [_member_row(member) for member in group.members.values()],
        [*group.ownership.rows()],
        [*group.sessions.rows()],
        [*group.rebalances.rows()],
    )


def _advance(group: GroupState, record: Record) -> None:
    group.previous_us = group.now_us
    if record.at_us is not None:
        group.now_us = max(group.now_us, record.at_us)
    if group.first_us is None:
        group.first_us = group.now_us
    if record.base_offset != group.base_offset:
        _begin_batch(group)
        group.base_offset = record.base_offset


def _begin_batch(group: GroupState) -> None:
    """What the batch before did not make an epoch of needs none: a static member that
    took a place over, a member's new rack."""
    changes = group.changes
    for old, new in group.replaced:
        changes.went = [each for each in changes.went if each is not old]
        changes.came = [each for each in changes.came if each is not new]
    group.changes = Changes(changes.came, changes.went)
    group.closed, group.ended, group.replaced = [], [], []


def _downgrades(records: Sequence[Record]) -> set[int]:
    """Which tombstones of a consumer group come right before it is a classic one."""
    found: set[int] = set()
    for index, record in enumerate(records):
        if record.record_type == CLASSIC_GROUP and record.has_value:
            run = _tombstones_before(records, index)
            if any(records[each].record_type == GROUP_EPOCH for each in run):
                found.update(run)
    return found


def _tombstones_before(records: Sequence[Record], index: int) -> range:
    first = index
    base_offset = records[index].base_offset
    while first:
        before = records[first - 1]
        is_of_run = before.record_type != CLASSIC_GROUP and not before.has_value
        if before.base_offset != base_offset or not is_of_run:
            break
        first -= 1
    return range(first, index)


def _end_classic(
    group: GroupState, record: Record, following: Sequence[Record]
) -> None:
    """Deleted, or upgraded: then its members come next, in the same batch."""
    for after in following:
        is_other = after.record_type != CLASSIC_GROUP and after.has_value
        if is_other and after.base_offset == record.base_offset:
            group.switch("upgraded")
            return
    group.delete(record)


# Rows.


def _group_row(group: GroupState) -> Row:
    members = group.members.values()
    owned = {*group.ownership.owners}
    return {
        "group_type": group.protocol,
        "protocol_type": group.protocol_type,
        "assignor": _assignor(group),
        "state": None if group.protocol is None else _state(group),
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "leader_member_id": group.leader_id,
        "member_count": len(members),
        "static_member_count": sum(
            member.session.instance_id is not None for member in members
        ),
        "owned_partition_count": len(owned),
        "created_ts": group.created_us,
        "first_seen_ts": group.first_us,
        "last_state_change_ts": group.now_us,
        "empty_since_ts": group.empty_since_us,
        "last_log_offset": group.last_offset,
        "nameless_topic_ids": sorted(_nameless(group)),
    }


def _assignor(group: GroupState) -> str | None:
    if group.protocol != CONSUMER:
        return group.assignor
    asked = Counter(
        member.server_assignor
        for member in group.members.values()
        if member.server_assignor is not None
    )
    most = max(asked.values(), default=0)
    return min((name for name, count in asked.items() if count == most), default=None)


def _state(group: GroupState) -> str:
    """As the coordinator describes it; a static member that is away keeps a consumer
    group from being stable."""
    members = group.members.values()
    if not members:
        return "Empty"
    if group.protocol == CLASSIC:
        return "Stable"
    if (group.epoch or 0) > (group.assignment_epoch or 0):
        return "Assigning"
    reconciled = all(
        member.epoch == group.assignment_epoch and member.state == STABLE
        for member in members
    )
    return "Stable" if reconciled else "Reconciling"


def _nameless(group: GroupState) -> Iterable[str]:
    return {
        each.part.topic_id
        for each in group.ownership.all
        if each.part.topic is None and each.part.topic_id is not None
    }


def _member_row(member: Member) -> Row:
    session, pending = member.session, member.pending_revocation
    state = None
    if member.state is not None:
        state = "away" if member.is_away else _STATES.get(member.state, "unknown")
    return {
        "member_id": session.member_id,
        "instance_id": session.instance_id,
        "client_id": session.client_id,
        "client_host": session.client_host,
        "rack_id": session.rack_id,
        "protocol": session.protocol,
        "member_epoch": member.epoch,
        "member_state": state,
        "subscribed_topics": member.subscribed_topics,
        "subscribed_regex": member.subscribed_regex,
        "assigned": _listed(member.assigned),
        "pending_revocation": None if pending is None else _listed(pending),
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "since_ts": session.joined_us,
    }


def _listed(parts: Iterable[Part]) -> list[Row]:
    return [part._asdict() for part in parts]
