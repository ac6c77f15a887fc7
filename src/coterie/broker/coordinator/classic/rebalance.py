"""The rebalance of a classic group: prepare it, complete the join phase, become
empty.

All requests and timers that may start or end a rebalance call these functions on a
draft. Only the start of a rebalance and of a generation iterate over the members.
"""

from __future__ import annotations

from typing import Final

from coterie.broker.coordinator.classic.draft import (
    ClassicDraft,
    GenerationStarted,
    MemberRemoved,
    RebalancePrepared,
)
from coterie.broker.coordinator.classic.group import (
    GENERATION_MAX,
    MOVES,
    ClassicGroup,
    GroupState,
)
from coterie.broker.coordinator.classic.group_metadata import empty_record
from coterie.broker.coordinator.classic.timers import (
    cancel_join,
    cancel_session,
    cancel_sync,
    initial_delay_timer,
    join_timer,
    session_timer,
    sync_timer,
)
from coterie.types import MemberId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

_GENERATION_STATES: Final = (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)


def rebalance_or_complete(draft: ClassicDraft) -> None:
    """Start a rebalance for a new or changed member, or complete the one in
    progress."""
    if draft.group.state is GroupState.PREPARING_REBALANCE:
        complete_if_all_joined(draft)
    else:
        prepare(draft)


def rebalance_after_removal(draft: ClassicDraft) -> None:
    """Start a rebalance after members were removed, or stop waiting for them."""
    if draft.group.state in _GENERATION_STATES:
        prepare(draft)
    else:
        complete_if_all_joined(draft)


def prepare(draft: ClassicDraft) -> None:
    """Start a rebalance; the join phase ends at once when all members' joins are
    parked.

    An empty group waits `group.initial.rebalance.delay.ms` for more members,
    any other for its rebalance timeout.
    """
    group = draft.group
    assert GroupState.PREPARING_REBALANCE in MOVES[group.state], group.state
    initial = group.state is GroupState.EMPTY
    if not initial:
        refuse_syncs(draft, ErrorCode.REBALANCE_IN_PROGRESS)
        draft.set(cancel_sync(draft.group_id))
    draft.make(RebalancePrepared(draft.group_id, draft.wall_ms))
    if initial:
        delay_ms = max(draft.settings.group_initial_rebalance_delay_ms, 0)
        remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        timer = initial_delay_timer(
            draft.group_id, delay_ms, remaining_ms, now_ms=draft.now_ms
        )
        draft.set(timer)
    elif group.all_joined:
        end_join_phase(draft)
    else:
        wait_for_joins(draft)


def complete_if_all_joined(draft: ClassicDraft) -> None:
    """End the join phase when no member is missing and no initial delay runs."""
    group = draft.group
    if group.state is not GroupState.PREPARING_REBALANCE or group.initial:
        return
    if group.all_joined:
        end_join_phase(draft)


def end_join_phase(draft: ClassicDraft) -> None:
    """Start the next generation with the members that joined.

    Dynamic members that did not join are removed; static members stay until their
    session expires. If no member joined, the group becomes Empty, or waits for its
    static members.
    """
    group = draft.group
    assert group.state is GroupState.PREPARING_REBALANCE
    for member in tuple(group.members.values()):
        if member.group_instance_id is None and member.member_id not in group.joins:
            remove_member(draft, member.member_id)
    if not group.members:
        _become_empty(draft)
    elif not group.joins:
        wait_for_joins(draft)
    else:
        _start_generation(draft)


def remove_member(draft: ClassicDraft, member_id: MemberId) -> None:
    """Remove a member; fail its parked requests with UNKNOWN_MEMBER_ID.

    On that error a live client joins as a new member.
    """
    group = draft.group
    code = ErrorCode.UNKNOWN_MEMBER_ID
    if (ticket := group.joins.get(member_id)) is not None:
        draft.reply(ticket, m.JoinGroupResponse(error_code=code))
    if (ticket := group.syncs.get(member_id)) is not None:
        draft.reply(ticket, m.SyncGroupResponse(error_code=code))
    draft.make(MemberRemoved(draft.group_id, member_id))
    draft.set(cancel_session(draft.group_id, member_id))


def refuse_syncs(draft: ClassicDraft, code: ErrorCode) -> None:
    """Fail every parked sync with an error; the caller's next change removes them.

    A member with a parked sync sends no heartbeats, so its session timer starts here.
    """
    group = draft.group
    for member_id, ticket in group.syncs.items():
        draft.reply(ticket, m.SyncGroupResponse(error_code=code))
        draft.set(session_timer(draft.group_id, group.members[member_id], draft.now_ms))


def joined_response(
    group: ClassicGroup, member_id: MemberId, *, with_members: bool
) -> m.JoinGroupResponse:
    """Return the join response of a member in the current generation."""
    assert member_id in group.members
    assert group.state is not GroupState.PREPARING_REBALANCE
    return m.JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name or None,
        leader=group.leader_id or "",
        member_id=member_id,
        members=[
            m.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(group.protocol_name),
            )
            for member in (group.members.values() if with_members else ())
        ],
    )


def wait_for_joins(draft: ClassicDraft) -> None:
    """Start the timer of the join phase."""
    assert not draft.group.all_joined
    timeout_ms = draft.group.rebalance_timeout_ms
    draft.set(join_timer(draft.group_id, timeout_ms, draft.now_ms))


def _next_generation(group: ClassicGroup) -> int:
    return 0 if group.generation == GENERATION_MAX else group.generation + 1


def _become_empty(draft: ClassicDraft) -> None:
    group = draft.group
    assert not group.joins
    assert not group.static_members
    draft.set(cancel_join(draft.group_id))
    record = empty_record(
        draft.group_id,
        protocol_type=group.protocol_type,
        generation=_next_generation(group),
        at_ms=draft.wall_ms,
    )
    draft.write(record)


def _start_generation(draft: ClassicDraft) -> None:
    group = draft.group
    draft.set(cancel_join(draft.group_id))
    leader_id = group.leader_id
    if leader_id is None or leader_id not in group.joins:
        # The leader missed the join phase.
        leader_id = next(iter(group.joins))
    assert leader_id in group.members
    tickets = dict(group.joins)
    draft.make(
        GenerationStarted(
            draft.group_id,
            generation=_next_generation(group),
            protocol_name=group.select_protocol(),
            leader_id=leader_id,
            at_ms=draft.wall_ms,
        )
    )
    for member_id, ticket in tickets.items():
        is_leader = member_id == leader_id
        draft.reply(ticket, joined_response(group, member_id, with_members=is_leader))
    for member in group.members.values():
        draft.set(session_timer(draft.group_id, member, draft.now_ms))
    draft.set(sync_timer(group, draft.now_ms))
