"""ConsumerGroupHeartbeat, key 68: versions 0-1. A member joins, lives, reports what it
owns, is told what to own, and leaves, by one request (KIP-848).

One heartbeat goes through up to five stages, each of which may have nothing to do:
who is it (members.py), what does it say of itself, and then (advance.py) does the group
need another epoch, does it need another target, and one step of this member towards its
own. When there is nothing to do at all, a heartbeat costs a few look-ups, whatever the
size of the group.
"""

from __future__ import annotations

from coterie.coordinator.consumer import leave, timers
from coterie.coordinator.consumer.advance import advance
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import JOIN_EPOCH, Held, Member
from coterie.coordinator.consumer.members import find_sender, take_place, updated
from coterie.coordinator.consumer.reconcile import Owned
from coterie.coordinator.consumer.upgrade import upgraded
from coterie.coordinator.consumer.validate import check_heartbeat
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.errors import ApiError
from coterie.types import GroupId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


def handle(
    state: State, request: ConsumerGroupHeartbeatRequest, context: Context
) -> Result:
    """Take a heartbeat in (E7).

    Raises:
        ApiError: What `check_heartbeat`, `find_sender` and `leave.handle` raise;
            GROUP_ID_NOT_FOUND; INVALID_REGULAR_EXPRESSION; UNKNOWN_SERVER_ERROR, when
            the assignor failed.
    """
    check_heartbeat(
        request, api_version=context.api_version, assignors=context.assignors
    )
    if request.member_epoch < JOIN_EPOCH:
        return leave.handle(state, request, context)
    owned = _owned(request)
    draft = _draft(state, request, context)
    sender = find_sender(draft, request, owned)
    known = sender.before
    if sender.leaver is not None:
        known = take_place(draft, sender.leaver, sender.member_id)
    before = known or Member(member_id=sender.member_id)
    member = updated(before, request, context)
    if before.classic is not None:
        for cancel in timers.cancel_classic(draft.group_id, member.member_id):
            draft.set(cancel)
    after = advance(draft, known, member, owned)
    draft.set(timers.session_timer(draft.group_id, after, context))
    tells = _is_full(request) or _holds_other(before, after)
    if after.epoch != before.epoch and (
        before.client_assignors or after.client_assignors
    ):
        tells = True  # what its assignor says beside may be another, or no more
    return draft.result(_answer(draft, after, tells_assignment=tells))


def refuse(
    request: ConsumerGroupHeartbeatRequest, code: ErrorCode, message: str | None = None
) -> ConsumerGroupHeartbeatResponse:
    """The answer that carries an error and nothing else (E7-54)."""
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


def group_not_found(group_id: GroupId) -> ApiError:
    """No consumer group of that id (E7-21)."""
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found."
    )


def _draft(
    state: State, request: ConsumerGroupHeartbeatRequest, context: Context
) -> Draft:
    """A draft of the group; who joins may find none, or a classic one (E7-21)."""
    group = state.consumer_groups.get(request.group_id)
    if group is not None:
        return Draft(group, context)
    if request.member_epoch != JOIN_EPOCH:
        raise group_not_found(request.group_id)
    classic = state.classic_groups.get(request.group_id)
    if classic is not None:
        return upgraded(classic, context, state.group_records.get(request.group_id))
    return Draft(ConsumerGroup(request.group_id), context)


def _owned(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: topic.partitions for topic in request.topic_partitions}


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member knows nothing, or says everything: then it is told all that
    it shall own (E7-50)."""
    if request.member_epoch == JOIN_EPOCH:
        return True
    subscribes = (
        request.subscribed_topic_names is not None
        or request.subscribed_topic_regex is not None
    )
    return (
        request.rebalance_timeout_ms != -1
        and subscribes
        and request.topic_partitions is not None
    )


def _holds_other(before: Member, after: Member) -> bool:
    """Whether other partitions are assigned; when they were assigned is our matter."""
    if before.assigned is after.assigned:
        return False
    if before.assigned.keys() != after.assigned.keys():
        return True
    return any(
        before.assigned[topic].keys() != held.keys()
        for topic, held in after.assigned.items()
    )


def _answer(
    draft: Draft, member: Member, *, tells_assignment: bool
) -> ConsumerGroupHeartbeatResponse:
    assert member.epoch >= 0, "whoever is answered is in the group"
    interval_ms = draft.context.configs.heartbeat_interval_ms(draft.group_id)
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=_assignment(draft, member) if tells_assignment else None,
        should_compute_assignment=draft.computes,
    )


def _assignment(draft: Draft, member: Member) -> Assignment:
    assignment = assignment_of(member.assigned)
    detail = draft.detail(member.member_id)
    assignment.error = detail.error
    assignment.metadata_version = detail.version
    assignment.metadata_bytes = detail.metadata
    return assignment


def assignment_of(held: Held) -> Assignment:
    """What a member is told to own; one without topics means nothing at all (E7-51)."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic, partitions=sorted(partitions))
            for topic, partitions in sorted(held.items())
        ]
    )
