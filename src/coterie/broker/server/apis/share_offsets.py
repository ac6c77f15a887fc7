"""The start offsets of share groups: DescribeShareGroupOffsets (90)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from coterie.auth.acl import Operation
from coterie.broker.coordinator.share_partition.state import ShareKey
from coterie.broker.server.apis.routing import ResponseCollector
from coterie.broker.server.call import Call
from coterie.errors import ApiError
from coterie.types import GroupId, TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import ZERO_UUID

_NO_OFFSET = -1


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
