"""LeaveGroup, key 13: members leave, or an admin client removes them.

v0-v2 have one member and one error. v3 has a list of members, each with its own error
(KIP-345); an admin client removes a static member by its instance id alone. v5 has
reasons, which are not used (KIP-800).
"""

from __future__ import annotations

from typing import Final

from coterie.broker.coordinator.classic.draft import ClassicDraft, PendingMemberDropped
from coterie.broker.coordinator.classic.errors import client_error
from coterie.broker.coordinator.classic.group import ClassicGroup, HasGroups
from coterie.broker.coordinator.classic.rebalance import (
    rebalance_after_removal,
    remove_member,
)
from coterie.broker.coordinator.classic.timers import cancel_session
from coterie.broker.coordinator.result import Context, Result
from coterie.errors import ApiError
from coterie.types import MemberId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

BATCH_SINCE: Final = 3


def handle(state: HasGroups, request: m.LeaveGroupRequest, context: Context) -> Result:
    """Remove the members that can be removed; the others rebalance.

    Raises:
        ApiError: INVALID_GROUP_ID. The errors of single members are part of the
            response.
    """
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    leaving = leaving_of(request, context.api_version)
    group = state.classic_groups.get(request.group_id)
    if group is None:
        # The group may have been removed because its last member left, so each member
        # is unknown instead of the whole request failing.
        codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        return Result(response=response_of(leaving, codes, context.api_version))
    draft = ClassicDraft(group, context)
    codes = [_leave(draft, identity) for identity in leaving]
    if ErrorCode.NONE in codes:
        # The leave of a pending member starts a rebalance too, as in Kafka's
        # `GroupMetadataManager.classicGroupLeaveToClassicGroup`.
        rebalance_after_removal(draft)
    return draft.result(response_of(leaving, codes, context.api_version))


def refuse(
    request: m.LeaveGroupRequest,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> m.LeaveGroupResponse:
    """Return the response that carries an error for the whole request."""
    return m.LeaveGroupResponse(error_code=client_error(code))


def leaving_of(
    request: m.LeaveGroupRequest, api_version: int
) -> list[m.MemberIdentity]:
    """Return the members that leave; before version 3 the request has only one."""
    if api_version >= BATCH_SINCE:
        return request.members
    return [m.MemberIdentity(member_id=request.member_id)]


def _leave(draft: ClassicDraft, identity: m.MemberIdentity) -> ErrorCode:
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


def _member_id(group: ClassicGroup, identity: m.MemberIdentity) -> MemberId:
    instance_id = identity.group_instance_id
    if not identity.member_id and instance_id is not None:
        if (member_id := group.static_members.get(instance_id)) is not None:
            return member_id
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    return group.checked_member(identity.member_id, instance_id).member_id


def response_of(
    leaving: list[m.MemberIdentity], codes: list[ErrorCode], api_version: int
) -> m.LeaveGroupResponse:
    """Return the response with an error code for each member, in the request's
    order."""
    if api_version < BATCH_SINCE:
        return m.LeaveGroupResponse(error_code=codes[0])
    members = [
        m.MemberResponse(
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            error_code=code,
        )
        for identity, code in zip(leaving, codes, strict=True)
    ]
    return m.LeaveGroupResponse(members=members)
