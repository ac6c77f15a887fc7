"""ConsumerGroupHeartbeat, key 68: versions 0-1. A member joins, lives, reports what it
owns, is told what to own, and leaves, by one request (KIP-848).

One heartbeat goes through up to five stages, each of which may have nothing to do:
who is it (members.py), what does it say of itself, does the group need another epoch,
does it need another target (assign.py), and one step of this member towards its own
(reconcile.py). When there is nothing to do at all, a heartbeat costs a few look-ups,
whatever the size of the group.
"""

from __future__ import annotations

from typing import Final

from coterie.coordinator.consumer import leave, timers
from coterie.coordinator.consumer.assign import make_target_if_due
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import JOIN_EPOCH, Held, Member, MemberState
from coterie.coordinator.consumer.members import find_sender, take_place, updated
from coterie.coordinator.consumer.reconcile import Owned, Step, reconcile
from coterie.coordinator.consumer.resolve import take_regex
from coterie.coordinator.consumer.upgrade import upgraded
from coterie.coordinator.consumer.validate import check_heartbeat
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.errors import ApiError
from coterie.types import GroupId, TopicId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_UNREVOKED: Final = MemberState.UNREVOKED_PARTITIONS


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
    if member != before or known is None:
        draft.put_metadata(member)
    changed = _has_other_subscription(draft.group, known, member)
    take_regex(draft, before, member)
    _bump_if_needed(draft, changed=changed)
    make_target_if_due(draft)
    after = _reconcile(draft, member, owned, changed=changed)
    draft.set(timers.session_timer(draft.group_id, after, context))
    tells = _is_full(request) or _holds_other(before, after)
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
        return upgraded(classic, context)
    return Draft(ConsumerGroup(request.group_id), context)


def _owned(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: topic.partitions for topic in request.topic_partitions}


def _has_other_subscription(
    group: ConsumerGroup, before: Member | None, after: Member
) -> bool:
    """Whether the group has to look for another target because of what a member wants:
    a new member always is such a change (E6-01, E6-05).

    What another regular expression is worth is known once it is resolved; until then
    the member keeps what it has (E6-06).
    """
    if before is None or before.topic_names != after.topic_names:
        return True
    regex = after.topic_regex
    return before.topic_regex != regex and group.is_resolved(regex)


def _bump_if_needed(draft: Draft, *, changed: bool) -> None:
    """Bump the group epoch at most once, whatever the reasons (E6-30, E7-37).

    The topics are looked at when there is a reason to, not at every heartbeat (E6-32).
    """
    other_assignor = _has_other_assignor(draft)
    if changed or other_assignor or draft.group.is_refresh_due(draft.context.now_ms):
        other_topics = draft.look_at_topics()
        if changed or other_assignor or other_topics:
            draft.bump()
        draft.refreshed()


def _has_other_assignor(draft: Draft) -> bool:
    """Whether the group prefers another assignor from now on (F6-03)."""
    if not draft.is_touched:
        return False
    group = draft.group
    was = group.preferred_assignor(tuple(draft.context.assignors))
    return bool(group.members) and draft.preferred_assignor() != was


def _reconcile(
    draft: Draft, member: Member, owned: Owned | None, *, changed: bool
) -> Member:
    """One step of the member, and its rebalance timer (E7-41, E8-03)."""
    after = reconcile(
        member,
        Step(
            target_epoch=draft.assignment_epoch,
            target=draft.target(member.member_id),
            owner_epoch=draft.group.owner_epoch,
            owned=owned,
            subscribed=_subscribed(draft, member, changed=changed),
        ),
    )
    if after is member:
        return member
    assert after.epoch <= draft.assignment_epoch, "no member is ahead of the target"
    draft.put_current(after)
    if after.state is _UNREVOKED:
        now_ms = draft.context.now_ms
        draft.set(timers.rebalance_timer(draft.group_id, after, now_ms))
    else:
        draft.set(timers.cancel_rebalance(draft.group_id, after.member_id))
    return after


def _subscribed(draft: Draft, member: Member, *, changed: bool) -> set[TopicId] | None:
    """The topics a member wants, if the target may be older than its wish: it was said
    just now, or the group still waits for the target that knows of it (E5-15)."""
    assert draft.member(member.member_id) is member
    is_resolved = draft.group.is_resolved(member.topic_regex)
    if not changed and (draft.epoch == draft.assignment_epoch or not is_resolved):
        return None
    names = [*member.topic_names]
    resolved = draft.group.regexes.get(member.topic_regex or "")
    if resolved is not None:
        names += resolved.topics
    ids = (draft.context.topics.topic_id(name) for name in names)
    return {topic_id for topic_id in ids if topic_id is not None}


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
        assignment=assignment_of(member.assigned) if tells_assignment else None,
    )


def assignment_of(held: Held) -> Assignment:
    """What a member is told to own; one without topics means nothing at all (E7-51)."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic, partitions=sorted(partitions))
            for topic, partitions in sorted(held.items())
        ]
    )
