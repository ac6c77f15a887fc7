"""Replay of record type 2: a generation of a classic group, or its end.

The record has the whole group: what a member has that it had in the generation before
was never away, whatever the protocol did in between (a rejoin keeps what it had).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from coterie.pipeline.gold.groups.ownership import GROUP_EMPTY, MEMBER_LEFT, MOVED
from coterie.pipeline.gold.groups.rebalances import cause_of_change, restarted
from coterie.pipeline.gold.groups.record import Part, Record, parts_of
from coterie.pipeline.gold.groups.sessions import LEFT, REPLACED, Session
from coterie.pipeline.gold.groups.state import CLASSIC, CONSUMER, GroupState, Member

Listed = Mapping[str, Mapping[str, Any]]
"""Members as the record lists them, by id."""


def replay(group: GroupState, record: Record) -> None:
    """Make true what a record with a value says."""
    assert record.generation is not None, "the record has a generation"
    if group.protocol == CONSUMER and group.converting is None:
        group.switch("unknown")
    listed = {each["member_id"]: each for each in record.members or ()}
    is_new = _is_new(group, record, listed)
    before = _Before(group)
    lost = record.is_after_gap(group.last_offset)
    wanted = {name: parts_of(each.get("assigned"), {}) for name, each in listed.items()}
    _let_go(group, record, listed, wanted)
    _take_in(group, record, listed, is_lower_bound=lost)
    for name, parts in wanted.items():
        group.members[name].assigned = parts
    if is_new:
        cause = _cause(group, record, before, wanted, is_lost=lost)
        gap = 0 if group.converting else _epoch_gap(group, record)
        row = group.rebalance(record, CLASSIC, record.generation, cause, epoch_gap=gap)
        row.end_us = group.now_us
        row.is_duration_exact = False
        if before.at_us is not None:
            row.duration_us = group.now_us - before.at_us
    else:
        group.changes.came.clear()
        group.changes.went.clear()
    _hand_out(group, record, wanted, is_lower_bound=lost)
    _remember(group, record)
    group.rebalances.settle(group.now_us)


class _Before:
    """The group before the record."""

    def __init__(self, group: GroupState) -> None:
        self.at_us = None if group.last_offset is None else group.previous_us
        self.topics = {
            name: tuple(member.subscribed_topics or ())
            for name, member in group.members.items()
        }
        self.owned = set(group.ownership.owners)


def _is_new(group: GroupState, record: Record, listed: Listed) -> bool:
    """A static member that came back changes the record, not the generation. What is
    written when a group is made is generation 0 (nobody is in it yet)."""
    if group.converting:
        return True
    if group.protocol != CLASSIC:
        return bool(record.generation)
    became_empty = bool(group.members) and not listed
    return record.generation != group.epoch or became_empty


def _epoch_gap(group: GroupState, record: Record) -> int:
    assert record.generation is not None
    if group.epoch is None:
        return 0
    return max(0, record.generation - group.epoch - 1)


def _let_go(
    group: GroupState,
    record: Record,
    listed: Listed,
    wanted: Mapping[str, list[Part]],
) -> None:
    """Members that are not listed are gone; the others lose what they have no more."""
    at = group.at(record, record.generation)
    instances = {each.get("instance_id"): name for name, each in listed.items()}
    instances.pop(None, None)
    reason = MEMBER_LEFT if listed else GROUP_EMPTY
    for member_id, member in list(group.members.items()):
        session = member.session
        if member_id in listed:
            group.release(session, wanted[member_id], at, MOVED)
            continue
        group.release(session, (), at, reason)
        successor = instances.get(session.instance_id)
        group.end_session(session, LEFT if successor is None else REPLACED)
        if successor is not None:
            group.ownership.replace(member_id, successor)
        del group.members[member_id]
    group.carried.clear()


def _take_in(
    group: GroupState, record: Record, listed: Listed, *, is_lower_bound: bool
) -> None:
    for member_id, each in listed.items():
        member = group.members.get(member_id)
        if member is None:
            session = group.begin_session(
                record, member_id, CLASSIC, is_lower_bound=is_lower_bound
            )
            member = group.members[member_id] = Member(session)
        _describe(member, record, each)


def _describe(member: Member, record: Record, each: Mapping[str, Any]) -> None:
    session: Session = member.session
    session.instance_id = each.get("instance_id")
    session.client_id = each.get("client_id")
    session.client_host = each.get("client_host")
    session.seen_offset = record.log_offset
    member.epoch = record.generation
    member.state = None
    member.subscribed_topics = each.get("subscribed_topics")
    member.subscribed_regex = member.server_assignor = None
    member.pending_revocation = None
    member.session_timeout_ms = each.get("session_timeout_ms")
    member.rebalance_timeout_ms = each.get("rebalance_timeout_ms")


def _hand_out(
    group: GroupState,
    record: Record,
    wanted: Mapping[str, list[Part]],
    *,
    is_lower_bound: bool,
) -> None:
    at = group.at(record, record.generation)
    for member_id, parts in wanted.items():
        gains = group.ownership.give(
            group.members[member_id].session,
            parts,
            at,
            CLASSIC,
            is_lower_bound=is_lower_bound,
        )
        group.rebalances.gained(gains)


def _remember(group: GroupState, record: Record) -> None:
    group.protocol = CLASSIC
    group.converting = None
    group.protocol_type = record.protocol_type
    group.assignor = record.protocol
    group.leader_id = record.leader_id
    group.epoch = record.generation
    group.assignment_epoch = group.metadata_hash = None
    group.behind.clear()
    group.note_size(group.now_us if record.state_us is None else record.state_us)


# Causes.


def _cause(
    group: GroupState,
    record: Record,
    before: _Before,
    wanted: Mapping[str, list[Part]],
    *,
    is_lost: bool,
) -> str:
    if group.converting:
        return group.converting
    if not group.epoch:
        return "unknown" if is_lost else "first"
    changes = group.changes
    by_members = cause_of_change(
        [each.member_id for each in changes.came],
        [each.member_id for each in changes.went],
        restarted(group.sessions, changes.came),
        len(group.members),
    )
    return by_members or _cause_of_the_same(group, record, before, wanted)


def _cause_of_the_same(
    group: GroupState,
    record: Record,
    before: _Before,
    wanted: Mapping[str, list[Part]],
) -> str:
    """Nobody came or went: what is different?"""
    now = {part for parts in wanted.values() for part in parts}
    topics = {
        name: tuple(member.subscribed_topics or ())
        for name, member in group.members.items()
    }
    if topics != before.topics:
        return "subscription_changed"
    if group.assignor != record.protocol:
        return "assignor_or_leader_changed"
    if any(group.ownership.had(part) is None for part in now):
        return "metadata_changed"
    if _topics_came_or_went(group, before.owned, now):
        return "metadata_changed"
    if len(now) > len(before.owned):
        return "follow_up"
    if group.leader_id not in {None, record.leader_id}:
        return "assignor_or_leader_changed"
    return "unknown"


def _topics_came_or_went(
    group: GroupState, before: Collection[Part], now: Collection[Part]
) -> bool:
    """A topic is gone, or one is back that was gone. In a cooperative group it may only
    have been on its way from one member to another."""
    had, have = ({part.topic for part in parts} for parts in (before, now))
    last_cause = group.rebalances.all[-1].cause if group.rebalances.all else None
    return bool(had - have) or (bool(have - had) and last_cause == "metadata_changed")
