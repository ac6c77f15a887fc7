"""ShareGroupHeartbeat, key 76: members join, subscribe and leave (KIP-932).

`handle` shows the steps of a heartbeat, in the order of Kafka's
`GroupMetadataManager.shareGroupHeartbeat`; each may have nothing to do. A new topic is
assigned in two steps: the first heartbeat has its partitions initialized, and once they
are, the next one bumps the group epoch and assigns them.
"""

from __future__ import annotations

from coterie.broker.coordinator.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    unique_names,
)
from coterie.broker.coordinator.consumer.timers import ExpireMember
from coterie.broker.coordinator.result import Context, Result, Timer
from coterie.broker.coordinator.share.draft import ShareDraft
from coterie.broker.coordinator.share.group import ShareGroup, ShareMember
from coterie.broker.coordinator.share.initialization import initialize_partitions
from coterie.broker.coordinator.state import State, share_group
from coterie.errors import ApiError
from coterie.java import trim
from coterie.types import GroupId, MemberId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode


def check_heartbeat(request: m.ShareGroupHeartbeatRequest, context: Context) -> None:
    """Check the fields of the request alone, in Kafka's order.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    for value, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.rack_id, "RackId"),
    ):
        if value is not None and not trim(value):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "SubscribedTopicNames must be set in first request.",
        )
    if request.member_epoch < LEAVE_EPOCH:
        raise ApiError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


def handle(
    state: State, request: m.ShareGroupHeartbeatRequest, context: Context
) -> Result:
    """Handle a heartbeat.

    Raises:
        ApiError: INVALID_REQUEST, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED,
            UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, POLICY_VIOLATION; and
            UNKNOWN_SERVER_ERROR when the assignor failed.
    """
    check_heartbeat(request, context)
    if request.member_epoch == LEAVE_EPOCH:
        return _leave(state, request, context)
    group = _get_or_new(state, request, context)
    before = _sender(group, request, context)
    draft = ShareDraft(group, context)
    member = _with_heartbeat(before, request, context)
    is_bumped = _update_member(draft, before, member)
    _make_target_if_due(draft)
    after = _reconcile(draft, member, is_bumped=is_bumped)
    draft.set(session_timer(group.group_id, member.member_id, context))
    initialize_partitions(draft)
    return draft.result(_response(draft, request, before, after))


def refuse(
    request: m.ShareGroupHeartbeatRequest,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> m.ShareGroupHeartbeatResponse:
    """Return the response that carries an error and nothing else."""
    return m.ShareGroupHeartbeatResponse(error_code=code, error_message=message)


def session_timer(group_id: GroupId, member_id: MemberId, context: Context) -> Timer:
    """Return the timer of a member's whole session timeout."""
    timeout_ms = context.environment.configs.share(group_id).session_timeout_ms
    return Timer(
        ("session", group_id, member_id),
        context.now_ms + timeout_ms,
        ExpireMember(group_id, member_id),
    )


def timers_after_load(group: ShareGroup, context: Context) -> Result:
    """Return the timers of a loaded group: every member gets a whole session timeout.

    An initialization that was under way is repeated by a heartbeat, as in Kafka.
    """
    return Result(
        timers=tuple(
            session_timer(group.group_id, member_id, context)
            for member_id in group.members
        )
    )


def _get_or_new(
    state: State, request: m.ShareGroupHeartbeatRequest, context: Context
) -> ShareGroup:
    """Return the group; an empty one for the first member."""
    group_id = request.group_id
    if request.member_epoch != JOIN_EPOCH or state.group(group_id) is not None:
        return share_group(state, group_id)
    state.check_room(group_id, context.environment.settings)
    return ShareGroup(group_id)


def _sender(
    group: ShareGroup, request: m.ShareGroupHeartbeatRequest, context: Context
) -> ShareMember:
    """Return the sender before the heartbeat, after checking its epoch.

    A new member has only its id. Three epochs are accepted of a known one: its own, its
    previous one, as the response with the newer epoch may have been lost, and 0.
    """
    member_id, epoch = request.member_id, request.member_epoch
    member = group.members.get(member_id)
    most = context.environment.settings.group_share_max_size
    if member is None and len(group.members) >= most:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {most} members.",
        )
    if epoch == JOIN_EPOCH:
        return ShareMember(member_id) if member is None else member
    if member is None:
        raise unknown_member(group, member_id)
    if epoch > member.epoch:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a greater member epoch ({epoch}) than the one "
            f"known by the group coordinator ({member.epoch}). The member must abandon "
            "all its partitions and rejoin.",
        )
    if epoch not in (member.epoch, member.previous_epoch):
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a smaller member epoch ({epoch}) than the one "
            f"known by the group coordinator ({member.epoch}), and it does not match "
            f"the previous member epoch ({member.previous_epoch}). The member must "
            "abandon all its partitions and rejoin.",
        )
    return member


def unknown_member(group: ShareGroup, member_id: MemberId) -> ApiError:
    """Return the error for a member that is not in the group."""
    return ApiError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def _leave(
    state: State, request: m.ShareGroupHeartbeatRequest, context: Context
) -> Result:
    """Remove the member, whatever its epoch."""
    group = share_group(state, request.group_id)
    member = group.members.get(request.member_id)
    if member is None:
        raise unknown_member(group, request.member_id)
    draft = ShareDraft(group, context)
    draft.remove(member)
    return draft.result(
        m.ShareGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=LEAVE_EPOCH
        )
    )


def expire_member(state: State, request: ExpireMember, context: Context) -> Result:
    """Remove a member whose session has expired; nothing if it is gone."""
    group = state.share_groups[request.group_id]
    member = group.members.get(request.member_id)
    if member is None:
        return Result()
    draft = ShareDraft(group, context)
    draft.remove(member)
    return draft.result()


def _with_heartbeat(
    member: ShareMember, request: m.ShareGroupHeartbeatRequest, context: Context
) -> ShareMember:
    """Return the member with the fields that the heartbeat sets; null fields change
    nothing."""
    names = request.subscribed_topic_names
    return member._replace(
        client_id=context.client_id,
        client_host=context.client_host,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topic_names=member.topic_names if names is None else unique_names(names),
    )


def _update_member(draft: ShareDraft, before: ShareMember, member: ShareMember) -> bool:
    """Write the member if it changed, and bump the group epoch if that is due; return
    whether it was bumped.

    It is due when the subscription changed, the topics changed, or partitions were
    initialized since the target was computed.
    """
    if member != before:
        draft.put_metadata(member)
    group = draft.group
    is_due = member.topic_names != before.topic_names or (
        group.assignment_epoch >= group.epoch and group.is_assignment_pending
    )
    if not is_due and not group.is_refresh_due(draft.context.now_ms):
        return False
    if draft.refresh_topics():
        is_due = True
    if is_due:
        draft.bump()
    draft.schedule_refresh()
    return is_due


def _make_target_if_due(draft: ShareDraft) -> None:
    """Compute the target of the group epoch if it is missing and the interval has
    passed (KIP-1263).

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR: the assignor failed.
    """
    context, group = draft.context, draft.group
    if draft.epoch <= draft.assignment_epoch:
        return
    interval_ms = context.environment.configs.share(group.group_id)
    due_ms = group.assigned_ms + interval_ms.assignment_interval_ms
    if not group.assigned_ms or context.now_ms >= due_ms:
        draft.make_target()


def _reconcile(
    draft: ShareDraft, member: ShareMember, *, is_bumped: bool
) -> ShareMember:
    """Return the member with its target, as far as it subscribes to the topics.

    Without a new target only its subscription may have changed, and its epoch stays.
    """
    is_new = member.epoch != draft.assignment_epoch
    if not is_new and not is_bumped:
        return member
    topics = draft.context.environment.topics
    subscribed = {topics.topic_id(name) for name in member.topic_names}
    after = member._replace(
        assigned={
            topic: partitions
            for topic, partitions in draft.target(member.member_id).items()
            if topic in subscribed
        }
    )
    if is_new:
        after = after._replace(
            epoch=draft.assignment_epoch, previous_epoch=member.epoch
        )
    if after == member:
        return member
    draft.put_current(after)
    return after


def _response(
    draft: ShareDraft,
    request: m.ShareGroupHeartbeatRequest,
    before: ShareMember,
    after: ShareMember,
) -> m.ShareGroupHeartbeatResponse:
    configs = draft.context.environment.configs.share(draft.group_id)
    sends_assignment = (
        request.member_epoch == JOIN_EPOCH
        or request.subscribed_topic_names is not None
        or before.assigned != after.assigned
    )
    assignment = None
    if sends_assignment:
        assignment = m.ShareHeartbeatAssignment(
            topic_partitions=[
                m.ShareHeartbeatTopicPartitions(
                    topic_id=topic, partitions=sorted(partitions)
                )
                for topic, partitions in sorted(after.assigned.items())
            ]
        )
    return m.ShareGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=configs.heartbeat_interval_ms,
        assignment=assignment,
    )
