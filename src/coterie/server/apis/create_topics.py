"""CreateTopics, key 19: versions 2-7 (5: configs in the answer, KIP-525; 7: ids)."""

from __future__ import annotations

from collections import Counter

from coterie.auth.authorizer import Operation
from coterie.catalog.topic_configs import TOPIC_CONFIGS
from coterie.catalog.topics import NewTopic, Topic
from coterie.errors import ApiError
from coterie.runtime.ids import fresh_topic_id
from coterie.server.apis.support import may_cluster, may_topic
from coterie.server.call import Call
from coterie.wire.config_kinds import ConfigSource
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


def handle(call: Call) -> None:
    """Make each topic, or say why not; answer when all are durable."""
    request: CreateTopicsRequest = call.request
    named = Counter(topic.name for topic in request.topics)
    results = []
    for name, topic in {topic.name: topic for topic in request.topics}.items():
        try:
            results.append(_create(call, topic, is_twice=named[name] > 1))
        except ApiError as error:
            results.append(
                CreatableTopicResult(
                    name=name, error_code=error.code, error_message=error.message
                )
            )
    response = CreateTopicsResponse(topics=results)

    def durable(error: ErrorCode) -> None:
        for result in results:
            result.error_code = result.error_code or error
        call.answer(response)

    call.node.broker.data.when_durable(durable)


def _create(
    call: Call, wanted: CreatableTopic, *, is_twice: bool
) -> CreatableTopicResult:
    data = call.node.broker.data
    if is_twice:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if not (
        may_cluster(call, Operation.CREATE)
        or may_topic(call, Operation.CREATE, wanted.name)
    ):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic_id = fresh_topic_id()
    entry = data.catalog.create_topic(_asked(wanted), topic_id)
    assert entry.value is not None
    topic = Topic.from_value(entry.name, entry.value)
    if not call.request.validate_only:
        data.stage([entry])
    result = CreatableTopicResult(
        name=topic.name, topic_id=topic_id, error_message=None, configs=[]
    )
    if not may_topic(call, Operation.DESCRIBE_CONFIGS, topic.name):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        result.configs = None
        return result
    result.num_partitions = topic.partition_count
    result.replication_factor = topic.replication_factor
    result.configs = [
        CreatableTopicConfigs(
            name=name,
            value=data.catalog.effective_config(topic, name),
            config_source=ConfigSource.DYNAMIC_TOPIC
            if name in topic.configs
            else ConfigSource.DEFAULT,
        )
        for name in TOPIC_CONFIGS
    ]
    return result


def _asked(wanted: CreatableTopic) -> NewTopic:
    assignments = {
        found.partition_index: found.broker_ids for found in wanted.assignments
    }
    if len(assignments) < len(wanted.assignments):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for one partition",
        )
    return NewTopic(
        name=wanted.name,
        partition_count=wanted.num_partitions,
        replication_factor=wanted.replication_factor,
        configs={config.name: config.value for config in wanted.configs},
        assignments=assignments,
    )
