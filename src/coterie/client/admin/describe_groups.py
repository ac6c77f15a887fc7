"""Describing groups of both protocols without being told which a group speaks.

A broker that has ConsumerGroupDescribe is asked that first; what it does not know as a
group of KIP-848 is asked of DescribeGroups, on the same broker (E16-12). An older
broker has classic groups only.

A group that is not there is the error GROUP_ID_NOT_FOUND, whatever the broker's age:
before version 6, DescribeGroups tells of it as of a group that is Dead, and so it is
read. Who described it a moment ago must not see a group that nobody made (E29-03).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from coterie.client.admin.classic_groups import classic_group
from coterie.client.admin.driver import GroupDriver, Outcomes
from coterie.client.admin.group_values import (
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
    Node,
)
from coterie.client.admin.operations import operations
from coterie.client.admin.refusals import refusal
from coterie.client.admin.results import Progress, Results
from coterie.client.cluster import Cluster
from coterie.errors import CoterieError, UnsupportedByBroker
from coterie.types import GroupId, TopicPartition
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)
from coterie.wire.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_ASK_THE_OTHER: Final = frozenset(
    {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}
)
_CLASSIC_MEMBER: Final = 0
_UNTOLD: Final = -1
_CONSUMER: Final = "consumer"


async def describe_groups(
    cluster: Cluster,
    group_ids: Iterable[GroupId],
    *,
    with_operations: bool = False,
    progress: Progress | None = None,
) -> Results[GroupId, GroupDescription]:
    """Describe each group. Authorized operations are asked for when wanted; brokers
    before 2.3 do not tell them."""
    ask = _Describer(cluster, with_operations).ask
    return await GroupDriver[GroupDescription](cluster, ask, progress=progress).run(
        group_ids
    )


class _Describer(NamedTuple):
    cluster: Cluster
    with_operations: bool

    async def ask(
        self, node: Node, group_ids: Sequence[GroupId]
    ) -> Outcomes[GroupDescription]:
        outcomes = dict(await self._consumer_groups(node, group_ids))
        rest = [each for each in group_ids if each not in outcomes]
        if rest:
            outcomes.update(await self._classic_groups(node, rest))
        return outcomes

    async def _consumer_groups(
        self, node: Node, group_ids: Sequence[GroupId]
    ) -> Outcomes[GroupDescription]:
        """What is known of those that are groups of KIP-848."""
        request = ConsumerGroupDescribeRequest(
            group_ids=list(group_ids),
            include_authorized_operations=self.with_operations,
        )
        try:
            answer = await self.cluster.call(
                request, ConsumerGroupDescribeResponse, node_id=node.node_id
            )
        except UnsupportedByBroker:
            return {}
        return {
            each.group_id: _consumer_group(each, node)
            for each in answer.groups
            if each.error_code not in _ASK_THE_OTHER
        }

    async def _classic_groups(
        self, node: Node, group_ids: Sequence[GroupId]
    ) -> Outcomes[GroupDescription]:
        request = DescribeGroupsRequest(
            groups=list(group_ids),
            include_authorized_operations=self.with_operations,
        )
        answer = await self.cluster.call(
            request, DescribeGroupsResponse, node_id=node.node_id
        )
        return {each.group_id: classic_group(each, node) for each in answer.groups}


def _consumer_group(
    group: DescribedGroup, node: Node
) -> GroupDescription | CoterieError:
    if group.error_code:
        what = f"group {group.group_id}"
        return refusal(group.error_code, what, group.error_message)
    members = sorted(group.members, key=lambda member: member.member_id)
    return GroupDescription(
        group_id=group.group_id,
        type=GroupType.CONSUMER,
        state=GroupState.read(group.group_state),
        protocol_type=_CONSUMER,
        assignor=group.assignor_name,
        coordinator=node,
        members=tuple(_member(each) for each in members),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        authorized_operations=operations(group.authorized_operations),
    )


def _member(member: Member) -> MemberDescription:
    told = member.member_type != _UNTOLD
    return MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(member.assignment),
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        target_assignment=_partitions(member.target_assignment),
        epoch=member.member_epoch,
        is_classic=member.member_type == _CLASSIC_MEMBER if told else None,
        subscribed_topics=tuple(sorted(member.subscribed_topic_names)),
        subscribed_topic_regex=member.subscribed_topic_regex or None,
    )


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
    )
