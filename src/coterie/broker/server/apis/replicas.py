"""The APIs of replicas, leaders and log directories.

===========================  ===  ==================================================
API                          key  versions
===========================  ===  ==================================================
AlterReplicaLogDirs          34   1-2 (KIP-113)
DescribeLogDirs              35   1-5 (4: sizes of the volume, KIP-827)
ElectLeaders                 43   0-2 (1: election types, KIP-460)
AlterPartitionReassignments  45   0-1 (KIP-455; 1: KIP-860)
ListPartitionReassignments   46   0 (KIP-455)
===========================  ===  ==================================================

A partition has one copy, in the one directory of the process, and its leader and the
reported replicas never change: nothing is elected, moved or being moved.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from coterie.auth.acl import Operation
from coterie.broker.catalog.topics import Topic
from coterie.broker.server.apis.routing import replicas_of, unknown_partition
from coterie.broker.server.call import Call, in_slices
from coterie.errors import ApiError, LogError
from coterie.types import TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

# Log directories.

IN_MEMORY: Final = "memory"
"""The name of the directory of a log in memory."""


@in_slices
def describe_log_dirs(call: Call) -> Iterator[None]:
    """Describe the node's directory, with the sizes of its partitions.

    Requires DESCRIBE on the cluster. The first measurement of a partition reads the
    sizes of all its batches.
    """
    if not call.authorize_cluster(Operation.DESCRIBE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        call.respond(m.DescribeLogDirsResponse(error_code=code))
        return
    broker = call.node.broker
    result = m.DescribeLogDirsResult(log_dir=_log_dir(call))
    try:
        yield from _measured_topics(call, result.topics)
        directory = broker.log.directory
        if directory is not None:
            usage = shutil.disk_usage(directory)
            result.total_bytes, result.usable_bytes = usage.total, usage.free
    except (LogError, OSError):
        result.topics = []
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    call.respond(m.DescribeLogDirsResponse(results=[result]))


def _log_dir(call: Call) -> str:
    directory = call.node.broker.log.directory
    return IN_MEMORY if directory is None else str(directory.absolute())


def _measured_topics(
    call: Call, topics: list[m.DescribeLogDirsTopic]
) -> Iterator[None]:
    """Append the requested topics with a replica on this node, one partition a step.

    Unknown topics and partitions are left out, and repeated ones count once.
    """
    catalog, data = call.node.broker.catalog, call.node.broker.data
    for topic, indexes in _requested(call):
        described = m.DescribeLogDirsTopic(name=topic.name)
        for index in indexes:
            if call.node.node_id not in replicas_of(call, topic, index):
                continue
            if catalog.topic_id(topic.name) != topic.topic_id:
                break  # deleted since the first step
            partition = data.partition_of(topic, index)
            if partition is not None:
                size = data.log.size_bytes(partition.log_partition)
                described.partitions.append(
                    m.DescribeLogDirsPartition(
                        partition_index=index, partition_size=size
                    )
                )
            yield
        if described.partitions:
            topics.append(described)


def _requested(call: Call) -> Iterable[tuple[Topic, Iterable[int]]]:
    request: m.DescribeLogDirsRequest = call.request
    topics = call.node.broker.catalog.topics
    if request.topics is None:
        return [(topic, range(topic.partition_count)) for topic in topics.values()]
    wanted: dict[TopicName, dict[int, None]] = {}
    for requested in request.topics:
        indexes = wanted.setdefault(requested.topic, {})
        indexes.update(dict.fromkeys(requested.partitions))
    return [(topics[name], wanted[name]) for name in wanted if name in topics]


def alter_replica_log_dirs(call: Call) -> None:
    """Refuse every directory but the one that has the partition already.

    Requires ALTER on the cluster.
    """
    request: m.AlterReplicaLogDirsRequest = call.request
    is_authorized = call.authorize_cluster(Operation.ALTER)
    codes: dict[TopicName, dict[int, ErrorCode]] = {}
    for requested in request.dirs:
        for topic in requested.topics:
            of_topic = codes.setdefault(topic.name, {})
            for index in topic.partitions:
                of_topic[index] = (
                    _alter_replica_log_dir(call, requested.path, topic.name, index)
                    if is_authorized
                    else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                )
    call.respond(
        m.AlterReplicaLogDirsResponse(
            results=[
                m.AlterReplicaLogDirTopicResult(
                    topic_name=name,
                    partitions=[
                        m.AlterReplicaLogDirPartitionResult(
                            partition_index=index, error_code=code
                        )
                        for index, code in of_topic.items()
                    ],
                )
                for name, of_topic in codes.items()
            ]
        )
    )


def _alter_replica_log_dir(
    call: Call, path: str, name: TopicName, index: int
) -> ErrorCode:
    if path != _log_dir(call):
        return ErrorCode.LOG_DIR_NOT_FOUND
    topic = call.node.broker.catalog.topics.get(name)
    if topic is None or not 0 <= index < topic.partition_count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if call.node.node_id not in replicas_of(call, topic, index):
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE


# Elections.

_ELECTION_TYPES: Final[Mapping[int, str]] = {0: "preferred", 1: "unclean"}
_NOT_NEEDED: Final = "Leader election not needed for topic partition."


@in_slices
def elect_leaders(call: Call) -> Iterator[None]:
    """Respond that no partition needs an election. Requires ALTER on the cluster.

    A request for all partitions has no partition in its response, since it contains
    only those that needed one (as in Kafka's ReplicationControlManager).
    """
    request: m.ElectLeadersRequest = call.request
    topics = call.node.broker.catalog.topics
    try:
        _check_cluster(call, Operation.ALTER)
        if request.election_type not in _ELECTION_TYPES:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Unknown election type {request.election_type}",
            )
    except ApiError as error:
        call.respond(_failed_election(request, error))
        return
    if request.topic_partitions is None:
        results = [m.ReplicaElectionResult(topic=name) for name in topics]
    else:
        results = []
        for requested in request.topic_partitions:
            result = m.ReplicaElectionResult(topic=requested.topic)
            results.append(result)
            topic = topics.get(requested.topic)
            for index in requested.partitions:
                elected = _elect_leader(requested.topic, topic, index)
                result.partition_result.append(elected)
                yield
            yield
    call.respond(m.ElectLeadersResponse(replica_election_results=results))


def _elect_leader(
    name: TopicName, topic: Topic | None, index: int
) -> m.PartitionResult:
    code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    if topic is not None:
        message = f"No such partition as {name}-{index}"
        if 0 <= index < topic.partition_count:
            code, message = ErrorCode.ELECTION_NOT_NEEDED, _NOT_NEEDED
    return m.PartitionResult(partition_id=index, error_code=code, error_message=message)


def _failed_election(
    request: m.ElectLeadersRequest, error: ApiError
) -> m.ElectLeadersResponse:
    return m.ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            m.ReplicaElectionResult(
                topic=requested.topic,
                partition_result=[
                    m.PartitionResult(
                        partition_id=index,
                        error_code=error.code,
                        error_message=error.message,
                    )
                    for index in requested.partitions
                ],
            )
            for requested in request.topic_partitions or ()
        ],
    )


# Reassignments.


def list_partition_reassignments(call: Call) -> None:
    """Respond that no partition is being moved. Requires DESCRIBE on the cluster."""
    response = m.ListPartitionReassignmentsResponse(error_message=None)
    try:
        _check_cluster(call, Operation.DESCRIBE)
    except ApiError as error:
        response.error_code = error.code
        response.error_message = error.message
        response.topics = [
            m.OngoingTopicReassignment(
                name=topic.name,
                partitions=[
                    m.OngoingPartitionReassignment(partition_index=index)
                    for index in topic.partition_indexes
                ],
            )
            for topic in call.request.topics or ()
        ]
    call.respond(response)


@in_slices
def alter_partition_reassignments(call: Call) -> Iterator[None]:
    """Accept the current replicas of a partition, and refuse any others.

    Requires ALTER on the cluster.
    """
    request: m.AlterPartitionReassignmentsRequest = call.request
    response = m.AlterPartitionReassignmentsResponse(
        error_message=None,
        allow_replication_factor_change=request.allow_replication_factor_change,
    )
    refusal: ApiError | None = None
    try:
        _check_cluster(call, Operation.ALTER)
    except ApiError as error:
        refusal = error
        response.error_code = error.code
        response.error_message = error.message
    for topic in request.topics:
        result = m.ReassignableTopicResponse(name=topic.name)
        response.responses.append(result)
        for partition in topic.partitions:
            result.partitions.append(_reassign(call, topic.name, partition, refusal))
            yield
        yield
    call.respond(response)


def _reassign(
    call: Call,
    name: TopicName,
    requested: m.ReassignablePartition,
    refusal: ApiError | None,
) -> m.ReassignablePartitionResponse:
    result = m.ReassignablePartitionResponse(
        partition_index=requested.partition_index, error_message=None
    )
    try:
        if refusal is not None:
            raise refusal
        _check_reassignment(call, name, requested)
    except ApiError as error:
        result.error_code = error.code
        result.error_message = error.message
    return result


def _check_reassignment(
    call: Call, name: TopicName, requested: m.ReassignablePartition
) -> None:
    """Raise ApiError unless the partition has the requested replicas already."""
    index, replicas = requested.partition_index, requested.replicas
    unknown = unknown_partition().code
    topic = call.node.broker.catalog.topics.get(name)
    if topic is None:
        raise ApiError(unknown, f"Unable to find a topic named {name}.")
    if not 0 <= index < topic.partition_count:
        raise ApiError(unknown, f"Unable to find partition {name}:{index}.")
    if replicas is None:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    _check_replicas(call, replicas)
    current = replicas_of(call, topic, index)
    may_change = call.request.allow_replication_factor_change
    if not may_change and len(replicas) != len(current):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(current)} to {len(replicas)}",
        )
    if replicas != current:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Replicas of {name}-{index} are {current} and cannot be moved.",
        )


def _check_replicas(call: Call, replicas: Sequence[int]) -> None:
    prefix = "The manual partition assignment includes"
    if not replicas:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{prefix} an empty replica list."
        )
    known = {node.node_id for node in call.node.broker.nodes}
    previous = None
    for replica in sorted(replicas):
        if replica not in known:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{prefix} broker {replica}, but no such broker is registered.",
            )
        if replica == previous:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{prefix} the broker {replica} more than once.",
            )
        previous = replica


def _check_cluster(call: Call, operation: Operation) -> None:
    if not call.authorize_cluster(operation):
        raise ApiError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
        )
