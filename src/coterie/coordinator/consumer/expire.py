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
from coterie.coordinator.consumer.removal import remove_members
from coterie.coordinator.consumer.timers import (
    EndComputation,
    EndRevocation,
    ExpireMember,
    MakeTarget,
    TimerRequest,
)
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State


def handle(state: State, request: TimerRequest, context: Context) -> Result:
    """Do what the timer was for; nobody waits for an answer.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR: the assignor failed. The next heartbeat of
            anyone tries again.
    """
    group = state.consumer_groups.get(request.group_id)
    if group is None:
        return Result()
    draft = Draft(group, context)
    match request:
        case ExpireMember(member_id=member_id):
            if (member := group.members.get(member_id)) is not None:
                remove_members(draft, (member,))
        case EndRevocation(member_id=member_id, member_epoch=epoch):
            member = group.members.get(member_id)
            if member is not None and member.epoch == epoch:
                remove_members(draft, (member,))
        case MakeTarget():
            if draft.epoch > draft.assignment_epoch and not is_client_side(draft):
                make_target(draft)
        case EndComputation(member_id=member_id):
            pass_over(draft, member_id)
        case _:
            assert_never(request)
    return draft.result()
