"""What the modules of topics, data and transactions share: may they, and who leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from coterie.auth.authorizer import Operation, ResourceType
from coterie.catalog.topics import Topic
from coterie.errors import ApiError
from coterie.server.call import Call
from coterie.server.node import Node
from coterie.types import TopicName
from coterie.wire.error_codes import ErrorCode

CLUSTER_NAME: Final = "kafka-cluster"
"""The one resource of type CLUSTER."""
LEADER_EPOCH: Final = 0
"""Leaders never change, so every partition is in its first leader epoch."""

_TOPIC_OPERATIONS: Final = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_CLUSTER_OPERATIONS: Final = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)

Item = TypeVar("Item")


def may(
    call: Call, operation: Operation, resource_type: ResourceType, name: str
) -> bool:
    """Whether the caller may do this."""
    authorizer = call.node.broker.authorizer
    return authorizer.authorize(call.principal, operation, resource_type, name)


def may_topic(call: Call, operation: Operation, name: TopicName) -> bool:
    """Whether the caller may do this to a topic."""
    return may(call, operation, ResourceType.TOPIC, name)


def may_cluster(call: Call, operation: Operation) -> bool:
    """Whether the caller may do this to the cluster."""
    return may(call, operation, ResourceType.CLUSTER, CLUSTER_NAME)


def topic_operations(call: Call, name: TopicName) -> int:
    """What the caller may do to a topic, a bit for each operation (KIP-430)."""
    allowed = (found for found in _TOPIC_OPERATIONS if may_topic(call, found, name))
    return _bits(list(allowed))


def cluster_operations(call: Call) -> int:
    """What the caller may do to the cluster, a bit for each operation (KIP-430)."""
    allowed = (found for found in _CLUSTER_OPERATIONS if may_cluster(call, found))
    return _bits(list(allowed))


def _bits(operations: Sequence[Operation]) -> int:
    return sum(1 << operation.value for operation in operations)


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
