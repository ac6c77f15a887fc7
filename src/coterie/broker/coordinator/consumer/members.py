"""Find the member that sent a request, check its epoch, and apply the reported fields.

All functions are pure: they read the group before the request.

See KIP-848 and Kafka's `GroupMetadataManager.getOrMaybeSubscribeDynamicConsumerMember`
and `getOrMaybeSubscribeStaticConsumerMember`.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

from coterie.broker.coordinator.client_side.values import ClientAssignor
from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    AssignedPartitions,
    Member,
    unique_names,
)
from coterie.broker.coordinator.consumer.reconcile import Owned
from coterie.broker.coordinator.result import Context
from coterie.errors import ApiError
from coterie.types import MemberId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode


def check_member_epoch(member: Member, epoch: int, owned: Owned | None) -> None:
    """Check the epoch in the heartbeat of a known member.

    Three epochs are accepted: the member's epoch; its previous epoch, if the member
    owns only partitions that are assigned to it, as the response with the newer epoch
    may have been lost; and 0 at any time, from a member that rejoins. A
    member that is fenced stays in the group until it rejoins with epoch 0 or its
    session expires.

    Raises:
        ApiError: FENCED_MEMBER_EPOCH.
    """
    assert epoch >= JOIN_EPOCH, "the epoch of a leaving member is not checked"
    if epoch in (member.epoch, JOIN_EPOCH):
        return
    if epoch > member.epoch:
        raise _fenced("greater", epoch, member)
    if epoch != member.previous_epoch or not _all_assigned(owned, member.assigned):
        raise _fenced("smaller", epoch, member)


def _all_assigned(owned: Owned | None, assigned: AssignedPartitions) -> bool:
    if owned is None:
        return False
    # A topic without partitions must be assigned, too: Kafka's `isSubset`.
    return all(
        topic in assigned and all(each in assigned[topic] for each in partitions)
        for topic, partitions in owned.items()
    )


def _fenced(how: str, epoch: int, member: Member) -> ApiError:
    return ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {how} member epoch ({epoch}) than the one "
        f"known by the group coordinator ({member.epoch}). The member must abandon all "
        "its partitions and rejoin.",
    )


class Sender(NamedTuple):
    """The sender of a request before the request.

    `before` of a new member has only its id. `replaced` is the static member with the
    same instance id under another member id, which the sender replaces; then
    `before` has its fields.
    """

    before: Member
    replaced: Member | None = None


def find_sender(
    group: ConsumerGroup,
    request: m.ConsumerGroupHeartbeatRequest,
    owned: Owned | None,
    context: Context,
) -> Sender:
    """Return the sender of a heartbeat that does not leave the group.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID,
            UNRELEASED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, INVALID_REQUEST.
    """
    check_group_size(group, request.member_id, request.instance_id, context)
    member_id = request.member_id or short_uuid(context)
    if request.instance_id is not None:
        return _static(group, member_id, request, owned)
    member = group.members.get(member_id)
    if member is None:
        if request.member_epoch != JOIN_EPOCH:
            raise unknown_member(group, member_id)
        return Sender(Member(member_id=member_id))
    check_member_epoch(member, request.member_epoch, owned)
    return Sender(member)


def short_uuid(context: Context) -> str:
    """Return a random id as Kafka prints UUIDs: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(context.environment.new_uuid()).decode().rstrip("=")


def _static(
    group: ConsumerGroup,
    member_id: MemberId,
    request: m.ConsumerGroupHeartbeatRequest,
    owned: Owned | None,
) -> Sender:
    instance_id = request.instance_id
    assert instance_id is not None
    assert request.member_epoch >= JOIN_EPOCH
    if request.member_epoch != JOIN_EPOCH:
        member = static_member(group, member_id, instance_id)
        check_member_epoch(member, request.member_epoch, owned)
        return Sender(member)
    holder = member_of_instance(group, instance_id)
    if holder is not None and holder.member_id == member_id:
        return Sender(holder)  # the response to its join was lost
    if (
        holder is not None
        and holder.classic is None
        and holder.epoch != STATIC_LEAVE_EPOCH
    ):
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the "
            f"group because the instance id is owned by {holder.member_id} member.",
        )
    if member_id in group.members:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "A member cannot change its instance id."
        )
    return new_static_member(member_id, holder)


def new_static_member(member_id: MemberId, replaced: Member | None) -> Sender:
    """Return a static member with a new member id.

    It replaces the member that had its instance id, if any, and joins with the fields,
    target and partitions of it, and epoch 0.
    """
    if replaced is None:
        return Sender(Member(member_id=member_id))
    assert replaced.member_id != member_id
    assert replaced.instance_id is not None, "only a static member is replaced"
    before = replaced._replace(
        member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH
    )
    return Sender(before, replaced)


def static_member(
    group: ConsumerGroup, member_id: MemberId, instance_id: str
) -> Member:
    """Return the member of an instance id, which must have this member id.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    holder = member_of_instance(group, instance_id)
    if holder is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown."
        )
    if holder.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by "
            f"member {holder.member_id}.",
        )
    return holder


def member_of_instance(group: ConsumerGroup, instance_id: str) -> Member | None:
    """Return the static member that has an instance id."""
    member_id = group.static_members.get(instance_id)
    return None if member_id is None else group.members[member_id]


def any_member(
    group: ConsumerGroup, member_id: MemberId, instance_id: str | None
) -> Member:
    """Return a member by its id, after checking the instance id, if any.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if instance_id is not None:
        return static_member(group, member_id, instance_id)
    member = group.members.get(member_id)
    if member is None:
        raise unknown_member(group, member_id)
    return member


def unknown_member(group: ConsumerGroup, member_id: MemberId) -> ApiError:
    """Return the error for a member that is not in the group."""
    return ApiError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def check_group_size(
    group: ConsumerGroup, member_id: MemberId, instance_id: str | None, context: Context
) -> None:
    """Refuse a new member of a full group.

    Existing members may stay, and static members may return under another member id
    (KAFKA-20601).
    """
    if member_id in group.members or instance_id in group.static_members:
        return
    most = context.environment.settings.group_consumer_max_size
    if len(group.members) >= most:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {most} members.",
        )


def with_heartbeat(
    member: Member, request: m.ConsumerGroupHeartbeatRequest, context: Context
) -> Member:
    """Return the member with the fields that the heartbeat sets; null fields change
    nothing.

    A member that sends a ConsumerGroupHeartbeat uses the consumer protocol from now on.
    """
    assert request.member_epoch >= JOIN_EPOCH, "a leaving member has no fields to apply"
    changes: dict[str, Any] = {
        "client_id": context.client_id,
        "client_host": context.client_host,
        "classic": None,
    }
    if request.instance_id is not None:
        changes["instance_id"] = request.instance_id
    if request.rack_id is not None:
        changes["rack_id"] = request.rack_id
    if request.server_assignor is not None:
        changes["server_assignor"] = request.server_assignor
    if request.subscribed_topic_names is not None:
        changes["topic_names"] = unique_names(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        # The empty expression ends the subscription.
        changes["topic_regex"] = request.subscribed_topic_regex or None
    settings = context.environment.settings
    if (
        request.client_assignors is not None
        and settings.group_consumer_client_assignors_enable
    ):
        changes["client_assignors"] = tuple(map(_offer, request.client_assignors))
    if request.rebalance_timeout_ms != -1:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    after = member._replace(**changes)
    return member if after == member else after


def _offer(assignor: m.ClientAssignor) -> ClientAssignor:
    return ClientAssignor(
        assignor.name,
        assignor.minimum_version,
        assignor.maximum_version,
        assignor.reason,
        assignor.metadata_version,
        bytes(assignor.metadata_bytes),
    )
