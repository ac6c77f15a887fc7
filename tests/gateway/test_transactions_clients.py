"""Read-process-write with librdkafka through two nodes of a gateway.

COTERIE_TEST_BOOTSTRAP=HOST:PORT selects another upstream, such as Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from coterie.broker.runtime.shards import Phase
from coterie.broker.server.config import make_settings
from coterie.client.cluster import (
    GROUP,
    TRANSACTION,
    Cluster,
    find_coordinator_request,
    read_find_coordinator,
)
from coterie.client.options import ClientOptions
from coterie.errors import ApiError
from coterie.gateway.node import Gateway
from coterie.gateway.options import AuthorizerKind, GatewayOptions
from coterie.loop_thread import LoopThread
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.gateway.upstream_group import upstream_server
from tests.real_clients.confluent_admin import (
    ANSWER_S,
    committed_offsets,
    create_topic,
    produce,
    transactional_producer,
)
from tests.real_clients.confluent_members import ConfluentMember
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

SHARDS = 4
ADDS_PARTITION = 5
"""The version of TxnOffsetCommit since which AddOffsetsToTxn is not needed (KIP-890).
"""
RECORDS = 40


class Nodes:
    """The nodes of a gateway, in an event loop of their own."""

    def __init__(self, upstream: str, loop: LoopThread, *names: str) -> None:
        self.upstream = upstream
        self._loop = loop
        gateway = f"auth-{uuid4().hex[:8]}"
        self.nodes: list[Gateway] = []
        for name in names:
            loop.wait(self._start(gateway, name))
        eventually(lambda: len(self.served()) == SHARDS, expected="all shards served")

    async def _start(self, gateway: str, name: str) -> None:
        plan = GatewayOptions(
            settings=make_settings({"group.initial.rebalance.delay.ms": 0}),
            bootstrap=self.upstream,
            name=gateway,
            node=name,
            host="127.0.0.1",
            port=0,
            advertised_host="127.0.0.1",
            partition_count=SHARDS,
            replication_factor=1,
            authorizer=AuthorizerKind.NONE,
        )
        node = Gateway(plan)
        await node.start()
        self.nodes.append(node)

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.nodes)

    def served(self) -> dict[int, Gateway]:
        """Return the node that serves each shard."""
        return {
            shard.index: node
            for node in self.nodes
            for shard in node.broker.runtime.shards
            if shard.phase is Phase.ACTIVE
        }

    def stop_owner(self, group: str) -> None:
        """Stop the node that coordinates a group, and wait for its successor."""
        shard = self.nodes[0].broker.runtime.shard_of(group)
        owner = self.served()[shard]
        self.nodes.remove(owner)
        self._loop.wait(owner.stop())
        eventually(lambda: shard in self.served(), expected="a successor")

    def stop_first(self) -> None:
        """Stop the node whose address the only broker upstream has."""
        first = self.nodes.pop(0)
        self._loop.wait(first.stop())
        eventually(lambda: len(self.served()) == SHARDS, expected="all shards served")

    def run(self, call: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the event loop of the nodes."""
        self._loop.wait(call)

    def stop(self) -> None:
        for node in self.nodes:
            self._loop.wait(node.stop())


@contextmanager
def running(upstream: str, *names: str) -> Iterator[Nodes]:
    loop = LoopThread("gateway")
    nodes = Nodes(upstream, loop, *names)
    try:
        yield nodes
    finally:
        nodes.stop()
        loop.close()


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with upstream_server() as bootstrap:
        yield bootstrap


@pytest.fixture(scope="module")
def nodes(upstream: str) -> Iterator[Nodes]:
    with running(upstream, "a", "b") as nodes:
        yield nodes


@pytest.fixture
def name() -> str:
    return f"auth-{uuid4().hex[:8]}"


@pytest.fixture
def topic(upstream: str, name: str) -> str:
    return create_topic(upstream, f"{name}-in", partitions=1)


@contextmanager
def member(bootstrap: str, group: str, topic: str) -> Iterator[ConfluentMember]:
    found = ConfluentMember(bootstrap, group, [topic])
    found.commits = False
    eventually(lambda: found.poll() or found.owned, expected="an assignment")
    try:
        yield found
    finally:
        found.consumer.close()


def send_offset(producer: Producer, consumer: Consumer, topic: str, at: int) -> None:
    producer.send_offsets_to_transaction(
        [TopicPartition(topic, 0, at)], consumer.consumer_group_metadata(), ANSWER_S
    )


def read_all(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []

    def arrived() -> bool:
        values.extend(
            bytes(record.value() or b"") for record in consumer.consume(99, 0.2)
        )
        return len(values) >= count

    eventually(arrived, expected=f"{count} records")
    consumer.close()
    return values


def test_each_record_is_processed_once_although_transactions_abort(
    nodes: Nodes, upstream: str, topic: str, name: str
) -> None:
    target = create_topic(upstream, f"{name}-out", partitions=1)
    values = [b"%d" % at for at in range(RECORDS)]
    produce(upstream, topic, {0: values})
    producer = transactional_producer(nodes.bootstrap, name)
    with member(nodes.bootstrap, name, topic) as reader:
        consumer = reader.consumer
        at = rounds = 0
        while at < RECORDS:
            consumer.seek(TopicPartition(topic, 0, at))
            messages = consumer.consume(RECORDS // 8, ANSWER_S)
            producer.begin_transaction()
            for message in messages:
                assert message.offset() == at
                producer.produce(target, message.value(), partition=0)
                at += 1
            send_offset(producer, consumer, topic, at)
            rounds += 1
            if rounds % 3:
                producer.commit_transaction(ANSWER_S)
                continue
            producer.abort_transaction(ANSWER_S)
            at = committed_offsets(nodes.bootstrap, name)[topic, 0]
    assert committed_offsets(nodes.bootstrap, name) == {(topic, 0): RECORDS}
    assert read_all(upstream, target, RECORDS) == values


def test_a_member_that_was_replaced_commits_nothing(
    nodes: Nodes, topic: str, name: str
) -> None:
    """Fence by the member (KIP-447), while its producer is still valid."""
    producer = transactional_producer(nodes.bootstrap, name)
    with member(nodes.bootstrap, name, topic) as zombie:
        metadata = zombie.consumer.consumer_group_metadata()
    with member(nodes.bootstrap, name, topic):
        producer.begin_transaction()
        offsets = [TopicPartition(topic, 0, 7)]
        with pytest.raises(KafkaException):
            producer.send_offsets_to_transaction(offsets, metadata, ANSWER_S)
        producer.abort_transaction(ANSWER_S)
    assert committed_offsets(nodes.bootstrap, name) == {}


def test_a_producer_that_was_replaced_commits_nothing(
    nodes: Nodes, topic: str, name: str
) -> None:
    zombie = transactional_producer(nodes.bootstrap, name)
    with member(nodes.bootstrap, name, topic) as reader:
        zombie.begin_transaction()
        send_offset(zombie, reader.consumer, topic, 7)
        successor = transactional_producer(nodes.bootstrap, name)
        with pytest.raises(KafkaException):
            send_offset(zombie, reader.consumer, topic, 8)
        successor.begin_transaction()
        send_offset(successor, reader.consumer, topic, 9)
        successor.commit_transaction(ANSWER_S)
    assert committed_offsets(nodes.bootstrap, name) == {(topic, 0): 9}


def test_a_producer_survives_the_node_in_front_of_its_coordinator(
    upstream: str, topic: str, name: str
) -> None:
    """librdkafka keeps the address of a coordinator whose id stays the same."""
    target = create_topic(upstream, f"{name}-out", partitions=1)
    with running(upstream, "a", "b") as nodes:
        producer = transactional_producer(
            nodes.bootstrap, name, **{"transaction.timeout.ms": 60_000}
        )
        with member(nodes.bootstrap, name, topic) as reader:
            for at, value in enumerate((b"before", b"after")):
                producer.begin_transaction()
                producer.produce(target, value, partition=0)
                send_offset(producer, reader.consumer, topic, at)
                producer.commit_transaction(ANSWER_S)
                if not at:
                    nodes.stop_first()
        assert committed_offsets(nodes.bootstrap, name) == {(topic, 0): 1}
    assert read_all(upstream, target, 2) == [b"before", b"after"]


class Application:
    """A transactional producer that commits offsets through any node."""

    def __init__(self, name: str, topic: str, version: int) -> None:
        self._name = name
        self._topic = topic
        self._version = version
        self.producer_id = self.producer_epoch = -1

    async def begin(self, nodes: Nodes) -> None:
        request = m.InitProducerIdRequest(
            transactional_id=self._name, transaction_timeout_ms=60_000
        )
        found = await self._call(nodes, request, m.InitProducerIdResponse, TRANSACTION)
        assert not found.error_code
        self.producer_id, self.producer_epoch = found.producer_id, found.producer_epoch

    async def commit_offset(self, nodes: Nodes, offset: int) -> None:
        """Add the group's offset to the transaction."""
        producer: dict[str, Any] = {
            "transactional_id": self._name,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "group_id": self._name,
        }
        if self._version < ADDS_PARTITION:
            added = await self._call(
                nodes,
                m.AddOffsetsToTxnRequest(**producer),
                m.AddOffsetsToTxnResponse,
                TRANSACTION,
            )
            assert not added.error_code
        partition = m.TxnOffsetCommitRequestPartition(committed_offset=offset)
        topic = m.TxnOffsetCommitRequestTopic(name=self._topic, partitions=[partition])
        request = m.TxnOffsetCommitRequest(**producer, topics=[topic])
        response = await self._call(nodes, request, m.TxnOffsetCommitResponse, GROUP)
        assert [topic.partitions[0].error_code for topic in response.topics] == [0]

    async def end(self, nodes: Nodes, *, is_committed: bool) -> None:
        request = m.EndTxnRequest(
            transactional_id=self._name,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=is_committed,
        )
        ended = await self._call(nodes, request, m.EndTxnResponse, TRANSACTION)
        assert not ended.error_code
        if ended.producer_id >= 0:  # each transaction has an epoch of its own
            self.producer_id = ended.producer_id
            self.producer_epoch = ended.producer_epoch

    async def _call(
        self, nodes: Nodes, request: Any, response: type[Any], key_type: int
    ) -> Any:
        """Send a request to the coordinator; retry while it is moving."""
        cluster = Cluster(nodes.bootstrap, ClientOptions())

        async def once() -> Any:
            connection = await cluster.connection()
            version = connection.version_of(m.FindCoordinatorRequest)
            asked = find_coordinator_request([self._name], version, key_type)
            found = await connection.call(asked, m.FindCoordinatorResponse)
            node = read_find_coordinator(found, [self._name], version)[self._name]
            newest = 5 if self._version >= ADDS_PARTITION else 4
            wanted = Versions(0, min(newest, type(request).VERSIONS.high))
            received = await cluster.call(
                request, response, node_id=node.node_id, wanted=wanted
            )
            if code := getattr(received, "error_code", 0):
                raise ApiError(ErrorCode(code))
            return received

        try:
            return await cluster.retrying(once)
        finally:
            await cluster.close()


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("version", [ADDS_PARTITION - 1, ADDS_PARTITION])
def test_a_transaction_survives_the_node_that_wrote_its_offsets(
    upstream: str, topic: str, name: str, is_committed: bool, version: int
) -> None:
    with running(upstream, "a", "b") as nodes:
        application = Application(name, topic, version)
        nodes.run(application.begin(nodes))
        for offset in (5, 6):
            nodes.run(application.commit_offset(nodes, offset))
            nodes.run(application.end(nodes, is_committed=True))
        nodes.run(application.commit_offset(nodes, 7))
        nodes.stop_owner(name)
        # The successor continues the sequence of this producer.
        nodes.run(application.commit_offset(nodes, 8))
        nodes.run(application.end(nodes, is_committed=is_committed))
        expected = {(topic, 0): 8 if is_committed else 6}
        eventually(
            lambda: committed_offsets(nodes.bootstrap, name) == expected,
            expected=str(expected),
        )
