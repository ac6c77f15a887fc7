"""CreatePartitions, key 37: versions 0-3 (KIP-195)."""

from __future__ import annotations

from collections import Counter

from coterie.auth.authorizer import Operation
from coterie.catalog.topics import check_assignment
from coterie.errors import ApiError
from coterie.server.apis.support import may_topic
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def handle(call: Call) -> None:
    """Let each topic grow, or say why not; answer when that is durable."""
    request: CreatePartitionsRequest = call.request
    named = Counter(topic.name for topic in request.topics)
    results = []
    for name, topic in {topic.name: topic for topic in request.topics}.items():
        answer = CreatePartitionsTopicResult(name=name)
        try:
            if named[name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _grow(call, topic)
        except ApiError as error:
            answer.error_code, answer.error_message = error.code, error.message
        results.append(answer)

    def durable(error: ErrorCode) -> None:
        for result in results:
            result.error_code = result.error_code or error
        call.answer(CreatePartitionsResponse(results=results))

    call.node.broker.data.when_durable(durable)


def _grow(call: Call, wanted: CreatePartitionsTopic) -> None:
    data = call.node.broker.data
    catalog = data.catalog
    if not may_topic(call, Operation.ALTER, wanted.name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    entry = catalog.add_partitions(wanted.name, wanted.count)
    topic = catalog.topics[wanted.name]
    if topic.is_internal:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The partitions of internal topic {topic.name} cannot change: groups are "
            "mapped to them.",
        )
    if wanted.assignments is not None:
        _check_assignments(call, wanted, topic.partition_count)
    if not call.request.validate_only:
        data.stage([entry])


def _check_assignments(call: Call, wanted: CreatePartitionsTopic, had: int) -> None:
    assert wanted.assignments is not None
    additional = wanted.count - had
    if len(wanted.assignments) != additional:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only "
            f"{len(wanted.assignments)} assignment(s) were specified.",
        )
    broker = call.node.broker
    replicas = broker.catalog.topics[wanted.name].replication_factor
    node_ids = [node.node_id for node in broker.nodes]
    for assignment in wanted.assignments:
        check_assignment(assignment.broker_ids, replicas, node_ids)
