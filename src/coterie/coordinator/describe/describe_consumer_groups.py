"""ConsumerGroupDescribe, key 69, for one group: what each member has and shall have.

v1 says which protocol a member speaks (KIP-1099). Of the assignors only the name of the
one in use is told, as Kafka came to ship it (E16-13).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from coterie.coordinator.consumer import member as consumer
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import Target
from coterie.coordinator.result import Context, Result, TopicView
from coterie.coordinator.state import State
from coterie.errors import ApiError
from coterie.types import GroupId, TopicId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1
"""The types of members (E16-03)."""


class DescribeConsumerGroup(NamedTuple):
    """One group of a ConsumerGroupDescribe request."""

    group_id: GroupId


def handle(state: State, request: DescribeConsumerGroup, context: Context) -> Result:
    """Describe the group.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, for a classic group, too (E16-04);
            TOPIC_AUTHORIZATION_FAILED: it has a topic that the client may not know of,
            so nothing is told of it (E16-06).
    """
    group_id = request.group_id
    group = state.consumer_groups.get(group_id)
    if group is None:
        raise _not_found(group_id, is_classic=group_id in state.classic_groups)
    configured = tuple(context.assignors)
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(configured),
        members=[
            _member(group, member, context.topics) for member in group.members.values()
        ],
    )
    if not all(context.may_describe(topic) for topic in {*_topics(described)}):
        raise ApiError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The group has described topic(s) that the client is not authorized to "
            "describe.",
        )
    return Result(described)


def refuse(
    request: DescribeConsumerGroup, code: ErrorCode, message: str | None = None
) -> DescribedGroup:
    """The answer that carries an error and no content."""
    return DescribedGroup(
        group_id=request.group_id, error_code=code, error_message=message
    )


def _not_found(group_id: GroupId, *, is_classic: bool) -> ApiError:
    what = "is not a consumer group" if is_classic else "not found"
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")


def _topics(described: DescribedGroup) -> Iterator[TopicName]:
    """Every topic that the answer names."""
    for member in described.members:
        yield from member.subscribed_topic_names
        for assignment in (member.assignment, member.target_assignment):
            for topic in assignment.topic_partitions:
                yield topic.topic_name


def _member(group: ConsumerGroup, member: consumer.Member, topics: TopicView) -> Member:
    is_classic = member.classic is not None
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(_owned(member), topics),
        target_assignment=_assignment(group.target(member.member_id), topics),
        member_type=CLASSIC_MEMBER if is_classic else CONSUMER_MEMBER,
    )


def _owned(member: consumer.Member) -> Target:
    """What the member has, that which it has yet to revoke included: until then nobody
    else has it (F6-02, E16-10)."""
    owned: dict[TopicId, frozenset[int]] = {}
    for held in (member.assigned, member.pending_revocation):
        for topic, partitions in held.items():
            owned[topic] = owned.get(topic, frozenset()) | partitions.keys()
    return owned


def _assignment(
    partitions: Mapping[TopicId, Iterable[int]], topics: TopicView
) -> Assignment:
    """Topics that are gone have no name, and are left out (E16-11)."""
    named = ((topic, topics.topic_name(topic)) for topic in partitions)
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic, topic_name=name, partitions=sorted(partitions[topic])
            )
            for topic, name in named
            if name is not None
        ]
    )
