"""Who sends a heartbeat: the member it comes from, or a new one (E7.5, E9)."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import NamedTuple

from coterie.coordinator.consumer.client_side.values import ClientAssignor
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.epochs import check_member_epoch
from coterie.coordinator.consumer.member import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    Member,
)
from coterie.coordinator.consumer.reconcile import Owned
from coterie.coordinator.result import Context
from coterie.errors import ApiError
from coterie.types import MemberId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    ClientAssignor as SaidAssignor,
)
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)


class Sender(NamedTuple):
    """The member as it was before the step, `None` if it is new.

    `leaver` is the member whose place a static member takes: the same instance under
    another member id (E9-05).
    """

    member_id: MemberId
    before: Member | None
    leaver: Member | None = None


def find_sender(
    draft: Draft, request: ConsumerGroupHeartbeatRequest, owned: Owned | None
) -> Sender:
    """The member that a heartbeat, other than one that leaves, comes from.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID,
            UNRELEASED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, INVALID_REQUEST.
    """
    member_id = request.member_id or short_uuid(draft.context)
    if request.instance_id is None:
        sender = _dynamic(draft, member_id, request, owned)
    else:
        sender = _static(draft, member_id, request, owned)
    if sender.before is None and sender.leaver is None:
        check_room(draft)
    return sender


def short_uuid(context: Context) -> str:
    """A UUID as Kafka writes it: 22 characters of URL-safe base64 (E10-04)."""
    return base64.urlsafe_b64encode(context.fresh_uuid()).decode().rstrip("=")


def _dynamic(
    draft: Draft,
    member_id: MemberId,
    request: ConsumerGroupHeartbeatRequest,
    owned: Owned | None,
) -> Sender:
    member = draft.member(member_id)
    if member is not None:
        check_member_epoch(member, request.member_epoch, owned)
    elif request.member_epoch != JOIN_EPOCH:
        raise unknown_member(draft, member_id)
    return Sender(member_id, member)


def _static(
    draft: Draft,
    member_id: MemberId,
    request: ConsumerGroupHeartbeatRequest,
    owned: Owned | None,
) -> Sender:
    instance_id = request.instance_id
    assert instance_id is not None
    assert request.member_epoch >= JOIN_EPOCH
    if request.member_epoch != JOIN_EPOCH:
        member = static_member(draft, member_id, instance_id)
        check_member_epoch(member, request.member_epoch, owned)
        return Sender(member_id, member)
    holder = draft.static_member(instance_id)
    if holder is None:
        _check_keeps_instance(draft, member_id)
        return Sender(member_id, None)
    if holder.member_id == member_id:
        return Sender(member_id, holder)  # its own join was answered in vain (F6-10)
    if holder.classic is None and holder.epoch != STATIC_LEAVE_EPOCH:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the "
            f"group because the instance id is owned by member {holder.member_id}.",
        )
    _check_keeps_instance(draft, member_id)
    return Sender(member_id, None, holder)


def _check_keeps_instance(draft: Draft, member_id: MemberId) -> None:
    """A member id stands for one instance as long as it is in the group (E9-04)."""
    if draft.member(member_id) is not None:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "A member cannot change its instance id."
        )


def static_member(draft: Draft, member_id: MemberId, instance_id: str) -> Member:
    """The member of an instance id, which must be this one (E9-08).

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    holder = draft.static_member(instance_id)
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


def unknown_member(draft: Draft, member_id: MemberId) -> ApiError:
    """No such member in the group."""
    return ApiError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {draft.group_id}.",
    )


def check_room(draft: Draft) -> None:
    """E7-24: the members that are there may stay."""
    most = draft.context.settings.group_consumer_max_size
    if draft.size >= most:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {most} members.",
        )


def take_place(draft: Draft, leaver: Member, member_id: MemberId) -> Member:
    """Write the leaver away and the same member, under another id, into its place: it
    has the leaver's target and partitions, and has yet to learn its epoch (E9-05)."""
    assert leaver.member_id != member_id
    target, detail = draft.target(leaver.member_id), draft.detail(leaver.member_id)
    draft.remove(leaver)
    member = successor(leaver, member_id)
    draft.put_metadata(member)
    draft.put_target(member_id, target, detail)
    draft.put_current(member)
    return member


def successor(leaver: Member, member_id: MemberId) -> Member:
    """The same static member under another id; it has yet to learn its epoch."""
    assert leaver.instance_id is not None, "only a static member has a place"
    return replace(
        leaver, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH
    )


def updated(
    member: Member, request: ConsumerGroupHeartbeatRequest, context: Context
) -> Member:
    """The member with all that the heartbeat says of it; what it leaves out stays
    (E7-35). Whoever sends a ConsumerGroupHeartbeat speaks the consumer protocol."""
    assert request.member_epoch >= JOIN_EPOCH, "who leaves says nothing of itself"
    said = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "server_assignor": request.server_assignor,
    }
    changes: dict[str, object] = {
        name: value for name, value in said.items() if value is not None
    }
    if request.subscribed_topic_names is not None:
        changes["topic_names"] = tuple(sorted(set(request.subscribed_topic_names)))
    if request.subscribed_topic_regex is not None:
        # Who says the empty one wants none any more (E14-12).
        changes["topic_regex"] = request.subscribed_topic_regex or None
    if request.client_assignors is not None and _may_compute(context):
        changes["client_assignors"] = tuple(map(_offer, request.client_assignors))
    if request.rebalance_timeout_ms != -1:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    changes["client_id"] = context.client_id
    changes["client_host"] = context.client_host
    changes["classic"] = None
    if all(getattr(member, name) == value for name, value in changes.items()):
        return member
    return replace(member, **changes)  # type: ignore[arg-type]


def _may_compute(context: Context) -> bool:
    return context.settings.group_consumer_client_assignors_enable


def _offer(said: SaidAssignor) -> ClientAssignor:
    return ClientAssignor(
        said.name,
        said.minimum_version,
        said.maximum_version,
        said.reason,
        said.metadata_version,
        bytes(said.metadata_bytes),
    )
