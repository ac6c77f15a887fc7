"""What the modules of topics, data and transactions share: may they, and who leads."""

from __future__ import annotations

from typing import Final, TypeVar

from coterie.auth.authorizer import (
    CLUSTER_NAME,
    OPERATIONS,
    Operation,
    ResourceType,
)
from coterie.catalog.topics import Topic
from coterie.errors import ApiError
from coterie.server.call import Call
from coterie.server.node import Node
from coterie.types import TopicName
from coterie.wire.error_codes import ErrorCode

LEADER_EPOCH: Final = 0
"""Leaders never change, so every partition is in its first leader epoch."""

Item = TypeVar("Item")


def may(
    call: Call, operation: Operation, resource_type: ResourceType, name: str
) -> bool:
    """Whether the caller may do this."""
    return call.may(operation, resource_type, name)


def may_topic(call: Call, operation: Operation, name: TopicName) -> bool:
    """Whether the caller may do this to a topic."""
    return may(call, operation, ResourceType.TOPIC, name)


def may_cluster(call: Call, operation: Operation) -> bool:
    """Whether the caller may do this to the cluster."""
    return may(call, operation, ResourceType.CLUSTER, CLUSTER_NAME)


def topic_operations(call: Call, name: TopicName) -> int:
    """What the caller may do to a topic, a bit for each operation (KIP-430)."""
    return operations_of(call, ResourceType.TOPIC, name)


def cluster_operations(call: Call) -> int:
    """What the caller may do to the cluster, a bit for each operation (KIP-430)."""
    return operations_of(call, ResourceType.CLUSTER, CLUSTER_NAME)


def operations_of(call: Call, resource_type: ResourceType, name: str) -> int:
    """What the caller may do to a resource, a bit for each operation (KIP-430)."""
    return sum(
        1 << operation
        for operation in OPERATIONS[resource_type]
        if call.may(operation, resource_type, name)
    )


def leader_of(call: Call, index: int) -> Node:
    """The node that leads partition `index` of any topic."""
    nodes = call.node.broker.nodes
    return nodes[index % len(nodes)]


def replicas_of(call: Call, topic: Topic, index: int) -> list[int]:
    """The node ids a partition is said to be on, its leader first."""
    nodes = call.node.broker.nodes
    count = min(topic.replication_factor, len(nodes))
    return [nodes[(index + at) % len(nodes)].node_id for at in range(count)]


def check_leader(call: Call, index: int, leader_epoch: int = -1) -> None:
    """Raise ApiError NOT_LEADER_OR_FOLLOWER unless the called node leads the partition,
    or UNKNOWN_LEADER_EPOCH if the client knows of a later epoch than there is."""
    if leader_of(call, index) is not call.node:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if leader_epoch > LEADER_EPOCH:
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)


def unknown_partition() -> ApiError:
    """The refusal of a topic or partition there is not."""
    return ApiError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "This server does not host this topic-partition.",
    )
