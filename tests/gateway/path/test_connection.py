"""The data path between raw clients and an embedded server as the upstream cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from coterie.wire.messages.heartbeat import HeartbeatRequest
from coterie.wire.messages.metadata import MetadataRequest
from tests.broker.server.harness import ThreadServer
from tests.gateway.path.gateway import ThreadGateway, brokers_of


@pytest.fixture(scope="module")
def upstream() -> Iterator[ThreadServer]:
    with ThreadServer(node_count=2) as server:
        with server.client() as client:
            topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
            client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        yield server


@pytest.fixture(scope="module")
def gateway(upstream: ThreadServer) -> Iterator[ThreadGateway]:
    with ThreadGateway(brokers_of(upstream.addresses)) as running:
        yield running


def test_forwarded_and_group_requests_are_answered_in_order(
    gateway: ThreadGateway,
) -> None:
    with gateway.client(0) as client:
        client.send(MetadataRequest())
        client.send(HeartbeatRequest(group_id="g", member_id="m"))
        client.send(MetadataRequest())
        client.send(HeartbeatRequest(group_id="g", member_id="m"))
        answers = [client.receive() for _ in range(4)]
    assert answers[0].cluster_id == answers[2].cluster_id
    assert answers[1].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert answers[3].error_code == ErrorCode.UNKNOWN_MEMBER_ID
