"""The APIs that create, extend and delete topics.

================  ===  ==================================================
API               key  versions
================  ===  ==================================================
CreateTopics      19   2-7 (5: configs in the response, KIP-525; 7: ids)
DeleteTopics      20   1-6 (6: by topic id, KIP-516)
CreatePartitions  37   0-3 (KIP-195)
================  ===  ==================================================

Every topic has its own result; the response is sent once all changes are durable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from coterie.auth.acl import Operation
from coterie.broker.catalog.configs import TOPIC_CONFIGS
from coterie.broker.catalog.topics import (
    NewTopic,
    Topic,
    check_assignment,
    check_partitions_per_request,
)
from coterie.broker.runtime.system import random_topic_id
from coterie.broker.server.apis.describe_configs import default_source
from coterie.broker.server.apis.routing import respond_when_durable
from coterie.broker.server.call import Call, in_slices
from coterie.broker.server.throttle import MutationQuota
from coterie.errors import ApiError
from coterie.types import TopicName
from coterie.wire import messages as m
from coterie.wire.configs import ConfigSource
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import ZERO_UUID

_DELETE_STATES_SINCE: Final = 6
_DELETION_DISABLED_SINCE: Final = 3
# The versions since which an exhausted quota is an error (KIP-599).
_STRICT_CREATION_SINCE: Final = 6
_STRICT_DELETION_SINCE: Final = 5
_STRICT_PARTITIONS_SINCE: Final = 3


# CreateTopics.


@in_slices
def create_topics(call: Call) -> Iterator[None]:
    """Create topics. Requires CREATE on the cluster or on the topic."""
    request: m.CreateTopicsRequest = call.request
    counts = Counter(topic.name for topic in request.topics)
    quota = MutationQuota(call, _STRICT_CREATION_SINCE)
    partition_count = sum(
        _partition_count(call, topic)
        for topic in request.topics
        if counts[topic.name] == 1
    )
    results = []
    failures = call.node.broker.data.failures
    for name, topic in {topic.name: topic for topic in request.topics}.items():
        yield
        try:
            if counts[name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            results.append(_create(call, topic, quota, partition_count))
        except ApiError as error:
            results.append(
                m.CreatableTopicResult(
                    name=name, error_code=error.code, error_message=error.message
                )
            )
    response = m.CreateTopicsResponse(
        topics=results, throttle_time_ms=quota.throttle_ms
    )
    respond_when_durable(call, response, results, failures)


def _partition_count(call: Call, topic: m.CreatableTopic) -> int:
    """Return the number of partitions that a topic of the request is to have."""
    if topic.num_partitions == -1:
        default = call.node.broker.catalog.settings.num_partitions
        return len(topic.assignments) or default
    return max(topic.num_partitions, 0)


def _create(
    call: Call, requested: m.CreatableTopic, quota: MutationQuota, partition_count: int
) -> m.CreatableTopicResult:
    """Create a topic; `partition_count` is that of all topics of the request."""
    data = call.node.broker.data
    if not (
        call.authorize_cluster(Operation.CREATE)
        or call.authorize_topic(Operation.CREATE, requested.name)
    ):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    check_partitions_per_request(partition_count)
    topic_id = random_topic_id()
    entry = data.catalog.create_topic(_new_topic(requested), topic_id)
    assert entry.value is not None
    topic = Topic.from_value(entry.name, entry.value)
    quota.take(topic.partition_count)
    if not call.request.validate_only:
        data.stage([entry])
    result = m.CreatableTopicResult(
        name=topic.name, topic_id=topic_id, error_message=None, configs=[]
    )
    if not call.authorize_topic(Operation.DESCRIBE_CONFIGS, topic.name):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return result
    result.num_partitions = topic.partition_count
    result.replication_factor = topic.replication_factor
    result.configs = [
        m.CreatableTopicConfigs(
            name=name,
            value=data.catalog.effective_config(topic, name),
            config_source=ConfigSource.DYNAMIC_TOPIC
            if name in topic.configs
            else default_source(call, config),
        )
        for name, config in TOPIC_CONFIGS.items()
    ]
    return result


def _new_topic(requested: m.CreatableTopic) -> NewTopic:
    assignments = {
        assignment.partition_index: assignment.broker_ids
        for assignment in requested.assignments
    }
    if len(assignments) < len(requested.assignments):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for one partition",
        )
    return NewTopic(
        name=requested.name,
        partition_count=requested.num_partitions,
        replication_factor=requested.replication_factor,
        configs={config.name: config.value for config in requested.configs},
        assignments=assignments,
    )


# DeleteTopics.


@in_slices
def delete_topics(call: Call) -> Iterator[None]:
    """Delete topics, given by name or id. Requires DELETE on each, or on the
    cluster."""
    request: m.DeleteTopicsRequest = call.request
    topics = request.topics
    if call.api_version < _DELETE_STATES_SINCE:
        topics = [m.DeleteTopicState(name=name) for name in request.topic_names]
    counts = Counter((topic.name, topic.topic_id) for topic in topics)
    quota = MutationQuota(call, _STRICT_DELETION_SINCE)
    results = []
    failures = call.node.broker.data.failures
    for (name, topic_id), count in counts.items():
        yield
        result = m.DeletableTopicResult(name=name, topic_id=topic_id)
        try:
            if count > 1:
                kind = "id" if name is None else "name"
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {kind}.")
            _delete(call, result, quota)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    response = m.DeleteTopicsResponse(
        responses=results, throttle_time_ms=quota.throttle_ms
    )
    respond_when_durable(call, response, results, failures)


def _may_delete(call: Call, operation: Operation, name: TopicName) -> bool:
    """Return whether DELETE on the cluster, or the operation on the topic, is
    authorized."""
    return call.authorize_cluster(Operation.DELETE) or call.authorize_topic(
        operation, name
    )


def _delete(call: Call, result: m.DeletableTopicResult, quota: MutationQuota) -> None:
    data = call.node.broker.data
    catalog = data.catalog
    if not catalog.settings.delete_topic_enable:
        if call.api_version < _DELETION_DISABLED_SINCE:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED)
    name, topic_id = result.name, result.topic_id
    if name is not None and topic_id != ZERO_UUID:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "You may not specify both topic name and topic id.",
        )
    if name is None and topic_id == ZERO_UUID:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."
        )
    if name is None:
        name = catalog.topic_name(topic_id)
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    if not _may_delete(call, Operation.DESCRIBE, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    # What follows discloses the name of an id, and that a topic does not exist.
    result.name = name
    if name in catalog.topics and not _may_delete(call, Operation.DELETE, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    entry = catalog.delete_topic(name)
    if catalog.topics[name].is_internal:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"The internal topic {name} holds the state of all groups.",
        )
    quota.take(catalog.topics[name].partition_count)
    result.topic_id = catalog.topics[name].topic_id
    data.stage([entry])


# CreatePartitions.


@in_slices
def create_partitions(call: Call) -> Iterator[None]:
    """Increase the partition counts of topics. Requires ALTER on each."""
    request: m.CreatePartitionsRequest = call.request
    counts = Counter(topic.name for topic in request.topics)
    quota = MutationQuota(call, _STRICT_PARTITIONS_SINCE)
    added_count = 0
    results = []
    failures = call.node.broker.data.failures
    for name, topic in {topic.name: topic for topic in request.topics}.items():
        yield
        result = m.CreatePartitionsTopicResult(name=name)
        try:
            if counts[name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            added_count += _add_partitions(call, topic, quota, added_count)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    response = m.CreatePartitionsResponse(
        results=results, throttle_time_ms=quota.throttle_ms
    )
    respond_when_durable(call, response, results, failures)


def _add_partitions(
    call: Call,
    requested: m.CreatePartitionsTopic,
    quota: MutationQuota,
    added_count: int,
) -> int:
    """Add the partitions of one topic; return their number. `added_count` is the number
    of those that the request has added to other topics."""
    data = call.node.broker.data
    catalog = data.catalog
    if not call.authorize_topic(Operation.ALTER, requested.name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    entry = catalog.add_partitions(requested.name, requested.count)
    topic = catalog.topics[requested.name]
    if topic.is_internal:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The partitions of internal topic {topic.name} cannot change: groups are "
            "mapped to them.",
        )
    if requested.assignments is not None:
        _check_assignments(call, requested, topic)
    additional = requested.count - topic.partition_count
    check_partitions_per_request(added_count + additional)
    quota.take(additional)
    if not call.request.validate_only:
        data.stage([entry])
    return additional


def _check_assignments(
    call: Call, requested: m.CreatePartitionsTopic, topic: Topic
) -> None:
    assert requested.assignments is not None
    additional = requested.count - topic.partition_count
    if len(requested.assignments) != additional:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only "
            f"{len(requested.assignments)} assignment(s) were specified.",
        )
    node_ids = [node.node_id for node in call.node.broker.nodes]
    for assignment in requested.assignments:
        check_assignment(assignment.broker_ids, topic.replication_factor, node_ids)
