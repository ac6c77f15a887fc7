"""AlterShareGroupOffsets, key 91, and DeleteShareGroupOffsets, key 92 (KIP-932).

Both change the state of share partitions, and are only for groups without members. The
response waits for the store. The server sends what the principal may change and, to
alter, what exists; it adds the rest of the response.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coterie.broker.coordinator.result import Context, Result
from coterie.broker.coordinator.share.draft import ShareDraft
from coterie.broker.coordinator.share.group import NO_PARTITIONS, ShareGroup
from coterie.broker.coordinator.share.initialization import (
    deletable_partitions,
    initializing,
    without_topics,
)
from coterie.broker.coordinator.share.state_requests import (
    DeleteShareState,
    InitializeShareState,
    SharePartitions,
    request_timer,
)
from coterie.broker.coordinator.state import State, share_group
from coterie.errors import ApiError
from coterie.types import TopicId, TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

NO_TOPIC: Final = "This server does not host this topic-partition."
NO_OFFSETS: Final = "There is no offset information to delete."


def check_empty(group: ShareGroup) -> None:
    """Raise ApiError NON_EMPTY_GROUP for a group with members."""
    if group.members:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def alter_offsets(
    state: State, request: m.AlterShareGroupOffsetsRequest, context: Context
) -> Result:
    """Set the start offsets of partitions, which are initialized with them.

    An unknown group is created.

    Raises:
        ApiError: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND for a group of another type,
            NON_EMPTY_GROUP, POLICY_VIOLATION.
    """
    group_id = request.group_id
    check_group_id(request, context)
    if state.group(group_id) is None:
        state.check_room(group_id, context.environment.settings)
        group = ShareGroup(group_id)
    else:
        group = share_group(state, group_id)
    check_empty(group)
    topics = tuple(_altered(request, context))
    if not topics:
        return Result(m.AlterShareGroupOffsetsResponse())
    draft = ShareDraft(group, context)
    change = InitializeShareState(group_id, draft.epoch, topics, ticket=context.ticket)
    draft.put_partitions(initializing(draft.partitions, change))
    draft.set(request_timer(change, context))
    return draft.result()


def _altered(
    request: m.AlterShareGroupOffsetsRequest, context: Context
) -> Iterable[SharePartitions]:
    """Yield the partitions of existing topics, by topic and offset.

    The last offset of a repeated partition counts.
    """
    offsets: dict[TopicName, dict[int, int]] = {}
    for topic in request.topics:
        of_topic = offsets.setdefault(topic.topic_name, {})
        for partition in topic.partitions:
            of_topic[partition.partition_index] = partition.start_offset
    for name, of_topic in offsets.items():
        topic_id = context.environment.topics.topic_id(name)
        by_offset: dict[int, list[int]] = {}
        for index in sorted(of_topic):
            by_offset.setdefault(of_topic[index], []).append(index)
        if topic_id is not None:
            for offset, indexes in by_offset.items():
                yield SharePartitions(topic_id, name, tuple(indexes), offset)


def delete_offsets(
    state: State, request: m.DeleteShareGroupOffsetsRequest, context: Context
) -> Result:
    """Delete the state of all partitions of topics.

    A topic that is being deleted already is deleted again.

    Raises:
        ApiError: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    check_group_id(request, context)
    group = share_group(state, request.group_id)
    check_empty(group)
    states = group.partitions or NO_PARTITIONS
    wanted: dict[TopicId, TopicName] = {}
    refused: list[tuple[TopicName, str]] = []
    for name in dict.fromkeys(topic.topic_name for topic in request.topics):
        topic_id = context.environment.topics.topic_id(name)
        if topic_id is None:
            refused.append((name, NO_TOPIC))
        elif topic_id in states.initialized or topic_id in states.deleting:
            wanted[topic_id] = name
        else:
            refused.append((name, NO_OFFSETS))
    topics = tuple(
        each
        for each in deletable_partitions(group, context.environment.topics)
        if each.topic_id in wanted
    )
    change = DeleteShareState(
        request.group_id,
        topics,
        deletes_group=False,
        ticket=context.ticket,
        refused=tuple(refused),
    )
    if not topics:
        return Result(deletion_response(change, ErrorCode.NONE))
    draft = ShareDraft(group, context)
    left = without_topics(group, wanted) or states
    draft.put_partitions(left._replace(deleting={**left.deleting, **wanted}))
    draft.set(request_timer(change, context))
    return draft.result()


def check_group_id(
    request: m.AlterShareGroupOffsetsRequest | m.DeleteShareGroupOffsetsRequest,
    context: Context,
) -> None:
    """Raise ApiError INVALID_GROUP_ID for the empty id."""
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")


def alteration_response(
    request: InitializeShareState, code: ErrorCode
) -> m.AlterShareGroupOffsetsResponse:
    """Return the response for the partitions of a request."""
    topics: dict[TopicId, m.AlterShareGroupOffsetsResponseTopic] = {}
    for each in request.topics:
        topic = topics.setdefault(
            each.topic_id,
            m.AlterShareGroupOffsetsResponseTopic(
                topic_name=each.topic_name, topic_id=each.topic_id
            ),
        )
        topic.partitions += [
            m.AlterShareGroupOffsetsResponsePartition(
                partition_index=index, error_code=code
            )
            for index in each.partitions
        ]
    return m.AlterShareGroupOffsetsResponse(responses=[*topics.values()])


def deletion_response(
    request: DeleteShareState, code: ErrorCode
) -> m.DeleteShareGroupOffsetsResponse:
    """Return the response for the topics of a request."""
    return m.DeleteShareGroupOffsetsResponse(
        responses=[
            *(
                m.DeleteShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    error_message=reason,
                )
                for name, reason in request.refused
            ),
            *(
                m.DeleteShareGroupOffsetsResponseTopic(
                    topic_name=each.topic_name, topic_id=each.topic_id, error_code=code
                )
                for each in request.topics
            ),
        ]
    )


def refuse_alter(
    request: m.AlterShareGroupOffsetsRequest,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> m.AlterShareGroupOffsetsResponse:
    """Return the response that carries an error and no topics."""
    return m.AlterShareGroupOffsetsResponse(error_code=code, error_message=message)


def refuse_delete(
    request: m.DeleteShareGroupOffsetsRequest,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> m.DeleteShareGroupOffsetsResponse:
    """Return the response that carries an error and no topics."""
    return m.DeleteShareGroupOffsetsResponse(error_code=code, error_message=message)
