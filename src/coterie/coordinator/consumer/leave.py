"""A member leaves with its heartbeat: for good (-1), or to come back (-2) (E7.7)."""

from __future__ import annotations

from coterie.coordinator.consumer import timers
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.member import STATIC_LEAVE_EPOCH, Member
from coterie.coordinator.consumer.members import static_member, unknown_member
from coterie.coordinator.consumer.removal import remove_members
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(
    state: State, request: ConsumerGroupHeartbeatRequest, context: Context
) -> Result:
    """Let the member go; the answer has its id and the epoch it left with.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID (E7-61), FENCED_INSTANCE_ID
            (E7-62, E9-10).
    """
    group = state.consumer_groups.get(request.group_id)
    if group is None:
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found."
        )
    draft = Draft(group, context)
    member = _leaver(draft, request)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        _leave_for_now(draft, member)
    else:
        remove_members(draft, (member,))
    return draft.result(
        ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
    )


def _leaver(draft: Draft, request: ConsumerGroupHeartbeatRequest) -> Member:
    if request.instance_id is not None:
        return static_member(draft, request.member_id, request.instance_id)
    member = draft.member(request.member_id)
    if member is None:
        raise unknown_member(draft, request.member_id)
    return member


def _leave_for_now(draft: Draft, member: Member) -> None:
    """The instance keeps its partitions and its target until its session ends, which
    goes on from its last heartbeat (E7-63, E9-11). It computes nothing meanwhile."""
    assert member.instance_id is not None, "only a static member comes back"
    draft.put_current(
        member.at(STATIC_LEAVE_EPOCH, member.state, assigned=member.assigned)
    )
    draft.set(timers.cancel_rebalance(draft.group_id, member.member_id))
    draft.relieve(member.member_id)
