"""SyncGroup, key 14: members fetch their assignments, the leader sends all of them.

v3 has static members (KIP-345). v5 has the protocol type and name, which must be the
group's (KIP-559).

The leader's sync writes the generation, and the replay of that record makes the group
Stable. The responses to the parked syncs are replies of the same result, so no member
receives an assignment before it is durable.
"""

from __future__ import annotations

from coterie.broker.coordinator.classic.draft import (
    ClassicDraft,
    SyncReceived,
    SyncsCompleted,
)
from coterie.broker.coordinator.classic.errors import client_error
from coterie.broker.coordinator.classic.group import ClassicGroup, GroupState, HasGroups
from coterie.broker.coordinator.classic.group_metadata import generation_record
from coterie.broker.coordinator.classic.timers import cancel_sync, session_timer
from coterie.broker.coordinator.result import PARKED, Context, Result
from coterie.errors import ApiError
from coterie.types import MemberId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode


def handle(state: HasGroups, request: m.SyncGroupRequest, context: Context) -> Result:
    """Respond with the assignment, or park the sync until the leader's arrives.

    Raises:
        ApiError: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
            ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS,
            COORDINATOR_NOT_AVAILABLE.
    """
    group = _checked_group(state, request)
    member_id = request.member_id
    draft = ClassicDraft(group, context)
    if group.state is GroupState.STABLE:
        draft.make(SyncReceived(group.group_id, member_id, ticket=None))
        _end_sync_phase_if_over(draft)
        return draft.result(_response(group, group.members[member_id].assignment))
    assert group.state is GroupState.COMPLETING_REBALANCE, group.state
    if member_id == group.leader_id:
        return draft.result(_complete(draft, request))
    if (ticket := group.syncs.get(member_id)) is not None:
        # The client abandoned the earlier sync; only one can be parked.
        code = ErrorCode.REBALANCE_IN_PROGRESS
        draft.reply(ticket, m.SyncGroupResponse(error_code=code))
    draft.make(SyncReceived(group.group_id, member_id, ticket=context.ticket))
    _end_sync_phase_if_over(draft)
    return draft.result(PARKED)


def refuse(
    request: m.SyncGroupRequest,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> m.SyncGroupResponse:
    """Return the response that carries an error."""
    return m.SyncGroupResponse(error_code=client_error(code))


def _checked_group(state: HasGroups, request: m.SyncGroupRequest) -> ClassicGroup:
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    group = state.classic_groups.get(request.group_id)
    if group is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.checked_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    return group


def _differs(requested: str | None, actual: str | None) -> bool:
    # Both fields are null in versions below 5, and a null field is not compared.
    return requested is not None and requested != actual


def _complete(draft: ClassicDraft, request: m.SyncGroupRequest) -> m.SyncGroupResponse:
    """Write the leader's assignments and respond to all parked syncs."""
    group = draft.group
    assert request.member_id == group.leader_id
    assert group.leader_id not in group.syncs, "the leader's sync is never parked"
    members = group.members
    assignments: dict[MemberId, bytes] = {
        sent.member_id: sent.assignment for sent in request.assignments
    }
    parked = dict(group.syncs)
    for member_id, ticket in parked.items():
        draft.reply(ticket, _response(group, assignments.get(member_id, b"")))
    # The session timer has no effect while a sync is parked, so it starts again here.
    for member_id in (request.member_id, *parked):
        draft.set(session_timer(group.group_id, members[member_id], draft.now_ms))
    draft.make(SyncReceived(group.group_id, request.member_id, ticket=None))
    draft.make(SyncsCompleted(group.group_id))
    assert len(draft.group.syncs) == 0
    _end_sync_phase_if_over(draft)
    draft.write(generation_record(group, assignments, draft.wall_ms))
    return _response(group, assignments.get(request.member_id, b""))


def _end_sync_phase_if_over(draft: ClassicDraft) -> None:
    if not draft.group.unsynced:
        draft.set(cancel_sync(draft.group_id))


def _response(group: ClassicGroup, assignment: bytes) -> m.SyncGroupResponse:
    return m.SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )
