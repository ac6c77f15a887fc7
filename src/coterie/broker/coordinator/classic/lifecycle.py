"""Handle the timers of a classic group, and the start and end of its shard.

A timer may fire for a group or member that no longer exists, or for a phase that has
ended: then nothing happens.
"""

from __future__ import annotations

from typing import assert_never

from coterie.broker.coordinator.classic.draft import (
    ClassicDraft,
    InitialDelayExtended,
    PendingMemberDropped,
)
from coterie.broker.coordinator.classic.group import ClassicGroup, GroupState, HasGroups
from coterie.broker.coordinator.classic.rebalance import (
    end_join_phase,
    prepare,
    rebalance_after_removal,
    remove_member,
    wait_for_joins,
)
from coterie.broker.coordinator.classic.timers import (
    EndInitialDelay,
    EndJoinPhase,
    EndSyncPhase,
    ExpireSession,
    TimerRequest,
    initial_delay_timer,
    session_timer,
)
from coterie.broker.coordinator.result import Context, Result
from coterie.types import MemberId


def handle_timer(state: HasGroups, request: TimerRequest, context: Context) -> Result:
    """Return the result of a fired timer."""
    group = state.classic_groups.get(request.group_id)
    if group is None:
        return Result()
    draft = ClassicDraft(group, context)
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


def _expire_session(draft: ClassicDraft, member_id: MemberId) -> None:
    group = draft.group
    if member_id in group.pending_members:
        draft.make(PendingMemberDropped(draft.group_id, member_id))
        _end_join_phase_if_over(draft)
        return
    # A member with a parked request sends no heartbeats, so its session does not
    # expire. A new member's session does, `NEW_MEMBER_JOIN_TIMEOUT_MS` after its join.
    is_parked = member_id in group.joins or member_id in group.syncs
    if member_id in group.members and (member_id in group.new_members or not is_parked):
        remove_member(draft, member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            _end_join_phase_if_over(draft)
        else:
            rebalance_after_removal(draft)


def _end_join_phase_if_over(draft: ClassicDraft) -> None:
    # An expiration ends the initial rebalance delay too, as in Kafka's
    # `GroupMetadataManager.removeMemberAndUpdateClassicGroup`; a leave does not.
    group = draft.group
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
        end_join_phase(draft)


def _end_initial_delay(draft: ClassicDraft, ended: EndInitialDelay) -> None:
    """Complete the first join phase, or extend the delay for more members."""
    group = draft.group
    if group.state is not GroupState.PREPARING_REBALANCE or not group.initial:
        return
    if not group.joined_in_delay or not ended.remaining_ms:
        end_join_phase(draft)
        return
    draft.make(InitialDelayExtended(draft.group_id))
    delay_ms = max(draft.settings.group_initial_rebalance_delay_ms, 0)
    delay_ms = min(delay_ms, ended.remaining_ms)
    remaining_ms = max(ended.remaining_ms - ended.delay_ms, 0)
    draft.set(
        initial_delay_timer(draft.group_id, delay_ms, remaining_ms, now_ms=draft.now_ms)
    )


def _end_sync_phase(draft: ClassicDraft, ended: EndSyncPhase) -> None:
    """Remove the members that joined and sent no sync; the others rebalance."""
    group = draft.group
    if ended.generation != group.generation or not group.unsynced:
        return
    assert group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
    for member_id in tuple(group.unsynced):
        remove_member(draft, member_id)
    prepare(draft)


def loaded(group: ClassicGroup, context: Context) -> Result:
    """Start the session timers after a load; rebalance if the group is too large.

    Every member gets a whole session timeout. A group that was being downgraded
    continues its rebalance.
    """
    draft = ClassicDraft(group, context)
    for member in group.members.values():
        draft.set(session_timer(group.group_id, member, context.now_ms))
    if group.state is GroupState.PREPARING_REBALANCE:
        wait_for_joins(draft)
    elif len(group.members) > draft.settings.group_max_size:
        prepare(draft)
    return draft.result()
