"""Remove members of a consumer group: they leave, an admin removes them, or they
expire. The removal is the same in all cases: their records are deleted,
the group epoch is bumped once, and the next heartbeat of any member computes the
target. When only members of the classic protocol remain, the group is downgraded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from coterie.broker.coordinator.consumer import timers
from coterie.broker.coordinator.consumer.downgrade import downgrade, may_downgrade
from coterie.broker.coordinator.consumer.draft import ConsumerDraft
from coterie.broker.coordinator.consumer.member import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    Member,
)
from coterie.broker.coordinator.consumer.members import any_member
from coterie.broker.coordinator.consumer.timers import (
    EndRevocation,
    ExpireMember,
)
from coterie.broker.coordinator.result import Context, Result
from coterie.broker.coordinator.state import State
from coterie.errors import ApiError
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode


def remove_members(draft: ConsumerDraft, members: Iterable[Member]) -> None:
    """Remove members from the group, or downgrade it without them.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND: the group was to be downgraded, and the
            subscription of a remaining member cannot be decoded.
    """
    departing = tuple(members)
    if may_downgrade(draft, departing):
        downgrade(draft, departing)
    else:
        remove_without_downgrade(draft, departing)


def remove_without_downgrade(
    draft: ConsumerDraft, departing: Collection[Member]
) -> None:
    """Remove members from the group, which stays a consumer group."""
    assert departing, "no member to remove"
    for member in departing:
        draft.remove(member)
    for regex in {member.topic_regex for member in departing}:
        draft.delete_regex_if_unused(regex)
    draft.refresh_topics()
    draft.bump()
    if draft.size == 0:
        draft.put_empty_target()  # KAFKA-20442


def leave_with_heartbeat(
    state: State, request: m.ConsumerGroupHeartbeatRequest, context: Context
) -> Result:
    """Remove the member of a heartbeat with epoch -1, or -2 for static members.

    The response contains the member id and that epoch.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    group_id = request.group_id
    group = state.consumer_groups.get(group_id)
    if group is None:
        exists = state.group(group_id) is not None
        reason = "is not a consumer group" if exists else "not found"
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")
    member = any_member(group, request.member_id, request.instance_id)
    draft = ConsumerDraft(group, context)
    if request.member_epoch != STATIC_LEAVE_EPOCH:
        remove_members(draft, (member,))
    else:
        _leave_temporarily(draft, member)
    return draft.result(
        m.ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
    )


def _leave_temporarily(draft: ConsumerDraft, member: Member) -> None:
    """Keep the partitions and the target of a static member that leaves temporarily.

    Its session timer is not refreshed, so it must return within the session timeout of
    its last heartbeat. It does not compute a target meanwhile. Its
    partitions count as assigned since epoch 0, so that it may commit with any epoch
    when it returns.
    """
    assert member.instance_id is not None, "only a static member leaves temporarily"
    assigned = {
        topic: dict.fromkeys(held, JOIN_EPOCH)
        for topic, held in member.assigned.items()
    }
    draft.put_current(
        member._replace(
            epoch=STATIC_LEAVE_EPOCH, assigned=assigned, pending_revocation={}
        )
    )
    draft.set(timers.cancel_rebalance(draft.group_id, member.member_id))
    draft.stop_computing(member.member_id)


def handle_timer(
    state: State, request: ExpireMember | EndRevocation, context: Context
) -> Result:
    """Fence a member whose session or rebalance timeout has passed.

    A timer may fire for a group or a member that no longer exists, or for an epoch that
    has passed: then nothing happens.
    """
    group = state.consumer_groups.get(request.group_id)
    member = None if group is None else group.members.get(request.member_id)
    if group is None or member is None:
        return Result()
    if isinstance(request, EndRevocation) and member.epoch != request.member_epoch:
        return Result()
    draft = ConsumerDraft(group, context)
    try:
        remove_members(draft, (member,))
    except ApiError:
        # The downgrade is impossible. The member must be removed nevertheless, as it
        # has no other timer.
        draft = ConsumerDraft(group, context)
        remove_without_downgrade(draft, (member,))
    return draft.result()
