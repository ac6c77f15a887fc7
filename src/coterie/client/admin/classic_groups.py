"""Classic groups as DescribeGroups tells them, and as far as they can be read.

What members subscribe to and own is in bytes that consumers wrote for each other (the
embedded consumer protocol); a broker hands them on unread, so they may be anything.
Bytes that are not of that protocol are told as nothing, and harm no group. A Coterie
broker says more in tagged fields of its own (KIP-181): generation, leader, and for each
member its topics and all assignors that it offers; from other brokers only the topics
can be derived, of a stable group (C-12).
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Final, TypeVar

from coterie.client.admin.group_values import (
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
    Node,
)
from coterie.client.admin.operations import operations
from coterie.client.admin.refusals import refusal
from coterie.errors import CoterieError, MalformedFrame
from coterie.types import TopicPartition
from coterie.wire.codec import decode
from coterie.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from coterie.wire.schema import Message

M = TypeVar("M", bound=Message)

CONSUMER: Final = "consumer"
"""The protocol type of groups whose members are consumers."""
_NOT_TOLD: Final = -1
_VERSION: Final = struct.Struct(">h")


def classic_group(group: DescribedGroup, node: Node) -> GroupDescription | CoterieError:
    """A group, or the error that is told instead. One that is Dead is not there."""
    what = f"group {group.group_id}"
    state = GroupState.read(group.group_state)
    if group.error_code:
        return refusal(group.error_code, what, group.error_message)
    if state is GroupState.DEAD:
        return refusal(ErrorCode.GROUP_ID_NOT_FOUND, what)
    members = sorted(group.members, key=lambda member: member.member_id)
    are_consumers = group.protocol_type == CONSUMER
    generation = group.generation_id
    return GroupDescription(
        group_id=group.group_id,
        type=GroupType.CLASSIC,
        state=state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=node,
        members=tuple(_member(each, are_consumers) for each in members),
        generation_id=None if generation == _NOT_TOLD else generation,
        leader_id=group.leader_id,
        authorized_operations=operations(group.authorized_operations),
    )


def _member(member: DescribedGroupMember, is_consumer: bool) -> MemberDescription:
    subscription = assignment = None
    topics, offered = member.member_subscription, member.member_protocols
    if is_consumer:
        subscription = read(ConsumerProtocolSubscription, member.member_metadata)
        assignment = read(ConsumerProtocolAssignment, member.member_assignment)
    if topics is None and subscription is not None:
        topics = subscription.topics
    return MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(assignment),
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id if subscription else None,
        subscribed_topics=None if topics is None else tuple(sorted(topics)),
        protocols=None if offered is None else tuple(offered),
    )


def read(kind: type[M], data: bytes) -> M | None:
    """A message of the embedded protocol, with its version before it; None when these
    bytes are none.

    A newer version begins like the newest that is known (E20-21), and each begins like
    version 0: some clients name a later one and write no more than that (E19-19).
    """
    if len(data) < _VERSION.size:
        return None
    told = _VERSION.unpack_from(data)[0]
    if told < 0:
        return None
    for version in (min(told, kind.VERSIONS.high), 0):
        with suppress(MalformedFrame):
            return decode(kind, version, data, _VERSION.size)[0]
    return None


def _partitions(
    assignment: ConsumerProtocolAssignment | None,
) -> tuple[TopicPartition, ...]:
    if assignment is None:
        return ()
    return tuple(
        sorted(
            TopicPartition(topic.topic, partition)
            for topic in assignment.assigned_partitions
            for partition in topic.partitions
        )
    )
