"""SyncGroup, key 14: members fetch their assignments, and the leader brings them.

v3 has static members (KIP-345). v5 says the protocol type and name, which must be the
group's (KIP-559).

The leader's sync writes the generation; its replay makes the group stable. Every
parked sync is a reply of that same result, so nobody knows an assignment before it is
durable (E19-08).
"""

from __future__ import annotations

from coterie.coordinator.classic.changes import SyncReceived, SyncsReleased
from coterie.coordinator.classic.draft import Draft
from coterie.coordinator.classic.group import ClassicGroup, GroupState, HasGroups
from coterie.coordinator.classic.records import generation_record
from coterie.coordinator.classic.refusals import told
from coterie.coordinator.classic.timers import cancel_sync, session_timer
from coterie.coordinator.result import PARKED, Context, Result
from coterie.errors import ApiError
from coterie.types import MemberId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(state: HasGroups, request: SyncGroupRequest, context: Context) -> Result:
    """Answer with the assignment, or park the sync until the leader's comes.

    Raises:
        ApiError: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
            ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS,
            COORDINATOR_NOT_AVAILABLE.
    """
    group = _checked_group(state, request)
    member_id = request.member_id
    draft = Draft(group, context.now_ms, context.settings)
    if group.state is GroupState.STABLE:
        draft.make(SyncReceived(group.group_id, member_id, ticket=None))
        _end_sync_phase_if_over(draft)
        return draft.result(_answer(group, group.members[member_id].assignment))
    assert group.state is GroupState.COMPLETING_REBALANCE, group.state
    if member_id == group.leader_id:
        return draft.result(_release(draft, request))
    if (ticket := group.syncs.get(member_id)) is not None:
        # The client gave that one up and asked again; only one can be parked.
        code = ErrorCode.REBALANCE_IN_PROGRESS
        draft.reply(ticket, SyncGroupResponse(error_code=code))
    draft.make(SyncReceived(group.group_id, member_id, ticket=context.ticket))
    _end_sync_phase_if_over(draft)
    return draft.result(PARKED)


def refuse(request: SyncGroupRequest, code: ErrorCode) -> SyncGroupResponse:
    """The answer that carries an error (E19-18)."""
    return SyncGroupResponse(error_code=told(code))


def _checked_group(state: HasGroups, request: SyncGroupRequest) -> ClassicGroup:
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    group = state.classic_groups.get(request.group_id)
    if group is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    if group.state is GroupState.DEAD:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
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


def _differs(said: str | None, actual: str | None) -> bool:
    """Versions below 5 do not say, which is not a difference."""
    return said is not None and said != actual


def _release(draft: Draft, request: SyncGroupRequest) -> SyncGroupResponse:
    """Write the leader's assignments and answer everyone who waits for them."""
    group = draft.group
    assert request.member_id == group.leader_id
    assert group.leader_id not in group.syncs, "the leader never waits"
    members = group.members
    assignments: dict[MemberId, bytes] = {
        given.member_id: given.assignment for given in request.assignments
    }
    waiting = {member: group.syncs[member] for member in group.syncs}
    for member_id, ticket in waiting.items():
        draft.reply(ticket, _answer(group, assignments.get(member_id, b"")))
    # While a sync is parked the session is not watched, so it starts anew.
    for member_id in (request.member_id, *waiting):
        draft.set(session_timer(group.group_id, members[member_id], draft.now_ms))
    draft.make(SyncReceived(group.group_id, request.member_id, ticket=None))
    draft.make(SyncsReleased(group.group_id))
    assert len(draft.group.syncs) == 0
    _end_sync_phase_if_over(draft)
    draft.write(generation_record(group, assignments, draft.now_ms))
    return _answer(group, assignments.get(request.member_id, b""))


def _end_sync_phase_if_over(draft: Draft) -> None:
    if not draft.group.unsynced:
        draft.set(cancel_sync(draft.group_id))


def _answer(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )
