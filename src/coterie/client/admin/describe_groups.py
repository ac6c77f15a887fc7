"""Descriptions of groups of every type in one call.

A ConsumerGroupDescribe request is sent first to a broker that serves it; ids that are
not KIP-848 groups are then sent in a DescribeGroups request to the same broker
(E16-12), and those that are no classic groups either in StreamsGroupDescribe
(KIP-1071) and ShareGroupDescribe (KIP-932) requests. Older brokers have classic groups
only.

A missing group has the error GROUP_ID_NOT_FOUND with every broker version: before
version 6, DescribeGroups returns it as a group in the state Dead (E29-03).

The subscription and the assignment of a classic member are opaque bytes of the embedded
consumer protocol, which brokers do not check. Bytes that cannot be decoded count as
absent. A Coterie broker adds tagged fields when the request asks for them (KIP-181):
generation, leader, and each member's topics and assignors; from other brokers the
topics are known for stable groups only (C-12).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias, TypeVar

from coterie.client.admin.groups import (
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
    Node,
)
from coterie.client.admin.results import (
    api_error,
    authorized_operations,
)
from coterie.client.cluster import Cluster
from coterie.errors import (
    CoterieError,
    MalformedFrame,
    UnsupportedByBroker,
    UnsupportedGroupType,
    code_of,
)
from coterie.types import GroupId, TopicPartition
from coterie.wire import messages as m
from coterie.wire.codec import decode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message

M = TypeVar("M", bound=Message)

_Described: TypeAlias = dict[GroupId, GroupDescription | CoterieError]

CONSUMER: Final = "consumer"
"""The protocol type of groups of consumers."""
_OTHER_TYPE: Final = frozenset(
    {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}
)
_NOT_CLASSIC: Final = "is not a classic group."
"""The end of Kafka's message about a group of another type (DescribeGroups v6)."""
_CLASSIC_MEMBER: Final = 0
_UNKNOWN: Final = -1
_VERSION: Final = struct.Struct(">h")


class DescribeRequests:
    """The requests to one broker, each for the groups of a type."""

    def __init__(self, cluster: Cluster, with_operations: bool) -> None:
        self._cluster = cluster
        self._with_operations = with_operations

    async def describe(self, node_id: int, ids: Sequence[GroupId]) -> _Described:
        """Describe groups of any type that one broker coordinates."""
        node = self._cluster.node(node_id)
        outcomes = await self._consumer_groups(node, ids)
        rest = [each for each in ids if each not in outcomes]
        if rest:
            outcomes |= await self._classic_groups(node, rest)
        missing = [each for each in rest if is_missing_group(outcomes.get(each))]
        if missing:
            outcomes |= await self._newer_groups(node, missing, outcomes)
        return outcomes

    async def _consumer_groups(self, node: Node, ids: Sequence[GroupId]) -> _Described:
        try:
            response = await self._cluster.call(
                m.ConsumerGroupDescribeRequest(
                    group_ids=list(ids),
                    include_authorized_operations=self._with_operations,
                ),
                m.ConsumerGroupDescribeResponse,
                node_id=node.node_id,
            )
        except UnsupportedByBroker:
            return {}
        return {
            each.group_id: consumer_group(each, node)
            for each in response.groups
            if each.error_code not in _OTHER_TYPE
        }

    async def _classic_groups(self, node: Node, ids: Sequence[GroupId]) -> _Described:
        response = await self._cluster.call(
            m.DescribeGroupsRequest(
                groups=list(ids),
                include_authorized_operations=self._with_operations,
                include_private_fields=True,
            ),
            m.DescribeGroupsResponse,
            node_id=node.node_id,
        )
        return {each.group_id: classic_group(each, node) for each in response.groups}

    async def _newer_groups(
        self,
        node: Node,
        ids: Sequence[GroupId],
        errors: Mapping[GroupId, GroupDescription | CoterieError],
    ) -> _Described:
        """Describe streams groups and share groups. A group that the broker has, but
        cannot describe, has the error UnsupportedGroupType."""
        described: dict[GroupId, GroupDescription | CoterieError] = {}
        too_old: list[str] = []
        for request in (self._streams_groups, self._share_groups):
            rest = [each for each in ids if each not in described]
            try:
                if rest:
                    described |= await request(node, rest)
            except UnsupportedByBroker as error:
                too_old.append(str(error))
        for each in ids:
            if each not in described and str(errors[each]).endswith(_NOT_CLASSIC):
                why = "; ".join(too_old) or "it returns no description of any type"
                described[each] = UnsupportedGroupType(
                    f"group {each} is not of the classic or the consumer protocol, and "
                    f"this broker cannot describe it: {why}"
                )
        return described

    async def _streams_groups(self, node: Node, ids: Sequence[GroupId]) -> _Described:
        # Most clusters have none, so that most commands need not import this.
        from coterie.client.admin.streams_groups import streams_group

        response = await self._cluster.call(
            m.StreamsGroupDescribeRequest(
                group_ids=list(ids), include_authorized_operations=self._with_operations
            ),
            m.StreamsGroupDescribeResponse,
            node_id=node.node_id,
        )
        return {
            each.group_id: streams_group(each, node)
            for each in response.groups
            if each.error_code not in _OTHER_TYPE
        }

    async def _share_groups(self, node: Node, ids: Sequence[GroupId]) -> _Described:
        from coterie.client.admin.share_groups import share_group

        response = await self._cluster.call(
            m.ShareGroupDescribeRequest(
                group_ids=list(ids), include_authorized_operations=self._with_operations
            ),
            m.ShareGroupDescribeResponse,
            node_id=node.node_id,
        )
        return {
            each.group_id: share_group(each, node)
            for each in response.groups
            if each.error_code not in _OTHER_TYPE
        }


def is_missing_group(outcome: object) -> bool:
    """Return whether an outcome is the error GROUP_ID_NOT_FOUND."""
    return code_of(outcome) is ErrorCode.GROUP_ID_NOT_FOUND


def consumer_group(
    group: m.DescribedConsumerGroup, node: Node
) -> GroupDescription | CoterieError:
    """Convert one group of a ConsumerGroupDescribe response, or its error."""
    if group.error_code:
        return api_error(
            group.error_code, f"group {group.group_id}", group.error_message
        )
    members = sorted(group.members, key=lambda member: member.member_id)
    return GroupDescription(
        group_id=group.group_id,
        type=GroupType.CONSUMER,
        state=GroupState.read(group.group_state),
        protocol_type=CONSUMER,
        assignor=group.assignor_name,
        coordinator=node,
        members=tuple(map(_consumer_member, members)),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        authorized_operations=authorized_operations(group.authorized_operations),
    )


def _consumer_member(member: m.DescribedMember) -> MemberDescription:
    is_type_known = member.member_type != _UNKNOWN
    return MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(member.assignment),
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        target_assignment=_partitions(member.target_assignment),
        epoch=member.member_epoch,
        is_classic=member.member_type == _CLASSIC_MEMBER if is_type_known else None,
        subscribed_topics=tuple(sorted(member.subscribed_topic_names)),
        subscribed_topic_regex=member.subscribed_topic_regex or None,
    )


def _partitions(assignment: m.DescribedAssignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
    )


def classic_group(
    group: m.DescribedGroup, node: Node
) -> GroupDescription | CoterieError:
    """Convert one group of a DescribeGroups response, or its error."""
    name = f"group {group.group_id}"
    state = GroupState.read(group.group_state)
    if group.error_code:
        return api_error(group.error_code, name, group.error_message)
    if state is GroupState.DEAD:
        return api_error(ErrorCode.GROUP_ID_NOT_FOUND, name)
    members = sorted(group.members, key=lambda member: member.member_id)
    generation = group.generation_id
    return GroupDescription(
        group_id=group.group_id,
        type=GroupType.CLASSIC,
        state=state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=node,
        members=tuple(
            _classic_member(each, is_consumer=group.protocol_type == CONSUMER)
            for each in members
        ),
        generation_id=None if generation == _UNKNOWN else generation,
        leader_id=group.leader_id,
        authorized_operations=authorized_operations(group.authorized_operations),
    )


def _classic_member(
    member: m.DescribedGroupMember, *, is_consumer: bool
) -> MemberDescription:
    subscription = assignment = None
    topics, offered = member.member_subscription, member.member_protocols
    if is_consumer:
        subscription = read_embedded(
            m.ConsumerProtocolSubscription, member.member_metadata
        )
        assignment = read_embedded(
            m.ConsumerProtocolAssignment, member.member_assignment
        )
    if topics is None and subscription is not None:
        topics = subscription.topics
    partitions = [
        TopicPartition(topic.topic, partition)
        for topic in (assignment.assigned_partitions if assignment else ())
        for partition in topic.partitions
    ]
    return MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=tuple(sorted(partitions)),
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id if subscription else None,
        subscribed_topics=None if topics is None else tuple(sorted(topics)),
        protocols=None if offered is None else tuple(offered),
    )


def read_embedded(kind: type[M], data: bytes) -> M | None:
    """Decode a message of the embedded consumer protocol, which starts with its
    version; return None for bytes that are not a valid message.

    A newer version starts with the fields of the newest supported one (E20-21). Each
    version starts with the fields of version 0: some clients send a later version
    number with the fields of version 0 (E19-19).
    """
    if len(data) < _VERSION.size:
        return None
    written = _VERSION.unpack_from(data)[0]
    if written < 0:
        return None
    for version in (min(written, kind.VERSIONS.high), 0):
        with suppress(MalformedFrame):
            return decode(kind, version, data, _VERSION.size)[0]
    return None
