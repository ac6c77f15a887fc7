"""LeaveGroup, key 13, of a consumer group: members of the classic protocol leave, and
an admin removes members of either (E20-30, KAFKA-18188)."""

from __future__ import annotations

from coterie.coordinator.classic import leave
from coterie.coordinator.consumer.classic_members import any_member
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.consumer.members import unknown_member
from coterie.coordinator.consumer.removal import remove_members
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.errors import ApiError
from coterie.types import MemberId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity


def handle(state: State, request: LeaveGroupRequest, context: Context) -> Result:
    """Remove the members that can be removed, all in one epoch, from a group of either
    type.

    Raises:
        ApiError: What `classic.leave.handle` raises. What is wrong with one member is
            in the answer.
    """
    group = state.consumer_groups.get(request.group_id)
    if group is None:
        return leave.handle(state, request, context)
    draft = Draft(group, context)
    leaving = leave.leaving_of(request, context.api_version)
    gone: dict[MemberId, Member] = {}
    codes = [_take_out(draft, identity, gone) for identity in leaving]
    if gone:
        remove_members(draft, gone.values())
    return draft.result(leave.answer(leaving, codes, context.api_version))


def _take_out(
    draft: Draft, identity: MemberIdentity, gone: dict[MemberId, Member]
) -> ErrorCode:
    try:
        member = _member(draft, identity)
    except ApiError as error:
        return error.code
    if member.member_id in gone:
        return ErrorCode.UNKNOWN_MEMBER_ID
    gone[member.member_id] = member
    return ErrorCode.NONE


def _member(draft: Draft, identity: MemberIdentity) -> Member:
    """An instance id alone is an admin's way to name a member (KIP-345)."""
    instance_id = identity.group_instance_id
    if identity.member_id or instance_id is None:
        return any_member(draft, identity.member_id, instance_id)
    member = draft.static_member(instance_id)
    if member is None:
        raise unknown_member(draft, identity.member_id)
    return member
