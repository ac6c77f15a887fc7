"""The APIs that describe topics and their partitions.

=======================  ===  ======================================================
API                      key  versions
=======================  ===  ======================================================
Metadata                 3    0-13 (4: auto-creation; 10: topic ids; 12: topics by id)
DescribeTopicPartitions  75   0 (KIP-966)
=======================  ===  ======================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from coterie.auth.acl import Operation, ResourceType
from coterie.broker.catalog.topics import (
    NewTopic,
    Topic,
    check_partitions_per_request,
    check_topic_name,
)
from coterie.broker.runtime.system import random_topic_id
from coterie.broker.server.apis.cluster import cluster_operations
from coterie.broker.server.apis.routing import (
    LEADER_EPOCH,
    leader_of,
    replicas_of,
)
from coterie.broker.server.call import Call, in_slices
from coterie.broker.server.throttle import MutationQuota
from coterie.errors import ApiError
from coterie.types import TopicName
from coterie.wire import messages as m
from coterie.wire.compiler import compile_encoder
from coterie.wire.error_codes import ErrorCode
from coterie.wire.primitives import EncodedArray, Encoder
from coterie.wire.schema import ZERO_UUID

# Metadata.

_TOPICS_BY_ID_SINCE: Final = 12
_ONLY_NAMES: Final = range(10, _TOPICS_BY_ID_SINCE)
"""The versions whose requests have topic ids, which Kafka refuses."""
_CLUSTER_OPERATIONS: Final = range(8, 11)


@in_slices
def metadata(call: Call) -> Iterator[None]:
    """Describe the nodes and the requested topics; create missing topics when enabled.

    A created topic is described once it is durable, where Kafka responds with
    LEADER_NOT_AVAILABLE and the client retries.
    """
    request: m.MetadataRequest = call.request
    requested = request.topics
    if call.api_version in _ONLY_NAMES and not all(map(_is_by_name, requested or ())):
        call.respond(_refusal(requested or ()))
        return
    response = _cluster(call)
    is_all = requested is None or (call.api_version == 0 and not requested)
    if is_all:
        for topic in list(call.node.broker.catalog.topics.values()):
            if call.authorize_topic(Operation.DESCRIBE, topic.name):
                response.topics.append(_topic(call, topic))
            yield
        call.respond(response)
        return
    # A repeated topic is described once.
    named = list(
        {(topic.name, topic.topic_id): topic for topic in requested or ()}.values()
    )
    data = call.node.broker.data
    failures = data.failures
    created: dict[TopicName, ErrorCode] = {}
    yield from _create_missing(call, request, named, created)

    def respond(error: ErrorCode) -> Iterator[None]:
        for requested_topic in named:
            topic = _named_topic(call, requested_topic, created)
            if error is not ErrorCode.NONE and topic.name in created:
                topic.error_code = error
            response.topics.append(topic)
            yield
        call.respond(response)

    if created:
        data.when_durable(
            lambda error: call.run_in_slices(respond(error)), failures=failures
        )
    else:
        yield from respond(ErrorCode.NONE)


def _is_by_name(topic: m.MetadataRequestTopic) -> bool:
    return topic.name is not None and topic.topic_id == ZERO_UUID


def _refusal(requested: Sequence[m.MetadataRequestTopic]) -> m.MetadataResponse:
    """Return the response that refuses the whole request, as Kafka does."""
    code = ErrorCode.INVALID_REQUEST
    topics = [
        m.MetadataResponseTopic(
            name=one.name or "", topic_id=one.topic_id, error_code=code
        )
        for one in requested
    ]
    return m.MetadataResponse(topics=topics)


def _cluster(call: Call) -> m.MetadataResponse:
    broker = call.node.broker
    response = m.MetadataResponse(
        brokers=[
            m.MetadataResponseBroker(
                node_id=node.node_id, host=node.host, port=node.port, rack=node.rack
            )
            for node in broker.nodes
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.nodes[0].node_id,
    )
    if (
        call.request.include_cluster_authorized_operations
        and call.api_version in _CLUSTER_OPERATIONS
    ):
        response.cluster_authorized_operations = cluster_operations(call)
    return response


def _create_missing(
    call: Call,
    request: m.MetadataRequest,
    named: Sequence[m.MetadataRequestTopic],
    created: dict[TopicName, ErrorCode],
) -> Iterator[None]:
    """Stage the missing topics; add the error code of each by its name to `created`.

    As in Kafka, none is created when they have more partitions than a request may
    create.
    """
    broker = call.node.broker
    if not (
        request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable
    ):
        return
    missing = []
    for topic in named:
        yield
        name = topic.name
        if (
            name is None
            or topic.topic_id != ZERO_UUID
            or name in broker.catalog.topics
            or not call.authorize_topic(Operation.DESCRIBE, name)
        ):
            continue
        created[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if call.authorize_cluster(Operation.CREATE) or call.authorize_topic(
            Operation.CREATE, name
        ):
            missing.append(name)
    partition_count = len(missing) * broker.catalog.settings.num_partitions
    for name in missing:
        created[name] = _create_topic(call, name, partition_count)
        yield


_NOT_CREATED: Final = (
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.POLICY_VIOLATION,
)
"""The errors of a creation that Kafka reports as UNKNOWN_TOPIC_OR_PARTITION, as it
responds before the topic is created. Clients send the request again."""


def _create_topic(call: Call, name: TopicName, partition_count: int) -> ErrorCode:
    """Stage a topic; `partition_count` is that of all topics that the request
    creates."""
    broker = call.node.broker
    try:
        check_partitions_per_request(partition_count)
        entry = broker.catalog.create_topic(NewTopic(name=name), random_topic_id())
        MutationQuota(call, 0).take(broker.catalog.settings.num_partitions)
    except ApiError as error:
        is_unknown = error.code in _NOT_CREATED
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_unknown else error.code
    broker.data.stage([entry])
    return ErrorCode.NONE


def _named_topic(
    call: Call,
    requested: m.MetadataRequestTopic,
    created: dict[TopicName, ErrorCode],
) -> m.MetadataResponseTopic:
    try:
        return _topic(call, _find_topic(call, requested, created))
    except ApiError as error:
        result = m.MetadataResponseTopic(
            name=requested.name, topic_id=ZERO_UUID, error_code=error.code
        )
        is_hidden = error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if requested.name is not None and not is_hidden:
            _add_operations(call, result, requested.name)
        if requested.topic_id != ZERO_UUID:
            result.topic_id = requested.topic_id
        return result


def _find_topic(
    call: Call,
    requested: m.MetadataRequestTopic,
    created: dict[TopicName, ErrorCode],
) -> Topic:
    catalog = call.node.broker.catalog
    name = requested.name
    if requested.topic_id != ZERO_UUID and call.api_version >= _TOPICS_BY_ID_SINCE:
        name = catalog.topic_name(requested.topic_id)
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    elif name is None:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if not call.authorize_topic(Operation.DESCRIBE, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = catalog.topics.get(name)
    if topic is None:
        check_topic_name(name)
        code = created.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        raise ApiError(code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def _topic(call: Call, topic: Topic) -> m.MetadataResponseTopic:
    result = m.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
    )
    if topic.partition_count < _PREPARED_SINCE:
        result.partitions = [
            _partition(call, topic, index) for index in range(topic.partition_count)
        ]
    else:
        prepared: Any = _prepared_partitions(call, topic)
        result.partitions = prepared
    _add_operations(call, result, topic.name)
    return result


def _add_operations(
    call: Call, result: m.MetadataResponseTopic, name: TopicName
) -> None:
    """Add the authorized operations when requested, even when no such topic exists."""
    if call.request.include_topic_authorized_operations:
        result.topic_authorized_operations = call.authorized_operations(
            ResourceType.TOPIC, name
        )


def _partition(call: Call, topic: Topic, index: int) -> m.MetadataResponsePartition:
    replicas = replicas_of(call, topic, index)
    return m.MetadataResponsePartition(
        partition_index=index,
        leader_id=leader_of(call, index).node_id,
        leader_epoch=LEADER_EPOCH,
        replica_nodes=replicas,
        isr_nodes=replicas,
    )


_PREPARED_SINCE: Final = 10
"""The number of partitions from which on they are encoded only once."""
_prepared: Final[dict[tuple[int, tuple[tuple[int, ...], ...]], bytes]] = {}
"""Encoded partitions by version and the replicas of the first partitions. A partition
of one topic is encoded as that of another, so there is an entry for each version and
replication factor, for the largest number of partitions so far."""


def _prepared_partitions(call: Call, topic: Topic) -> EncodedArray:
    """Return the partitions in encoded form.

    Encoding 50,000 partitions takes a fifth of a second, in which no other client is
    served, and a request for it 20 bytes.
    """
    version, count = call.api_version, topic.partition_count
    nodes = range(len(call.node.broker.nodes))
    replicas = tuple(tuple(replicas_of(call, topic, index)) for index in nodes)
    known = _prepared.get((version, replicas), b"")
    parts: list[bytes] = []
    encode = _partition_encoder(version)
    encode(_partition(call, topic, 0), parts)
    size = len(b"".join(parts))  # of every partition: all fields have a fixed size
    if len(known) < count * size:
        parts = [known]
        for index in range(len(known) // size, count):
            encode(_partition(call, topic, index), parts)
        known = _prepared[version, replicas] = b"".join(parts)
    assert len(known) % size == 0
    return EncodedArray(count, known[: count * size])


@cache
def _partition_encoder(version: int) -> Encoder:
    flexible = version in m.MetadataResponse.FLEXIBLE
    return compile_encoder(m.MetadataResponsePartition, version, flexible=flexible)


# DescribeTopicPartitions.

PARTITIONS_PER_RESPONSE_MAX: Final = 2_000
"""Kafka's default of `max.request.partition.size.limit`."""


@in_slices
def describe_topic_partitions(call: Call) -> Iterator[None]:
    """Describe topics in name order, up to the partition limit, with a cursor for the
    next page."""
    request: m.DescribeTopicPartitionsRequest = call.request
    response = m.DescribeTopicPartitionsResponse()
    topics = call.node.broker.catalog.topics
    if request.cursor is not None and not _is_valid(request.cursor, request):
        response.topics = [
            m.DescribeTopicPartitionsResponseTopic(
                name=topic.name, error_code=ErrorCode.INVALID_REQUEST
            )
            for topic in request.topics
        ]
        call.respond(response)
        return
    cursor = request.cursor or m.Cursor(topic_name="", partition_index=0)
    names = {topic.name for topic in request.topics} or {
        name for name in topics if call.authorize_topic(Operation.DESCRIBE, name)
    }
    left = min(request.response_partition_limit, PARTITIONS_PER_RESPONSE_MAX)
    left = max(left, 1)
    for name in sorted(name for name in names if name >= cursor.topic_name):
        yield
        start = cursor.partition_index if name == cursor.topic_name else 0
        topic = topics.get(name)
        allowed = call.authorize_topic(Operation.DESCRIBE, name)
        if not allowed or topic is None:
            error = m.DescribeTopicPartitionsResponseTopic(
                name=name,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if allowed
                else ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
            response.topics.append(error)
            continue
        if left == 0:
            response.next_cursor = m.Cursor(topic_name=name, partition_index=start)
            break
        end = min(start + left, topic.partition_count)
        response.topics.append(_page(call, topic, range(start, end)))
        left -= max(end - start, 0)
        if end < topic.partition_count:
            response.next_cursor = m.Cursor(topic_name=name, partition_index=end)
            break
    call.respond(response)


def _is_valid(cursor: m.Cursor, request: m.DescribeTopicPartitionsRequest) -> bool:
    named = request.topics
    is_named = not named or any(topic.name == cursor.topic_name for topic in named)
    return is_named and cursor.partition_index >= 0


def _page(
    call: Call, topic: Topic, indexes: range
) -> m.DescribeTopicPartitionsResponseTopic:
    partitions = []
    for index in indexes:
        replicas = replicas_of(call, topic, index)
        partitions.append(
            m.DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=leader_of(call, index).node_id,
                leader_epoch=LEADER_EPOCH,
                replica_nodes=replicas,
                isr_nodes=replicas,
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
        )
    return m.DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=call.authorized_operations(
            ResourceType.TOPIC, topic.name
        ),
    )
