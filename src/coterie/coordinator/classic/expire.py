"""What a classic group's timers do when they fire.

A timer may fire for a group or member that is gone, or for a phase that is over: then
nothing happens.
"""

from __future__ import annotations

from typing import assert_never

from coterie.coordinator.classic.changes import (
    InitialDelayExtended,
    PendingMemberDropped,
)
from coterie.coordinator.classic.draft import Draft
from coterie.coordinator.classic.group import ClassicGroup, GroupState, HasGroups
from coterie.coordinator.classic.rebalance import (
    complete_if_all_joined,
    end_join_phase,
    prepare,
    rebalance_after_removal,
    remove_member,
)
from coterie.coordinator.classic.timers import (
    EndInitialDelay,
    EndJoinPhase,
    EndSyncPhase,
    ExpireSession,
    TimerRequest,
    initial_delay_timer,
)
from coterie.coordinator.result import Context, Result
from coterie.types import MemberId


def handle(state: HasGroups, request: TimerRequest, context: Context) -> Result:
    """Do what the timer was for; nobody waits for an answer."""
    group = state.classic_groups.get(request.group_id)
    if group is None or group.state is GroupState.DEAD:
        return Result()
    draft = Draft(group, context.now_ms, context.settings)
    match request:
        case ExpireSession(member_id=member_id):
            _expire_session(draft, member_id)
        case EndInitialDelay():
            _end_initial_delay(draft, request)
        case EndJoinPhase():
            if group.state is GroupState.PREPARING_REBALANCE:
                end_join_phase(draft)
        case EndSyncPhase():
            _end_sync_phase(draft, request)
        case _:
            assert_never(request)
    return draft.result()


def _expire_session(draft: Draft, member_id: MemberId) -> None:
    group = draft.group
    if member_id in group.pending_members:
        draft.make(PendingMemberDropped(draft.group_id, member_id))
        complete_if_all_joined(draft)
    elif member_id in group.members and not _needs_no_heartbeat(group, member_id):
        remove_member(draft, member_id)
        rebalance_after_removal(draft)


def _needs_no_heartbeat(group: ClassicGroup, member_id: MemberId) -> bool:
    """A member with a parked request cannot send heartbeats, so it lives; but a new
    member's join only counts for `NEW_MEMBER_JOIN_TIMEOUT_MS`."""
    if member_id in group.new_members:
        return False
    return member_id in group.joins or member_id in group.syncs


def _end_initial_delay(draft: Draft, over: EndInitialDelay) -> None:
    """Complete the first generation, or wait on for more members (E19-04)."""
    group = draft.group
    if group.state is not GroupState.PREPARING_REBALANCE or not group.initial:
        return
    if not group.joined_in_delay or not over.remaining_ms:
        end_join_phase(draft)
        return
    draft.make(InitialDelayExtended(draft.group_id))
    delay_ms = min(draft.settings.group_initial_rebalance_delay_ms, over.remaining_ms)
    remaining_ms = max(over.remaining_ms - over.delay_ms, 0)
    draft.set(
        initial_delay_timer(draft.group_id, delay_ms, remaining_ms, now_ms=draft.now_ms)
    )


def _end_sync_phase(draft: Draft, over: EndSyncPhase) -> None:
    """Members that joined but sent no sync are removed, the rest rebalance (E19-09)."""
    group = draft.group
    if over.generation != group.generation or not group.unsynced:
        return
    assert group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
    for member_id in tuple(group.unsynced):
        remove_member(draft, member_id)
    prepare(draft)
