"""Commits to topics that the gateway has not copied yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from coterie.gateway.path.topic_waits import waiting_for_topics
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.codec import encode
from coterie.wire.commit import as_received
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message
from tests.broker.server.harness import ThreadServer, WireClient
from tests.gateway.path.gateway import ThreadGateway, brokers_of
from tests.support.waiting import eventually


class Refreshes:
    """The refreshes that handlers wait for."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    async def finish(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


@pytest.fixture(scope="module")
def upstream() -> Iterator[ThreadServer]:
    with ThreadServer() as server:
        yield server


@pytest.fixture
def refreshes() -> Refreshes:
    return Refreshes()


@pytest.fixture
def gateway(upstream: ThreadServer, refreshes: Refreshes) -> Iterator[ThreadGateway]:
    with ThreadGateway(brokers_of(upstream.addresses)) as running:
        connections = running.path.connections
        connections.handlers = waiting_for_topics(
            connections.handlers, refreshes.waiting.append
        )
        yield running


def create(upstream: ThreadServer, name: str) -> None:
    topic = m.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    with upstream.client() as client:
        client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000))


def commit(
    name: str, index: int = 0, metadata: str | None = ""
) -> m.OffsetCommitRequest:
    partition = m.OffsetCommitRequestPartition(
        partition_index=index, committed_offset=1, committed_metadata=metadata
    )
    topic = m.OffsetCommitRequestTopic(name=name, partitions=[partition])
    return m.OffsetCommitRequest(group_id="g", topics=[topic])


def code(client: WireClient) -> int:
    received: int = client.receive().topics[0].partitions[0].error_code
    return received


@pytest.mark.parametrize("version", [2, 7, 8, 9])
@pytest.mark.parametrize("metadata", ["", "m" * 200])
def test_a_commit_to_a_new_topic_waits_for_a_copy(
    upstream: ThreadServer,
    gateway: ThreadGateway,
    refreshes: Refreshes,
    version: int,
    metadata: str,
) -> None:
    name = f"new-{version}-{len(metadata)}"
    create(upstream, name)
    with gateway.client() as client:
        client.send(commit(name, metadata=metadata), version)
        client.send(m.HeartbeatRequest(group_id="g", member_id="m"))
        eventually(lambda: refreshes.waiting, within_s=120, expected="the commit waits")
        gateway.copy_topics()
        gateway.run(refreshes.finish())

        assert code(client) == ErrorCode.NONE
        assert client.receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID
        client.send(commit(name, metadata=metadata), version)
        assert code(client) == ErrorCode.NONE
    assert not refreshes.waiting


def test_a_commit_to_a_new_partition_waits_for_a_copy(
    upstream: ThreadServer, gateway: ThreadGateway, refreshes: Refreshes
) -> None:
    create(upstream, "growing")
    gateway.copy_topics()
    grown = m.CreatePartitionsTopic(name="growing", count=2, assignments=None)
    with upstream.client() as direct:
        direct.call(m.CreatePartitionsRequest(topics=[grown], timeout_ms=10_000))
    with gateway.client() as client:
        for version in (7, 9):
            client.send(commit("growing", 1), version)
            eventually(
                lambda: refreshes.waiting, within_s=120, expected="the commit waits"
            )
            gateway.run(refreshes.finish())
            assert code(client) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_commit_to_a_missing_topic_fails_after_a_copy(
    gateway: ThreadGateway, refreshes: Refreshes
) -> None:
    with gateway.client() as client:
        client.send(commit("missing"), 9)
        eventually(lambda: refreshes.waiting, within_s=120, expected="the commit waits")
        gateway.run(refreshes.finish())

        assert code(client) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not refreshes.waiting


@pytest.mark.parametrize("name", ["deleted-offsets", ""])
def test_a_deletion_of_offsets_waits_for_a_copy(
    upstream: ThreadServer, gateway: ThreadGateway, refreshes: Refreshes, name: str
) -> None:
    if name:
        create(upstream, name)
    partition = m.OffsetDeleteRequestPartition(partition_index=0)
    topic = m.OffsetDeleteRequestTopic(name=name, partitions=[partition])
    with gateway.client() as client:
        client.send(m.OffsetDeleteRequest(group_id="nobody", topics=[topic]))
        eventually(lambda: refreshes.waiting, within_s=120, expected="a copy is wanted")
        gateway.copy_topics()
        gateway.run(refreshes.finish())
        response = client.receive()
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_client_that_closes_meanwhile_harms_nothing(
    gateway: ThreadGateway, refreshes: Refreshes
) -> None:
    with gateway.client() as client:
        client.send(commit("missing"), 9)
        eventually(lambda: refreshes.waiting, within_s=120, expected="the commit waits")
    gateway.run(refreshes.finish())
    with gateway.client() as client:
        client.call(m.HeartbeatRequest(group_id="g", member_id="m"))


def subscription(topic: str) -> bytes:
    return b"\0\0" + encode(m.ConsumerProtocolSubscription(topics=[topic]), 0)


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_a_member_of_a_new_topic_joins_after_a_copy(
    upstream: ThreadServer, gateway: ThreadGateway, refreshes: Refreshes, kind: str
) -> None:
    topic = f"joined-{kind}"
    create(upstream, topic)
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=subscription(topic))
    requests: dict[str, Message] = {
        "classic": m.JoinGroupRequest(
            group_id=kind,
            protocol_type="consumer",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocols=[protocol],
        ),
        "consumer": m.ConsumerGroupHeartbeatRequest(
            group_id=kind,
            member_id="m" * 22,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        ),
    }
    with gateway.client() as client:
        for is_known in (False, True):
            client.send(requests[kind])
            if not is_known:
                eventually(
                    lambda: refreshes.waiting,
                    within_s=120,
                    expected="the member waits",
                )
                gateway.copy_topics()
                gateway.run(refreshes.finish())
            answer = client.receive()
            # A classic member without an id gets one, and has to join again with it.
            expected = {0} if kind == "consumer" else {ErrorCode.MEMBER_ID_REQUIRED}
            assert answer.error_code in expected
    assert not refreshes.waiting


def test_members_of_other_protocols_do_not_wait(
    gateway: ThreadGateway, refreshes: Refreshes
) -> None:
    with gateway.client() as client:
        for protocol_type, metadata in (("connect", b""), ("consumer", b"\0")):
            protocol = m.JoinGroupRequestProtocol(name="p", metadata=metadata)
            request = m.JoinGroupRequest(
                group_id="other",
                protocol_type=protocol_type,
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                protocols=[protocol],
            )
            client.call(request)
    assert not refreshes.waiting


def test_requests_after_one_that_waits_are_held(refreshes: Refreshes) -> None:
    handled: list[Any] = []
    held: list[bool] = []
    catalog = SimpleNamespace(topics={})
    call: Any = SimpleNamespace(
        node=SimpleNamespace(broker=SimpleNamespace(catalog=catalog)),
        request=as_received(commit("unknown"), 9),
        peer=SimpleNamespace(hold_requests=lambda: held.append(True)),
    )
    handlers = waiting_for_topics(
        {ApiKey.OFFSET_COMMIT: handled.append}, refreshes.waiting.append
    )
    handlers[ApiKey.OFFSET_COMMIT](call)
    assert (held, handled) == ([True], [])
    refreshes.waiting.pop()()
    assert handled == [call]
