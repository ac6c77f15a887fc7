"""SyncGroup, key 14, of a member of a consumer group that speaks the classic protocol:
it fetches what it was assigned when it joined (E20-26)."""

from __future__ import annotations

from coterie.coordinator.classic import sync
from coterie.coordinator.classic.group import CONSUMER_PROTOCOL_TYPE
from coterie.coordinator.consumer import timers
from coterie.coordinator.consumer.classic_members import classic_member, is_behind
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.embedded import version_of, write_assignment
from coterie.coordinator.consumer.member import MemberState
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(state: State, request: SyncGroupRequest, context: Context) -> Result:
    """Answer with the member's assignment, whichever type its group has.

    Raises:
        ApiError: What `classic.sync.handle` raises; UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL.
    """
    group = state.consumer_groups.get(request.group_id)
    if group is None:
        return sync.handle(state, request, context)
    draft = Draft(group, context)
    member, face = classic_member(
        draft,
        request.member_id,
        request.group_instance_id,
        generation=request.generation_id,
    )
    name, subscription = face.first
    _check_protocol(request, name)
    if (
        is_behind(draft, member)
        and member.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        # One that has to revoke first is told now what it may keep.
        draft.set(timers.join_timer(group.group_id, member, context.now_ms))
        code = ErrorCode.REBALANCE_IN_PROGRESS
        return draft.result(sync.refuse(request, code))
    draft.set(timers.cancel_sync(group.group_id, member.member_id))
    draft.set(timers.session_timer(group.group_id, member, context))
    version = version_of(subscription)
    return draft.result(
        SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(member.assigned, context.topics, version),
        )
    )


def _check_protocol(request: SyncGroupRequest, name: str) -> None:
    """Versions below 5 do not say, which is no difference."""
    assert name, "a strategy has a name"
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.protocol_name not in (None, name):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
