"""The start offsets of share groups: DescribeShareGroupOffsets (90),
AlterShareGroupOffsets (91) and DeleteShareGroupOffsets (92)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from coterie.auth.acl import Operation
from coterie.broker.coordinator.share.start_offsets import NO_TOPIC
from coterie.broker.coordinator.share_partition.state import ShareKey
from coterie.broker.server.apis.routing import (
    ResponseCollector,
    respond_with_error,
    submit_to_coordinator,
)
from coterie.broker.server.call import Call, in_slices
from coterie.errors import ApiError
from coterie.types import GroupId, TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import ZERO_UUID

_NO_OFFSET = -1
_NO_RIGHT = "Topic authorization failed."


def describe_share_group_offsets(call: Call) -> None:
    """Describe the start offsets and lag of groups. Requires DESCRIBE on each group,
    and on each topic."""
    request: m.DescribeShareGroupOffsetsRequest = call.request

    def done(groups: Sequence[m.DescribeShareGroupOffsetsResponseGroup]) -> None:
        call.respond(m.DescribeShareGroupOffsetsResponse(groups=list(groups)))

    collector = ResponseCollector[m.DescribeShareGroupOffsetsResponseGroup](
        len(request.groups), done
    )
    for at, group in enumerate(request.groups):
        try:
            _describe(call, group, collector.part(at))
        except ApiError as error:
            refused = m.DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id,
                error_code=error.code,
                error_message=error.message,
            )
            collector.part(at)(refused)


def _describe(
    call: Call,
    group: m.DescribeShareGroupOffsetsRequestGroup,
    respond: Callable[[m.DescribeShareGroupOffsetsResponseGroup], None],
) -> None:
    """Describe one group. Raises ApiError."""
    if not call.authorize_group(Operation.DESCRIBE, group.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if group.topics is None:
        parts = _initialized(call, group.group_id)
    else:
        parts = {topic.topic_name: topic.partitions for topic in group.topics}
    states = call.node.broker.share_states
    topic_id = call.node.broker.catalog.topic_id
    ids = {name: topic_id(name) for name in parts}
    keys = [
        ShareKey(group.group_id, known, index)
        for name, known in ids.items()
        if known is not None
        for index in parts[name]
    ]

    def loaded(code: ErrorCode) -> None:
        # As in Kafka a state that cannot be read is described as none.
        topics = [
            _described_topic(call, group.group_id, name, parts[name]) for name in parts
        ]
        respond(
            m.DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id, topics=topics
            )
        )

    states.load_all(keys, loaded)


def _initialized(call: Call, group_id: GroupId) -> Mapping[TopicName, Sequence[int]]:
    """Return the initialized partitions of a group, of topics that the client may
    describe.

    Raises ApiError NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.
    """
    broker = call.node.broker
    index = broker.shard_of(group_id)
    if broker.shard_node(index) is not call.node:
        raise ApiError(ErrorCode.NOT_COORDINATOR)
    shard = broker.runtime.readable_shard(index)
    if shard is None:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    group = shard.shard.state.share_groups.get(group_id)
    if group is None or group.partitions is None:
        return {}
    return {
        topic.name: sorted(topic.partitions)
        for topic in group.partitions.initialized.values()
        if call.may_describe(topic.name)
    }


def _described_topic(
    call: Call, group_id: GroupId, name: TopicName, partitions: Sequence[int]
) -> m.DescribeShareGroupOffsetsResponseTopic:
    topic = m.DescribeShareGroupOffsetsResponseTopic(topic_name=name)
    is_allowed = call.may_describe(name)
    topic_id = call.node.broker.catalog.topic_id(name) if is_allowed else None
    topic.topic_id = topic_id or ZERO_UUID
    for index in partitions:
        part = m.DescribeShareGroupOffsetsResponsePartition(
            partition_index=index, start_offset=_NO_OFFSET
        )
        topic.partitions.append(part)
        if not is_allowed:
            part.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic_id is not None:
            _fill(call, ShareKey(group_id, topic_id, index), name, part)
    return topic


def _fill(
    call: Call,
    key: ShareKey,
    name: TopicName,
    part: m.DescribeShareGroupOffsetsResponsePartition,
) -> None:
    """Set the start offset and the number of records still to be delivered
    (KIP-1226)."""
    broker = call.node.broker
    states = broker.share_states
    state = states.state(key) if states.is_loaded(key) else None
    if state is None:
        return
    part.start_offset, part.leader_epoch = state.start_offset, state.leader_epoch
    source = broker.data.partition(name, key.partition)
    complete = state.delivery_complete_count
    if source is not None and state.start_offset >= 0 <= complete:
        end = source.bounds().flushed_offset
        part.lag = end - state.start_offset - complete


@in_slices
def alter_share_group_offsets(call: Call) -> Iterator[None]:
    """Set start offsets of an empty group. Requires READ on the group and on each
    topic."""
    request: m.AlterShareGroupOffsetsRequest = call.request
    if not call.authorize_group(Operation.READ, request.group_id):
        respond_with_error(call, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return
    known = m.AlterShareGroupOffsetsRequest(group_id=request.group_id, topics=[])
    refused: list[m.AlterShareGroupOffsetsResponseTopic] = []
    for topic in request.topics:
        yield
        good, bad = _alterable(call, topic)
        if good:
            known.topics.append(
                m.AlterShareGroupOffsetsRequestTopic(
                    topic_name=topic.topic_name, partitions=good
                )
            )
        if bad.partitions:
            refused.append(bad)

    def done(response: m.AlterShareGroupOffsetsResponse) -> None:
        if not response.error_code:
            topics = {topic.topic_name: topic for topic in response.responses}
            for bad in refused:
                topic = topics.setdefault(bad.topic_name, bad)
                if topic is not bad:
                    topic.partitions += bad.partitions
            response.responses = [*topics.values()]
        call.respond(response)

    submit_to_coordinator(call, request.group_id, known, done)


def _alterable(
    call: Call, topic: m.AlterShareGroupOffsetsRequestTopic
) -> tuple[
    list[m.AlterShareGroupOffsetsRequestPartition],
    m.AlterShareGroupOffsetsResponseTopic,
]:
    """Return the partitions of a topic that can be altered, and the others with their
    errors."""
    name, catalog = topic.topic_name, call.node.broker.catalog
    code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_TOPIC
    topic_id, count = catalog.topic_id(name), catalog.partition_count(name) or 0
    if not call.authorize_topic(Operation.READ, name):
        code, message = ErrorCode.TOPIC_AUTHORIZATION_FAILED, _NO_RIGHT
        topic_id, count = None, 0
    good: list[m.AlterShareGroupOffsetsRequestPartition] = []
    bad = m.AlterShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=topic_id or ZERO_UUID
    )
    for each in topic.partitions:
        if 0 <= each.partition_index < count:
            good.append(each)
        else:
            bad.partitions.append(
                m.AlterShareGroupOffsetsResponsePartition(
                    partition_index=each.partition_index,
                    error_code=code,
                    error_message=message,
                )
            )
    return good, bad


@in_slices
def delete_share_group_offsets(call: Call) -> Iterator[None]:
    """Delete the start offsets of topics in an empty group. Requires DELETE on the
    group, and READ on each topic."""
    request: m.DeleteShareGroupOffsetsRequest = call.request
    if not call.authorize_group(Operation.DELETE, request.group_id):
        respond_with_error(call, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return
    known = m.DeleteShareGroupOffsetsRequest(group_id=request.group_id, topics=[])
    refused: list[m.DeleteShareGroupOffsetsResponseTopic] = []
    for topic in request.topics:
        yield
        if call.authorize_topic(Operation.READ, topic.topic_name):
            known.topics.append(topic)
        else:
            refused.append(
                m.DeleteShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message=_NO_RIGHT,
                )
            )

    def done(response: m.DeleteShareGroupOffsetsResponse) -> None:
        if not response.error_code:
            response.responses += refused
        call.respond(response)

    submit_to_coordinator(call, request.group_id, known, done)
