"""The requests of admin clients: list, describe and delete groups.

- ListGroups, key 16: all groups of one shard. v4 filters by state, v5 by type.
- DescribeGroups, key 15, for one classic group. v4 has instance ids. v6 returns
  GROUP_ID_NOT_FOUND where older versions describe an unknown group, or one of another
  type, as Dead without an error (KIP-1043). Our tagged fields of KIP-181
  (generation, leader, subscription and protocols of each member) are filled in every
  state of the group, for requests that ask for them. They contain no member metadata
  in bytes, which stays hidden until the group is stable.
- ConsumerGroupDescribe, key 69, for one consumer group. v1 has the type of each member
  (KIP-1099). The response has only the name of the preferred assignor, as in Apache
  Kafka.
- DeleteGroups, key 42, for one group and its offsets (KIP-229). v3 has an error message
  for each group (KIP-1331).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from coterie.broker.coordinator.classic.group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    GroupState,
)
from coterie.broker.coordinator.classic.group import Member as ClassicMember
from coterie.broker.coordinator.consumer.embedded import read_subscription
from coterie.broker.coordinator.consumer.group import ConsumerGroup, ConsumerGroupState
from coterie.broker.coordinator.consumer.member import Member, Target
from coterie.broker.coordinator.offsets.deletion import (
    all_tombstones,
    group_tombstones,
)
from coterie.broker.coordinator.result import Context, Result, TopicView
from coterie.broker.coordinator.share.admin import delete_share_group
from coterie.broker.coordinator.share.group import SHARE_PROTOCOL_TYPE, ShareGroup
from coterie.broker.coordinator.state import State
from coterie.errors import ApiError, MalformedFrame
from coterie.java import trim
from coterie.types import GroupId, TopicId, TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

# ------------------------------------------------------------------ ListGroups

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


def list_groups(state: State, request: m.ListGroupsRequest, context: Context) -> Result:
    """Return the groups that pass both filters; an empty filter passes all.

    Filters are compared without regard to case, states also without spaces around
    them. The values of one filter are alternatives, and an unknown value
    matches nothing.
    """
    states = {trim(value).lower() for value in request.states_filter}
    types = {value.lower() for value in request.types_filter}
    groups = [
        group
        for group in _listed_groups(state)
        if (not types or group.group_type in types)
        and (not states or group.group_state.lower() in states)
    ]
    return Result(m.ListGroupsResponse(groups=groups))


def refuse_list_groups(
    request: m.ListGroupsRequest,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> m.ListGroupsResponse:
    """Return the response that carries an error and no groups."""
    return m.ListGroupsResponse(error_code=code)


def _listed_groups(state: State) -> Iterator[m.ListedGroup]:
    for classic in state.classic_groups.values():
        yield m.ListedGroup(
            group_id=classic.group_id,
            protocol_type=classic.protocol_type or "",
            group_state=classic.state.value,
            group_type=CLASSIC,
        )
    for consumer in state.consumer_groups.values():
        yield m.ListedGroup(
            group_id=consumer.group_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            group_state=consumer.state.value,
            group_type=CONSUMER,
        )
    for share in state.share_groups.values():
        yield m.ListedGroup(
            group_id=share.group_id,
            protocol_type=SHARE_PROTOCOL_TYPE,
            group_state=share.state.value,
            group_type=SHARE_PROTOCOL_TYPE,
        )


# -------------------------------------------------------------- DescribeGroups

NOT_FOUND_SINCE: Final = 6
"""The version of DescribeGroups from which an unknown group is an error."""


class DescribeGroup(NamedTuple):
    """One group of a DescribeGroups request."""

    group_id: GroupId
    with_private_fields: bool = False


def describe_group(state: State, request: DescribeGroup, context: Context) -> Result:
    """Describe a classic group.

    The protocol and the members' metadata are part of the response only when the group
    is Stable. The assignments are those of the last generation in every state.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, from v6 on.
    """
    group_id = request.group_id
    group = state.classic_groups.get(group_id)
    if group is None:
        if context.api_version >= NOT_FOUND_SINCE:
            raise _group_not_found(
                group_id,
                "is not a classic group" if state.group(group_id) is not None else None,
            )
        return Result(_dead_group(group_id))
    protocol = group.protocol_name if group.state is GroupState.STABLE else None
    described = m.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[
            _described_classic_member(member, protocol)
            for member in group.members.values()
        ],
    )
    if request.with_private_fields:
        _add_private_fields(described, group, protocol)
    return Result(described)


def refuse_describe_group(
    request: DescribeGroup,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> m.DescribedGroup:
    """Return the response that carries an error; an unknown group is Dead."""
    response = m.DescribedGroup(group_id=request.group_id)
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        response = _dead_group(request.group_id)
    response.error_code = code
    response.error_message = message
    return response


def _group_not_found(group_id: GroupId, reason: str | None = None) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason or 'not found'}."
    )


def _dead_group(group_id: GroupId) -> m.DescribedGroup:
    return m.DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)


def _described_classic_member(
    member: ClassicMember, protocol: str | None
) -> m.DescribedGroupMember:
    described = m.DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_assignment=member.assignment,
    )
    if protocol is not None:
        described.member_metadata = member.metadata(protocol)
    return described


def _add_private_fields(
    described: m.DescribedGroup, group: ClassicGroup, protocol: str | None
) -> None:
    """Add the fields of KIP-181's draft."""
    described.generation_id = group.generation
    described.leader_id = group.leader_id
    members = zip(described.members, group.members.values(), strict=True)
    for described_member, member in members:
        described_member.member_protocols = [name for name, _ in member.protocols]
        if group.uses_consumer_protocol:
            described_member.member_subscription = _subscribed_topics(member, protocol)


def _subscribed_topics(
    member: ClassicMember, protocol: str | None
) -> list[TopicName] | None:
    """Return the topics of a consumer's subscription; None when it cannot be decoded.

    Before the group has selected a protocol, use the metadata of the member's first
    one.
    """
    first = next((name for name, _ in member.protocols), None)
    try:
        return sorted(read_subscription(member.metadata(protocol or first)).topics)
    except MalformedFrame:
        return None


# ------------------------------------------------------- ConsumerGroupDescribe

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1
"""The types of members."""


class DescribeConsumerGroup(NamedTuple):
    """One group of a ConsumerGroupDescribe request."""

    group_id: GroupId


def describe_consumer_group(
    state: State, request: DescribeConsumerGroup, context: Context
) -> Result:
    """Describe a consumer group.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, also for a classic group;
            TOPIC_AUTHORIZATION_FAILED when DESCRIBE on one of the group's topics is
            denied; the response then has only the error.
    """
    group_id = request.group_id
    group = state.consumer_groups.get(group_id)
    if group is None:
        raise _group_not_found(
            group_id,
            "is not a consumer group" if state.group(group_id) is not None else None,
        )
    topics = context.environment.topics
    described = m.DescribedConsumerGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(tuple(context.environment.assignors)),
        members=[
            _described_member(group, member, topics)
            for member in group.members.values()
        ],
    )
    if not all(
        context.may_describe(topic) for topic in {*_described_topics(described)}
    ):
        raise ApiError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The group has described topic(s) that the client is not authorized to "
            "describe.",
        )
    return Result(described)


def refuse_describe_consumer_group(
    request: DescribeConsumerGroup,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> m.DescribedConsumerGroup:
    """Return the response that carries an error and no content."""
    return m.DescribedConsumerGroup(
        group_id=request.group_id, error_code=code, error_message=message
    )


def _described_topics(described: m.DescribedConsumerGroup) -> Iterator[TopicName]:
    # Kafka's `KafkaApis.handleConsumerGroupDescribe` checks no subscribed topics.
    for member in described.members:
        for assignment in (member.assignment, member.target_assignment):
            for topic in assignment.topic_partitions:
                yield topic.topic_name


def _described_member(
    group: ConsumerGroup, member: Member, topics: TopicView
) -> m.DescribedMember:
    is_classic = member.classic is not None
    return m.DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        # Kafka's `ConsumerGroupMember` has an empty expression when it has none.
        subscribed_topic_regex=member.topic_regex or "",
        assignment=_described_assignment(_owned(member), topics),
        target_assignment=_described_assignment(group.target(member.member_id), topics),
        member_type=CLASSIC_MEMBER if is_classic else CONSUMER_MEMBER,
    )


def _owned(member: Member) -> Target:
    """Return the member's partitions, including those it has yet to revoke.

    Until it has revoked them no other member owns them.
    """
    owned: dict[TopicId, frozenset[int]] = {}
    for assigned in (member.assigned, member.pending_revocation):
        for topic, partitions in assigned.items():
            owned[topic] = owned.get(topic, frozenset()).union(partitions)
    return owned


def _described_assignment(
    partitions: Mapping[TopicId, Iterable[int]], topics: TopicView
) -> m.DescribedAssignment:
    # A deleted topic has no name and is left out.
    named = ((topic, topics.topic_name(topic)) for topic in partitions)
    return m.DescribedAssignment(
        topic_partitions=[
            m.DescribedTopicPartitions(
                topic_id=topic, topic_name=name, partitions=sorted(partitions[topic])
            )
            for topic, name in named
            if name is not None
        ]
    )


# ---------------------------------------------------------------- DeleteGroups


class DeleteGroup(NamedTuple):
    """One group of a DeleteGroups request."""

    group_id: GroupId


def delete_group(state: State, request: DeleteGroup, context: Context) -> Result:
    """Write tombstones for the group's offsets and for the group, in one batch.

    Offsets of open transactions are deleted too.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    group_id = request.group_id
    group = state.group(group_id)
    if group is None:
        raise _group_not_found(group_id)
    if isinstance(group, ShareGroup):
        return delete_share_group(group, context)
    if group.state not in (GroupState.EMPTY, ConsumerGroupState.EMPTY):
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    records = (*all_tombstones(state, group_id), *group_tombstones(group))
    return Result(m.DeletableGroupResult(group_id=group_id), records=records)


def refuse_delete_group(
    request: DeleteGroup, context: Context, code: ErrorCode, message: str | None = None
) -> m.DeletableGroupResult:
    """Return the response that carries an error."""
    return m.DeletableGroupResult(
        group_id=request.group_id, error_code=code, error_message=message
    )
