"""LeaveGroup, key 13: members leave, or are made to.

v0-v2 name one member and answer with one error. v3 names many, each with an error of
its own (KIP-345); an admin removes a static member by its instance id alone. v5 has
reasons, which only people read (KIP-800).
"""

from __future__ import annotations

from typing import Final

from coterie.coordinator.classic.changes import PendingMemberDropped
from coterie.coordinator.classic.draft import Draft
from coterie.coordinator.classic.group import ClassicGroup, GroupState, HasGroups
from coterie.coordinator.classic.rebalance import (
    complete_if_all_joined,
    rebalance_after_removal,
    remove_member,
)
from coterie.coordinator.classic.refusals import told
from coterie.coordinator.classic.timers import cancel_session
from coterie.coordinator.result import Context, Result
from coterie.errors import ApiError
from coterie.types import MemberId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

BATCH_SINCE: Final = 3


def handle(state: HasGroups, request: LeaveGroupRequest, context: Context) -> Result:
    """Remove the members that can be removed; the others rebalance (E19-11).

    Raises:
        ApiError: INVALID_GROUP_ID, COORDINATOR_NOT_AVAILABLE. What is wrong with one
            member is in the answer.
    """
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    leaving = leaving_of(request, context.api_version)
    group = state.classic_groups.get(request.group_id)
    if group is None:
        # The group may be gone because its last member left: no error at the top,
        # each member is unknown (H-119).
        codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        return Result(response=answer(leaving, codes, context.api_version))
    if group.state is GroupState.DEAD:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    draft = Draft(group, context.now_ms, context.settings)
    codes = [_leave(draft, identity) for identity in leaving]
    if len(draft.group.members) < len(group.members):
        rebalance_after_removal(draft)
    elif len(draft.group.pending_members) < len(group.pending_members):
        complete_if_all_joined(draft)
    return draft.result(answer(leaving, codes, context.api_version))


def refuse(request: LeaveGroupRequest, code: ErrorCode) -> LeaveGroupResponse:
    """The answer that carries an error for the whole request (E19-18)."""
    return LeaveGroupResponse(error_code=told(code))


def leaving_of(request: LeaveGroupRequest, api_version: int) -> list[MemberIdentity]:
    """Who leaves; before version 3 it is one member."""
    if api_version >= BATCH_SINCE:
        return request.members
    return [MemberIdentity(member_id=request.member_id)]


def _leave(draft: Draft, identity: MemberIdentity) -> ErrorCode:
    group = draft.group
    if identity.member_id in group.pending_members:
        draft.make(PendingMemberDropped(draft.group_id, identity.member_id))
        draft.set(cancel_session(draft.group_id, identity.member_id))
        return ErrorCode.NONE
    try:
        remove_member(draft, _member_id(group, identity))
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def _member_id(group: ClassicGroup, identity: MemberIdentity) -> MemberId:
    instance_id = identity.group_instance_id
    if not identity.member_id and instance_id is not None:
        if (member_id := group.static_members.get(instance_id)) is not None:
            return member_id
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    return group.checked_member(identity.member_id, instance_id).member_id


def answer(
    leaving: list[MemberIdentity], codes: list[ErrorCode], api_version: int
) -> LeaveGroupResponse:
    """The answer that has an error for each; an identity comes back as it was said."""
    if api_version < BATCH_SINCE:
        return LeaveGroupResponse(error_code=codes[0])
    members = [
        MemberResponse(
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            error_code=code,
        )
        for identity, code in zip(leaving, codes, strict=True)
    ]
    return LeaveGroupResponse(members=members)
