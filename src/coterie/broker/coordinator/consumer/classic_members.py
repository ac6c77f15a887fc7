"""Members of the classic protocol in a consumer group.

During a migration such members use JoinGroup (key 11), SyncGroup (key 14), Heartbeat
(key 12) and LeaveGroup (key 13), and the coordinator translates: the member epoch is
the generation, a join takes the steps of a ConsumerGroupHeartbeat (steps.py), and the
response to a heartbeat requests a rejoin (REBALANCE_IN_PROGRESS). See Kafka's
`GroupMetadataManager.classicGroupJoinToConsumerGroup` and the related methods.

A join contains the member's subscription and the partitions that it owns. An eager
member owns nothing when it joins, and gets its whole target. A cooperative member gets
the part of its partitions that it keeps, revokes the others, and joins again
(KIP-429). A join gets its response immediately, as no member waits for others.
"""

from __future__ import annotations

from typing import Final

from coterie.broker.coordinator.classic import join, leave
from coterie.broker.coordinator.classic.group import CONSUMER_PROTOCOL_TYPE
from coterie.broker.coordinator.classic.rebalance import joined_response
from coterie.broker.coordinator.consumer import timers
from coterie.broker.coordinator.consumer.downgrade import (
    MIGRATING,
    may_downgrade,
    replace_last,
)
from coterie.broker.coordinator.consumer.draft import ConsumerDraft
from coterie.broker.coordinator.consumer.embedded import (
    known_partitions,
    read_subscription,
    version_of,
    write_assignment,
)
from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.leave import remove_members
from coterie.broker.coordinator.consumer.member import (
    ClassicMemberInfo,
    Member,
    MemberState,
    unique_names,
)
from coterie.broker.coordinator.consumer.members import (
    Sender,
    any_member,
    check_group_size,
    member_of_instance,
    new_static_member,
    short_uuid,
    static_member,
    unknown_member,
)
from coterie.broker.coordinator.consumer.reconcile import FREE, Owned
from coterie.broker.coordinator.consumer.record_builders import group_tombstones
from coterie.broker.coordinator.consumer.steps import (
    bump_epoch,
    bump_if_needed,
    compute_target,
    reconcile_member,
    update_member,
)
from coterie.broker.coordinator.consumer.target import make_target_if_due
from coterie.broker.coordinator.result import Context, Result
from coterie.broker.coordinator.state import State
from coterie.errors import ApiError, MalformedFrame
from coterie.settings import Settings
from coterie.types import MemberId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

_UNREVOKED: Final = MemberState.UNREVOKED_PARTITIONS
_UNRELEASED: Final = MemberState.UNRELEASED_PARTITIONS


def classic_member(
    group: ConsumerGroup,
    member_id: MemberId,
    instance_id: str | None,
    *,
    generation: int,
) -> tuple[Member, ClassicMemberInfo]:
    """Return a member of the classic protocol whose epoch is this generation.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, also if it uses the consumer protocol;
            FENCED_INSTANCE_ID; ILLEGAL_GENERATION.
    """
    member = any_member(group, member_id, instance_id)
    if member.classic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} does not use the classic protocol.",
        )
    if generation != member.epoch:
        raise ApiError(
            ErrorCode.ILLEGAL_GENERATION,
            f"Generation {generation} is not the epoch {member.epoch} of {member_id}.",
        )
    return member, member.classic


def is_behind(draft: ConsumerDraft, member: Member) -> bool:
    """Return whether the target is newer than the member's epoch."""
    assert member.epoch <= draft.assignment_epoch, member.member_id
    return member.epoch < draft.assignment_epoch


def has_to_join(draft: ConsumerDraft, member: Member) -> bool:
    """Return whether the member must join again.

    It must when there is a newer target, when it has to report a revocation, or when
    all partitions of its target have become free, as in Kafka's
    `ConsumerGroup.waitingOnUnreleasedPartition`.
    """
    if is_behind(draft, member) or member.state is _UNREVOKED:
        return True
    return member.state is _UNRELEASED and not any(
        partition not in member.assigned.get(topic, ())
        and draft.group.owner_epoch(topic, partition) != FREE
        for topic, partitions in draft.target(member.member_id).items()
        for partition in partitions
    )


def heartbeat_of_classic_member(
    state: State, request: m.HeartbeatRequest, context: Context
) -> Result:
    """Refresh the session of a classic member.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    group = state.consumer_groups[request.group_id]
    draft = ConsumerDraft(group, context)
    if group.classic_count == len(group.members):
        draft = _refreshed_draft(group, context)
    member, _ = classic_member(
        group,
        request.member_id,
        request.group_instance_id,
        generation=request.generation_id,
    )
    draft.set(timers.session_timer(group.group_id, member, context))
    response = m.HeartbeatResponse()
    if has_to_join(draft, member):
        response.error_code = ErrorCode.REBALANCE_IN_PROGRESS
        draft.set(timers.join_timer(group.group_id, member, context.now_ms))
    return draft.result(response)


def _refreshed_draft(group: ConsumerGroup, context: Context) -> ConsumerDraft:
    """Return a draft with the due metadata refresh and the due target assignment.

    In a group with classic members only, no other request performs these steps; Kafka
    performs them when a member joins, however long that takes. The classic protocol has
    no error for a failed assignor, so the old target stays in that case.
    """
    draft = ConsumerDraft(group, context)
    try:
        bump_if_needed(draft)
        make_target_if_due(draft)
    except ApiError:
        return ConsumerDraft(group, context)
    assert draft.epoch >= group.epoch
    return draft


def sync_of_classic_member(
    state: State, request: m.SyncGroupRequest, context: Context
) -> Result:
    """Respond with the partitions that the member's join assigned.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
            INCONSISTENT_GROUP_PROTOCOL.
    """
    group = state.consumer_groups[request.group_id]
    draft = ConsumerDraft(group, context)
    member, classic = classic_member(
        group,
        request.member_id,
        request.group_instance_id,
        generation=request.generation_id,
    )
    name, subscription = classic.first
    _check_protocol(request, name)
    if (
        is_behind(draft, member)
        and member.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        # If the member must revoke partitions first, it gets only those that it keeps.
        draft.set(timers.join_timer(group.group_id, member, context.now_ms))
        code = ErrorCode.REBALANCE_IN_PROGRESS
        return draft.result(m.SyncGroupResponse(error_code=code))
    draft.set(timers.cancel_sync(group.group_id, member.member_id))
    draft.set(timers.session_timer(group.group_id, member, context))
    version = version_of(subscription)
    return draft.result(
        m.SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(
                member.assigned, context.environment.topics, version
            ),
        )
    )


def _check_protocol(request: m.SyncGroupRequest, name: str) -> None:
    # Both fields are null in versions below 5, and a null field is not compared.
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.protocol_name not in (None, name):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def leave_of_members(
    state: State, request: m.LeaveGroupRequest, context: Context
) -> Result:
    """Remove members of either protocol, all in one epoch (KAFKA-18188).

    The errors of single members are part of the response.
    """
    group = state.consumer_groups[request.group_id]
    draft = ConsumerDraft(group, context)
    leaving = leave.leaving_of(request, context.api_version)
    departing: dict[MemberId, Member] = {}
    codes = [_add_leaving(group, identity, departing) for identity in leaving]
    if departing:
        remove_members(draft, departing.values())
    return draft.result(leave.response_of(leaving, codes, context.api_version))


def _add_leaving(
    group: ConsumerGroup, identity: m.MemberIdentity, departing: dict[MemberId, Member]
) -> ErrorCode:
    instance_id = identity.group_instance_id
    member: Member | None
    if instance_id is not None and not identity.member_id:
        # An admin client identifies a static member by its instance id alone (KIP-345).
        member = member_of_instance(group, instance_id)
    else:
        try:
            member = any_member(group, identity.member_id, instance_id)
        except ApiError as error:
            return error.code
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    departing[member.member_id] = member
    return ErrorCode.NONE


def join_of_classic_member(
    state: State, request: m.JoinGroupRequest, context: Context
) -> Result:
    """Handle the JoinGroup of a classic member, which may be new.

    Raises:
        ApiError: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED; INCONSISTENT_GROUP_PROTOCOL,
            also when the subscription cannot be decoded; and UNKNOWN_SERVER_ERROR when
            the assignor failed.
    """
    group = state.consumer_groups[request.group_id]
    join.check(request, context)
    if not group.members:
        return _replace_empty(state, group, request, context)
    _check_policy(group, context.environment.settings)
    draft = ConsumerDraft(group, context)
    check_group_size(group, request.member_id, request.group_instance_id, context)
    if not group.supports(request.protocol_type, (p.name for p in request.protocols)):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    member_id = request.member_id or short_uuid(context)
    if (
        not request.member_id
        and request.group_instance_id is None
        and context.api_version >= join.MEMBER_ID_REQUIRED_SINCE
    ):
        # KIP-394, as in a classic group.
        required = ErrorCode.MEMBER_ID_REQUIRED
        return Result(m.JoinGroupResponse(error_code=required, member_id=member_id))
    return draft.result(_join(draft, _find_sender(group, member_id, request), request))


def _check_policy(group: ConsumerGroup, settings: Settings) -> None:
    if settings.group_consumer_migration_policy.lower() not in MIGRATING:
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Cannot join the consumer group {group.group_id} with the classic "
            "protocol because the group migration is disabled.",
        )


def _replace_empty(
    state: State, group: ConsumerGroup, request: m.JoinGroupRequest, context: Context
) -> Result:
    """Convert a group without members to a classic one, under any policy."""
    assert group.group_id not in state.classic_groups, group.group_id
    made = join.handle(state, request, context)
    if not made.records:
        return made
    return made._replace(records=(*group_tombstones(group), *made.records))


def _find_sender(
    group: ConsumerGroup, member_id: MemberId, request: m.JoinGroupRequest
) -> Sender:
    """Return the member that joins.

    An unknown id belongs to a new member, as ids are handed out without a record. A
    static member that joins without its member id replaces the member with its instance
    id, of either protocol.
    """
    instance_id = request.group_instance_id
    if instance_id is None:
        return Sender(group.members.get(member_id) or Member(member_id=member_id))
    if request.member_id:
        return Sender(static_member(group, member_id, instance_id))
    assert member_id not in group.members, member_id
    return new_static_member(member_id, member_of_instance(group, instance_id))


def _join(
    draft: ConsumerDraft, sender: Sender, request: m.JoinGroupRequest
) -> m.JoinGroupResponse:
    context, group_id, before = draft.context, draft.group_id, sender.before
    subscription = _subscription(request)
    holder = draft.group.members.get(before.member_id)
    owns = any(topic.partitions for topic in subscription.owned_partitions)
    if holder is None and sender.replaced is None and request.member_id and owns:
        # A removed member must revoke its partitions first, as they may have another
        # owner. Kafka lets it join, and two members own a partition for a moment.
        raise unknown_member(draft.group, before.member_id)
    # A static member may also switch to the classic protocol under its own member id.
    if request.group_instance_id is None:
        holder = None
    last = sender.replaced or holder
    if (
        last is not None
        and last.classic is None
        and may_downgrade(draft, (last,), joining=1)
    ):
        return _downgrade(draft, last, sender, request)
    owned = _owned(subscription, context)
    member = _updated(before, request, subscription, context)
    update_member(draft, sender, member)
    bump_epoch(draft, before, member)
    compute_target(draft, member)
    after = reconcile_member(draft, before, member, owned)
    draft.set(timers.cancel_join(group_id, after.member_id))
    draft.set(timers.session_timer(group_id, after, context))
    draft.set(timers.sync_timer(group_id, after, context.now_ms))
    return _response(after.member_id, after.epoch, request.protocols[0].name)


def _owned(subscription: m.ConsumerProtocolSubscription, context: Context) -> Owned:
    return known_partitions(subscription.owned_partitions, context.environment.topics)


def _downgrade(
    draft: ConsumerDraft, last: Member, sender: Sender, request: m.JoinGroupRequest
) -> m.JoinGroupResponse:
    """Downgrade the group, as its last member of the consumer protocol now joins with
    the classic one.

    The generation in the response is the epoch that the member gets in the consumer
    group, as in Kafka: 0 for a new member id when the group has to rebalance. If it
    does not rebalance, the member is told that it leads (KIP-814), as a leader must
    react to changed topics. Kafka tells no member, and none does until the next
    rebalance.
    """
    # The records of the join are not written, as all are deleted by the downgrade.
    planned = ConsumerDraft(draft.group, draft.context)
    subscription = _subscription(request)
    member = _updated(sender.before, request, subscription, draft.context)
    update_member(planned, sender, member)
    bump_epoch(planned, sender.before, member)
    needs_target = planned.epoch > planned.assignment_epoch
    if not needs_target:
        owned = _owned(subscription, draft.context)
        member = reconcile_member(planned, sender.before, member, owned)
    classic = replace_last(draft, last, member, needs_target=needs_target)
    if classic is None:
        return _response(member.member_id, member.epoch, request.protocols[0].name)
    response = joined_response(classic, member.member_id, with_members=True)
    response.generation_id = member.epoch
    response.skip_assignment = True
    return response


def _response(
    member_id: MemberId, generation: int, protocol_name: str
) -> m.JoinGroupResponse:
    return m.JoinGroupResponse(
        generation_id=generation,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=protocol_name,
        leader="",  # no leader: no member gets the list of members
        member_id=member_id,
    )


def _subscription(request: m.JoinGroupRequest) -> m.ConsumerProtocolSubscription:
    """Return the subscription, in any version, of the member's first protocol.

    All protocols of a member have the same subscription, so the others are not read.
    """
    assert request.protocols, "a member without a protocol"
    try:
        return read_subscription(request.protocols[0].metadata)
    except MalformedFrame as error:
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The subscription of member {request.member_id} is malformed: {error}",
        ) from None


def _updated(
    member: Member,
    request: m.JoinGroupRequest,
    subscription: m.ConsumerProtocolSubscription,
    context: Context,
) -> Member:
    """Return the member with the fields of its join.

    A classic member has no client-side assignors and no regular expression. It names no
    server-side assignor, so that of the member that it was before stays.
    """
    classic = ClassicMemberInfo(
        session_timeout_ms=request.session_timeout_ms,
        protocols=tuple((each.name, each.metadata) for each in request.protocols),
    )
    after = member._replace(
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        topic_names=unique_names(subscription.topics),
        topic_regex=None,
        client_assignors=(),
        rebalance_timeout_ms=join.rebalance_timeout_ms(request, context),
        classic=classic,
    )
    return member if after == member else after
