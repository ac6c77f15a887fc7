"""Authorized operations, one bit for each operation of a resource type (KIP-430)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest

from coterie.auth.acl import OPERATIONS, Operation, ResourceType
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.schema import Message
from tests.broker.server.apis.acl_rows import Right, cluster, group, topic
from tests.broker.server.apis.guarded import ALICE, AuthorizingServer

NOT_ASKED = -(2**31)
NOBODY_SAID = 0


@pytest.fixture(scope="module")
def server() -> Iterator[AuthorizingServer]:
    with AuthorizingServer(Settings()) as server:
        server.principal = ALICE
        yield server


class Asked(Protocol):
    """A broker with granted operations."""

    def call(self, request: Message, version: int) -> Any:
        """Return the response to a request."""


def bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


def of_group(broker: Asked, *, asked: bool = True) -> int:
    request = m.DescribeGroupsRequest(groups=["g"], include_authorized_operations=asked)
    [found] = broker.call(request, 5).groups
    return int(found.authorized_operations)


def of_consumer_group(broker: Asked, *, asked: bool = True) -> int:
    request = m.ConsumerGroupDescribeRequest(
        group_ids=["c"], include_authorized_operations=asked
    )
    [found] = broker.call(request, 1).groups
    return int(found.authorized_operations)


def of_cluster(broker: Asked, *, asked: bool = True) -> int:
    request = m.DescribeClusterRequest(include_cluster_authorized_operations=asked)
    return int(broker.call(request, 1).cluster_authorized_operations)


def of_cluster_in_metadata(broker: Asked, *, asked: bool = True) -> int:
    request = m.MetadataRequest(topics=[], include_cluster_authorized_operations=asked)
    return int(broker.call(request, 10).cluster_authorized_operations)


def of_topic_in_metadata(broker: Asked, *, asked: bool = True) -> int:
    request = m.MetadataRequest(
        topics=[m.MetadataRequestTopic(name="t")],
        include_topic_authorized_operations=asked,
    )
    [found] = broker.call(request, 12).topics
    return int(found.topic_authorized_operations)


def of_topic(broker: Asked, *, asked: bool = True) -> int:
    """Return the request; this API always includes the operations."""
    request = m.DescribeTopicPartitionsRequest(topics=[m.TopicRequest(name="t")])
    [found] = broker.call(request, 0).topics
    return int(found.topic_authorized_operations)


Asks = Callable[..., int]
KINDS: list[Any] = [
    pytest.param(of_group, group, "g", id="DescribeGroups"),
    pytest.param(of_consumer_group, group, "c", id="ConsumerGroupDescribe"),
    pytest.param(of_cluster, cluster, None, id="DescribeCluster"),
    pytest.param(of_cluster_in_metadata, cluster, None, id="Metadata of the cluster"),
    pytest.param(of_topic_in_metadata, topic, "t", id="Metadata of a topic"),
    pytest.param(of_topic, topic, "t", id="DescribeTopicPartitions"),
]


def right_to(of: Callable[..., Right], operation: Operation, name: str | None) -> Right:
    return of(operation) if name is None else of(operation, name)


@pytest.mark.fact("C-25b", "D-33a")
@pytest.mark.parametrize(("asks", "of", "name"), KINDS)
def test_a_super_user_has_all_operations_of_the_resource_type(
    asks: Asks, of: Callable[..., Right], name: str | None, server: AuthorizingServer
) -> None:
    every = right_to(of, Operation.ALL, name)
    server.grant(every, topic(Operation.DESCRIBE))
    assert asks(server) == bits(*OPERATIONS[every.resource_type])


@pytest.mark.fact("C-25b")
@pytest.mark.parametrize(("asks", "of", "name"), KINDS)
def test_authorized_operations_include_implied_operations(
    asks: Asks, of: Callable[..., Right], name: str | None, server: AuthorizingServer
) -> None:
    describe = right_to(of, Operation.DESCRIBE, name)
    visible = {describe, topic(Operation.DESCRIBE)}
    server.grant(*visible)
    assert asks(server) == bits(Operation.DESCRIBE)
    alter = right_to(of, Operation.ALTER_CONFIGS, name)
    server.grant(*visible, alter)
    assert asks(server) == bits(
        Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS
    )


@pytest.mark.fact("C-25b")
@pytest.mark.parametrize("asks", [of_group, of_consumer_group])
def test_a_group_with_an_error_has_no_authorized_operations(
    asks: Asks, server: AuthorizingServer
) -> None:
    server.grant()
    assert asks(server) == NOT_ASKED


@pytest.mark.parametrize("asks", [of_cluster, of_cluster_in_metadata])
def test_a_principal_without_describe_on_the_cluster_gets_no_authorized_operations(
    asks: Asks, server: AuthorizingServer
) -> None:
    server.grant(cluster(Operation.CREATE))
    assert asks(server) == NOBODY_SAID


@pytest.mark.fact("C-25b")
@pytest.mark.parametrize(
    "asks",
    [
        of_group,
        of_consumer_group,
        of_cluster,
        of_cluster_in_metadata,
        of_topic_in_metadata,
    ],
)
def test_authorized_operations_are_returned_on_request_only(
    asks: Asks, server: AuthorizingServer
) -> None:
    every = Operation.ALL
    server.grant(group(every), group(every, "c"), topic(every), cluster(every))
    assert asks(server, asked=False) == NOT_ASKED


@pytest.mark.fact("D-33a")
def test_the_operations_of_each_resource_type_are_kafkas() -> None:
    words = {
        kind.name: {operation.name for operation in operations}
        for kind, operations in OPERATIONS.items()
    }
    configs = {"DESCRIBE_CONFIGS", "ALTER_CONFIGS"}
    assert words == {
        "TOPIC": {"READ", "WRITE", "CREATE", "DESCRIBE", "DELETE", "ALTER", *configs},
        "GROUP": {"READ", "DESCRIBE", "DELETE", *configs},
        "CLUSTER": {
            "CREATE",
            "CLUSTER_ACTION",
            "IDEMPOTENT_WRITE",
            "ALTER",
            "DESCRIBE",
            *configs,
        },
        "TRANSACTIONAL_ID": {"DESCRIBE", "WRITE"},
        "DELEGATION_TOKEN": {"DESCRIBE"},
        "USER": {"CREATE_TOKENS", "DESCRIBE_TOKENS"},
    }
    assert set(OPERATIONS) == set(ResourceType) - {
        ResourceType.UNKNOWN,
        ResourceType.ANY,
    }
