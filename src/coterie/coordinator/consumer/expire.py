"""What a consumer group's timers do when they fire (E8).

A timer may fire for a group or a member that is gone, or for an epoch that is over:
then nothing happens.
"""

from __future__ import annotations

from typing import assert_never

from coterie.coordinator.consumer.assign import make_target
from coterie.coordinator.consumer.client_side.choice import (
    is_client_side,
    pass_over,
)
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.consumer.removal import just_remove, remove_members
from coterie.coordinator.consumer.timers import (
    EndComputation,
    EndRevocation,
    ExpireMember,
    MakeTarget,
    TimerRequest,
)
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.errors import ApiError


def handle(state: State, request: TimerRequest, context: Context) -> Result:
    """Do what the timer was for; nobody waits for an answer.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR: the assignor failed. The next heartbeat of
            anyone tries again.
    """
    group = state.consumer_groups.get(request.group_id)
    if group is None:
        return Result()
    match request:
        case ExpireMember(member_id=member_id):
            member = group.members.get(member_id)
            return Result() if member is None else _fence(group, member, context)
        case EndRevocation(member_id=member_id, member_epoch=epoch):
            member = group.members.get(member_id)
            if member is not None and member.epoch == epoch:
                return _fence(group, member, context)
            return Result()
        case MakeTarget():
            draft = Draft(group, context)
            if draft.epoch > draft.assignment_epoch and not is_client_side(draft):
                make_target(draft)
            return draft.result()
        case EndComputation(member_id=member_id):
            draft = Draft(group, context)
            pass_over(draft, member_id)
            return draft.result()
        case _:
            assert_never(request)


def _fence(group: ConsumerGroup, member: Member, context: Context) -> Result:
    """Remove the member, whatever stands against a downgrade: it has no other timer."""
    assert member.member_id in group.members
    draft = Draft(group, context)
    try:
        remove_members(draft, (member,))
    except ApiError:
        draft = Draft(group, context)
        just_remove(draft, (member,))
    return draft.result()
