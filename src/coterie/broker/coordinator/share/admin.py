"""The requests of admin clients about share groups: describe and delete them.

- ShareGroupDescribe, key 77, for one share group.
- DeleteGroups, key 42, for one share group: the state of its partitions is deleted
  first, and the group when that is durable.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from coterie.broker.coordinator.consumer.member import Target
from coterie.broker.coordinator.result import Context, Reply, Result, TopicView
from coterie.broker.coordinator.share.draft import ShareDraft
from coterie.broker.coordinator.share.group import (
    PartitionStates,
    ShareGroup,
    ShareMember,
)
from coterie.broker.coordinator.share.initialization import (
    deletable_partitions,
    finish_initialization,
    without_topics,
)
from coterie.broker.coordinator.share.record_builders import (
    group_tombstones,
    partitions_record,
)
from coterie.broker.coordinator.share.start_offsets import (
    alteration_response,
    check_empty,
    deletion_response,
)
from coterie.broker.coordinator.share.state_requests import (
    NO_TICKET,
    DeleteShareState,
    InitializeShareState,
    ShareStateChanged,
    request_timer,
)
from coterie.broker.coordinator.state import State, share_group
from coterie.errors import ApiError
from coterie.types import GroupId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Struct

ASSIGNOR: Final = "simple"


class DescribeShareGroup(NamedTuple):
    """One group of a ShareGroupDescribe request."""

    group_id: GroupId


def describe_share_group(
    state: State, request: DescribeShareGroup, context: Context
) -> Result:
    """Describe a share group.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, also for a group of another type;
            TOPIC_AUTHORIZATION_FAILED when DESCRIBE on an assigned topic is denied.
    """
    group = share_group(state, request.group_id)
    topics = context.environment.topics
    described = m.DescribedShareGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_described(member, topics) for member in group.members.values()],
    )
    assigned = {
        topic.topic_name
        for member in described.members
        for topic in member.assignment.topic_partitions
    }
    if not all(context.may_describe(topic) for topic in assigned):
        raise ApiError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The group has described topic(s) that the client is not authorized to "
            "describe.",
        )
    return Result(described)


def refuse_describe_share_group(
    request: DescribeShareGroup,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> m.DescribedShareGroup:
    """Return the response that carries an error and no content."""
    return m.DescribedShareGroup(
        group_id=request.group_id, error_code=code, error_message=message
    )


def _described(member: ShareMember, topics: TopicView) -> m.ShareMember:
    return m.ShareMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        assignment=_described_assignment(member.assigned, topics),
    )


def _described_assignment(assigned: Target, topics: TopicView) -> m.ShareAssignment:
    # A deleted topic has no name and is left out.
    named = ((topic_id, topics.topic_name(topic_id)) for topic_id in sorted(assigned))
    return m.ShareAssignment(
        topic_partitions=[
            m.ShareTopicPartitions(
                topic_id=topic_id,
                topic_name=name,
                partitions=sorted(assigned[topic_id]),
            )
            for topic_id, name in named
            if name is not None
        ]
    )


# ---------------------------------------------------------------- DeleteGroups


def delete_share_group(group: ShareGroup, context: Context) -> Result:
    """Delete a group, or first the state of its partitions.

    Raises:
        ApiError: NON_EMPTY_GROUP.
    """
    check_empty(group)
    response = m.DeletableGroupResult(group_id=group.group_id)
    topics = deletable_partitions(group, context.environment.topics)
    if not topics:
        return Result(response, records=tuple(group_tombstones(group)))
    draft = ShareDraft(group, context)
    deleting = {each.topic_id: each.topic_name for each in topics}
    draft.put_partitions(PartitionStates(deleting=deleting))
    request = DeleteShareState(
        group.group_id, topics, deletes_group=True, ticket=context.ticket
    )
    draft.set(request_timer(request, context))
    return draft.result()


def handle_state_changed(
    state: State, event: ShareStateChanged, context: Context
) -> Result:
    """Finish what waited for a change of the state of share partitions.

    A group that was deleted meanwhile needs nothing.
    """
    request, code = event
    group = state.share_groups.get(request.group_id)
    result = Result()
    if isinstance(request, InitializeShareState):
        if group is not None:
            result = finish_initialization(group, request, code, context)
    elif group is not None and code is ErrorCode.NONE:
        result, code = _finish_deletion(group, request)
    if request.ticket == NO_TICKET:
        return result
    response: Struct
    if isinstance(request, InitializeShareState):
        response = alteration_response(request, code)
    elif request.deletes_group:
        response = m.DeletableGroupResult(group_id=request.group_id, error_code=code)
    else:
        response = deletion_response(request, code)
    return result._replace(replies=(Reply(request.ticket, response),))


def _finish_deletion(
    group: ShareGroup, request: DeleteShareState
) -> tuple[Result, ErrorCode]:
    """Delete the group, or remove the topics from it. A member may have joined it
    meanwhile; then the topics are removed, and the group stays."""
    if request.deletes_group and not group.members:
        return Result(records=tuple(group_tombstones(group))), ErrorCode.NONE
    left = without_topics(group, [each.topic_id for each in request.topics])
    records = () if left is None else (partitions_record(group.group_id, left),)
    code = ErrorCode.NON_EMPTY_GROUP if request.deletes_group else ErrorCode.NONE
    return Result(records=records), code
