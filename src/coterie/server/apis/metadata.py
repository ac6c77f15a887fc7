"""Metadata, key 3: versions 0-13 (10: topic ids; 12: look-up by id; 4: auto-creation).

A topic that is made on the way is made durable first and answered as it is then, where
Kafka answers LEADER_NOT_AVAILABLE and lets the client ask again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from coterie.auth.authorizer import Operation
from coterie.catalog.topics import NewTopic, Topic, check_topic_name
from coterie.errors import ApiError
from coterie.runtime.ids import fresh_topic_id
from coterie.server.apis.support import (
    LEADER_EPOCH,
    cluster_operations,
    leader_of,
    may_cluster,
    may_topic,
    replicas_of,
    topic_operations,
)
from coterie.server.call import Call
from coterie.types import TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie.wire.schema import ZERO_UUID

_TOPIC_IDS_SINCE: Final = 12
_CLUSTER_OPERATIONS: Final = range(8, 11)


def handle(call: Call) -> None:
    """Describe the cluster and the topics asked for, making those that may be made."""
    request: MetadataRequest = call.request
    response = _cluster(call)
    wanted = request.topics
    is_all = wanted is None or (call.api_version == 0 and not wanted)
    if is_all:
        response.topics = [_describe(call, topic) for topic in _visible(call)]
        call.answer(response)
        return
    named = list({topic_key(topic): topic for topic in wanted or ()}.values())
    created = _create_missing(call, request, named)

    def durable(error: ErrorCode) -> None:
        response.topics = [_answer(call, topic, created) for topic in named]
        if error is not ErrorCode.NONE:
            for topic in response.topics:
                if topic.name in created:
                    topic.error_code = error
        call.answer(response)

    if created:
        call.node.broker.data.when_durable(durable)
    else:
        durable(ErrorCode.NONE)


def topic_key(topic: MetadataRequestTopic) -> tuple[str | None, bytes]:
    """A topic asked for twice is answered once."""
    return topic.name, topic.topic_id


def _cluster(call: Call) -> MetadataResponse:
    broker = call.node.broker
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
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
        allowed = may_cluster(call, Operation.DESCRIBE)
        operations = cluster_operations(call) if allowed else 0
        response.cluster_authorized_operations = operations
    return response


def _visible(call: Call) -> Sequence[Topic]:
    topics = call.node.broker.catalog.topics.values()
    return [
        topic for topic in topics if may_topic(call, Operation.DESCRIBE, topic.name)
    ]


def _create_missing(
    call: Call, request: MetadataRequest, named: Sequence[MetadataRequestTopic]
) -> dict[TopicName, ErrorCode]:
    """Stage the topics that are missing; what came of each by its name."""
    broker = call.node.broker
    if not (
        request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable
    ):
        return {}
    created: dict[TopicName, ErrorCode] = {}
    for topic in named:
        name = topic.name
        if name is None or topic.topic_id != ZERO_UUID:
            continue
        if name in broker.catalog.topics:
            continue
        if may_topic(call, Operation.DESCRIBE, name):
            created[name] = _create(call, name)
    return created


def _create(call: Call, name: TopicName) -> ErrorCode:
    data = call.node.broker.data
    if not (
        may_cluster(call, Operation.CREATE) or may_topic(call, Operation.CREATE, name)
    ):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    try:
        entry = data.catalog.create_topic(NewTopic(name=name), fresh_topic_id())
    except ApiError as error:
        return error.code
    data.stage([entry])
    return ErrorCode.NONE


def _answer(
    call: Call,
    wanted: MetadataRequestTopic,
    created: dict[TopicName, ErrorCode],
) -> MetadataResponseTopic:
    refused = MetadataResponseTopic(name=wanted.name, topic_id=ZERO_UUID)
    try:
        return _describe(call, _find(call, wanted, created))
    except ApiError as error:
        refused.error_code = error.code
        is_hidden = error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if wanted.name is not None and not is_hidden:
            _tell_operations(call, refused, wanted.name)
        if wanted.topic_id != ZERO_UUID:
            refused.topic_id = wanted.topic_id
        return refused


def _find(
    call: Call,
    wanted: MetadataRequestTopic,
    created: dict[TopicName, ErrorCode],
) -> Topic:
    catalog = call.node.broker.catalog
    name = wanted.name
    if wanted.topic_id != ZERO_UUID and call.api_version >= _TOPIC_IDS_SINCE:
        name = catalog.topic_name(wanted.topic_id)
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    elif name is None:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if not may_topic(call, Operation.DESCRIBE, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = catalog.topics.get(name)
    if topic is None:
        check_topic_name(name)
        code = created.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        raise ApiError(code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def _describe(call: Call, topic: Topic) -> MetadataResponseTopic:
    answer = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            _partition(call, topic, index) for index in range(topic.partition_count)
        ],
    )
    _tell_operations(call, answer, topic.name)
    return answer


def _tell_operations(
    call: Call, answer: MetadataResponseTopic, name: TopicName
) -> None:
    """What the caller may do to a topic, if it asks, though there is no such topic."""
    if call.request.include_topic_authorized_operations:
        answer.topic_authorized_operations = topic_operations(call, name)


def _partition(call: Call, topic: Topic, index: int) -> MetadataResponsePartition:
    replicas = replicas_of(call, topic, index)
    return MetadataResponsePartition(
        partition_index=index,
        leader_id=leader_of(call, index).node_id,
        leader_epoch=LEADER_EPOCH,
        replica_nodes=replicas,
        isr_nodes=replicas,
    )
