"""JoinGroup, key 11, of a consumer group: a member of the classic protocol comes, or
comes back, and goes the same way as one that sends a heartbeat of the new one (E20.3).

Its subscription is inside its join, and so is what it still owns: an eager member owns
nothing by now and gets its whole target; a cooperative one is told what it may keep,
lets go of the rest, and joins again (E20-25). A join is answered at once, as nobody has
to wait for others: the group's epochs take the place of a generation.
"""

from __future__ import annotations

from dataclasses import replace

from coterie.coordinator.classic import join
from coterie.coordinator.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from coterie.coordinator.classic.rebalance import joined_answer
from coterie.coordinator.consumer import timers
from coterie.coordinator.consumer.advance import advance
from coterie.coordinator.consumer.downgrade import may_downgrade, replace_last
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.embedded import (
    known_partitions,
    read_subscription,
)
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import ClassicFace, Member
from coterie.coordinator.consumer.members import (
    Sender,
    check_room,
    short_uuid,
    static_member,
    successor,
    take_place,
    unknown_member,
)
from coterie.coordinator.consumer.records import group_tombstones
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.errors import ApiError, MalformedFrame
from coterie.types import MemberId
from coterie.wire.consumer_protocol import ConsumerProtocolSubscription
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


def handle(state: State, request: JoinGroupRequest, context: Context) -> Result:
    """Let a classic member into the group, whichever type it has.

    Raises:
        ApiError: What `classic.join.handle` raises; UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL,
            UNKNOWN_SERVER_ERROR: the subscription cannot be read, or the assignor
            failed.
    """
    group = state.consumer_groups.get(request.group_id)
    if group is None:
        return join.handle(state, request, context)
    join.check(request, context.settings)
    if not group.members:
        return _replace_empty(state, group, request, context)
    draft = Draft(group, context)
    if not _is_in(group, request):
        check_room(draft)
    if not group.supports(request.protocol_type, (p.name for p in request.protocols)):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    member_id = request.member_id or short_uuid(context)
    if _needs_member_id(request, context):
        no = ErrorCode.MEMBER_ID_REQUIRED
        return Result(JoinGroupResponse(error_code=no, member_id=member_id))
    return draft.result(_join(draft, _find_sender(draft, member_id, request), request))


def _replace_empty(
    state: State, group: ConsumerGroup, request: JoinGroupRequest, context: Context
) -> Result:
    """A group without members becomes a classic one under any policy (E20-44)."""
    assert group.group_id not in state.classic_groups, group.group_id
    made = join.handle(state, request, context)
    cancel = timers.cancel_target(group.group_id)
    return made._replace(
        records=(*group_tombstones(group), *made.records),
        timers=(cancel, *made.timers),
    )


def _is_in(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Whether the group gets no larger by this join."""
    instance_id = request.group_instance_id
    return request.member_id in group.members or instance_id in group.static_members


def _find_sender(
    draft: Draft, member_id: MemberId, request: JoinGroupRequest
) -> Sender:
    """Who joins. An id that nobody knows is a new member's: it was given out and not
    written down (E20-23). A static member that comes without its id takes its own
    place, whichever protocol it spoke before (E9-05)."""
    instance_id = request.group_instance_id
    if instance_id is None:
        return Sender(member_id, draft.member(member_id))
    if request.member_id:
        return Sender(member_id, static_member(draft, member_id, instance_id))
    assert draft.member(member_id) is None, member_id
    return Sender(member_id, None, draft.static_member(instance_id))


def _needs_member_id(request: JoinGroupRequest, context: Context) -> bool:
    """KIP-394, as in a classic group."""
    return (
        not request.member_id
        and request.group_instance_id is None
        and context.api_version >= join.MEMBER_ID_REQUIRED_SINCE
    )


def _join(draft: Draft, sender: Sender, request: JoinGroupRequest) -> JoinGroupResponse:
    context, group_id, leaver = draft.context, draft.group_id, sender.leaver
    subscription = _subscription(request)
    known = sender.before
    is_new = known is None and leaver is None
    owns = any(topic.partitions for topic in subscription.owned_partitions)
    if is_new and request.member_id and owns:
        # It was taken out and does not know it: first it has to lose what it owned.
        raise unknown_member(draft, sender.member_id)
    if leaver is not None and may_downgrade(draft, (leaver,), joining=1):
        known = successor(leaver, sender.member_id)
        member = _updated(known, request, subscription, context)
        classic = replace_last(draft, leaver, member)
        return _replaced_answer(classic, member.member_id)
    if leaver is not None:
        known = take_place(draft, leaver, sender.member_id)
    before = known or Member(member_id=sender.member_id)
    member = _updated(before, request, subscription, context)
    owned = known_partitions(subscription.owned_partitions, context.topics)
    after = advance(draft, known, member, owned)
    draft.set(timers.cancel_join(group_id, after.member_id))
    draft.set(timers.session_timer(group_id, after, context))
    draft.set(timers.sync_timer(group_id, after, context.now_ms))
    return _answer(after.member_id, after.epoch, request.protocols[0].name)


def _replaced_answer(classic: ClassicGroup, member_id: MemberId) -> JoinGroupResponse:
    """Who came in the place of the last of the new protocol is in a classic group."""
    leads = classic.leader_id == member_id
    answer = joined_answer(classic, member_id, with_members=leads)
    answer.skip_assignment = leads
    return answer


def _answer(
    member_id: MemberId, generation: int, protocol_name: str
) -> JoinGroupResponse:
    """Nobody leads, so nobody is told of the others (E20-24)."""
    assert generation >= 0, "whoever is answered is in the group"
    return JoinGroupResponse(
        generation_id=generation,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=protocol_name,
        leader="",
        member_id=member_id,
    )


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """All protocols of a member say the same, so this is what it says by the first, in
    any version (E20-21); but all must be readable, as any may count one day."""
    assert request.protocols, "a member can do at least one protocol"
    try:
        first, *_ = [read_subscription(each.metadata) for each in request.protocols]
    except MalformedFrame as error:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"The subscription of member {request.member_id} is malformed: {error}",
        ) from None
    return first


def _updated(
    member: Member,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    context: Context,
) -> Member:
    """The member with all that its join says of it. It names no assignor, and is none
    (E20-31), and matches no topics by a regular expression."""
    face = ClassicFace(
        session_timeout_ms=request.session_timeout_ms,
        protocols=tuple((each.name, each.metadata) for each in request.protocols),
    )
    after = replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        topic_names=tuple(subscription.topics),
        topic_regex=None,
        server_assignor=None,
        client_assignors=(),
        rebalance_timeout_ms=join.rebalance_timeout_ms(request, context),
        classic=face,
    )
    return member if after == member else after
