"""DescribeTopicPartitions, key 75: version 0 (KIP-966), page by page."""

from __future__ import annotations

from typing import Final

from coterie.auth.authorizer import Operation
from coterie.catalog.topics import Topic
from coterie.server.apis.support import (
    LEADER_EPOCH,
    leader_of,
    may_topic,
    replicas_of,
    topic_operations,
)
from coterie.server.call import Call
from coterie.types import TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

PARTITIONS_PER_ANSWER_MAX: Final = 2_000
"""Kafka's default of `max.request.partition.size.limit`."""


def handle(call: Call) -> None:
    """Describe topics in the order of their names, as many partitions as fit."""
    request: DescribeTopicPartitionsRequest = call.request
    response = DescribeTopicPartitionsResponse()
    left = min(request.response_partition_limit, PARTITIONS_PER_ANSWER_MAX)
    left = max(left, 1)
    for name in _wanted(call):
        start = _start(request.cursor, name)
        topic = call.node.broker.catalog.topics.get(name)
        refused = _refusal(call, name, topic)
        if refused is not None:
            response.topics.append(refused)
            continue
        assert topic is not None
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=start)
            break
        end = min(start + left, topic.partition_count)
        response.topics.append(_describe(call, topic, range(start, end)))
        left -= max(end - start, 0)
        if end < topic.partition_count:
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    call.answer(response)


def _wanted(call: Call) -> list[TopicName]:
    request: DescribeTopicPartitionsRequest = call.request
    if request.topics:
        names = {topic.name for topic in request.topics}
    else:
        names = {
            name
            for name in call.node.broker.catalog.topics
            if may_topic(call, Operation.DESCRIBE, name)
        }
    first = "" if request.cursor is None else request.cursor.topic_name
    return sorted(name for name in names if name >= first)


def _start(cursor: Cursor | None, name: TopicName) -> int:
    if cursor is None or cursor.topic_name != name:
        return 0
    return max(cursor.partition_index, 0)


def _refusal(
    call: Call, name: TopicName, topic: Topic | None
) -> DescribeTopicPartitionsResponseTopic | None:
    if not may_topic(call, Operation.DESCRIBE, name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        return None
    return DescribeTopicPartitionsResponseTopic(name=name, error_code=code)


def _describe(
    call: Call, topic: Topic, indexes: range
) -> DescribeTopicPartitionsResponseTopic:
    partitions = []
    for index in indexes:
        replicas = replicas_of(call, topic, index)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=leader_of(call, index).node_id,
                leader_epoch=LEADER_EPOCH,
                replica_nodes=replicas,
                isr_nodes=replicas,
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=topic_operations(call, topic.name),
    )
