"""Consumers of librdkafka through two nodes of a gateway, of which one is killed.

Upstream is Coterie, and Apache Kafka where there is one.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from threading import Thread
from typing import Any, Final

import pytest
from confluent_kafka import (
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from coterie.broker.runtime.shards import partition_for
from tests.interop.conftest import Broker
from tests.interop.gateway.nodes import GatewayNodes
from tests.real_clients.confluent_admin import create_topic
from tests.support.waiting import eventually

PARTITIONS: Final = 4
SHARDS: Final = 12
WAIT_S: Final = 90.0
METADATA_S: Final = 5.0


@pytest.fixture
def gateway(broker: Broker) -> Iterator[GatewayNodes]:
    name = f"owner-{secrets.token_hex(4)}"
    words = ["--authorizer", "none"]
    with GatewayNodes(broker.bootstrap, name, words, nodes=2, brokers=1) as nodes:
        yield nodes


class Group:
    """A group with one member, which commits each message that it reads."""

    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str) -> None:
        self.acknowledged: dict[int, int] = {}
        self.lost: list[Any] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([topic], on_lost=lambda *lost: self.lost.append(lost))
        self._topic = topic

    def read(self, count: int) -> None:
        """Read messages and commit after each, until upstream has acknowledged it."""
        deadline = time.monotonic() + WAIT_S
        while count:
            assert time.monotonic() < deadline, f"{count} messages are missing"
            message = self._consumer.poll(1.0)
            if message is None or message.error():
                continue
            self._commit(message)
            count -= 1

    def _commit(self, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self._consumer.commit(message=message, asynchronous=False)
        self.acknowledged[partition] = offset + 1

    def committed(self) -> dict[int, int]:
        """Fetch the committed offsets from the coordinator."""
        asked = [TopicPartition(self._topic, each) for each in self.acknowledged]
        found = self._consumer.committed(asked, timeout=WAIT_S)
        return {each.partition: each.offset for each in found}

    def close(self) -> None:
        self._consumer.close()


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for at in range(count):
        producer.produce(topic, str(at).encode(), partition=at % PARTITIONS)
    assert producer.flush(WAIT_S) == 0


def group_of(node: Any, prefix: str) -> str:
    """Return a name of a group that a node owns."""
    _, status = node.get("/status")
    owned = {each["shard"] for each in status["shards"]}
    names = (f"{prefix}-{at}" for at in range(1_000))
    return next(name for name in names if partition_for(name, SHARDS) in owned)


@pytest.mark.slow
def test_groups_of_a_killed_node_go_on_with_their_offsets(
    gateway: GatewayNodes, broker: Broker
) -> None:
    topic = f"owner-{secrets.token_hex(4)}"
    create_topic(broker.bootstrap, topic, partitions=PARTITIONS)
    produce(gateway.bootstrap, topic, 40)
    killed, other = gateway.nodes
    groups = [
        Group(gateway.bootstrap, group_of(killed, f"owner-{each}"), topic, each)
        for each in ("classic", "consumer")
    ]
    for group in groups:
        group.read(40)
    killed.kill()
    produce(other.bootstrap, topic, 40)
    for group in groups:
        group.read(40)
        assert group.committed() == group.acknowledged
        assert sum(group.acknowledged.values()) == 80
        assert not group.lost, "the members stayed in their groups"
        group.close()


@pytest.mark.slow
def test_offsets_join_a_transaction_after_the_groups_coordinator_has_left(
    gateway: GatewayNodes, broker: Broker
) -> None:
    topic = f"owner-{secrets.token_hex(4)}"
    create_topic(broker.bootstrap, topic, partitions=1)
    other, killed = gateway.nodes  # the port of the broker is at the first one
    settings = {"bootstrap.servers": other.bootstrap}
    consumer = Consumer({**settings, "group.id": group_of(killed, "transactions")})
    producer = Producer({**settings, "transactional.id": topic})
    producer.init_transactions(WAIT_S)

    def commit(offset: int) -> None:
        producer.begin_transaction()
        offsets = [TopicPartition(topic, 0, offset)]
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(offsets, metadata, WAIT_S)
        producer.commit_transaction(WAIT_S)

    def has_left() -> bool:
        """Return whether Metadata has not the address of the killed node any more.

        librdkafka repeats a request to the killed node, until it ends it.
        """
        try:
            listed = producer.list_topics(topic, timeout=METADATA_S).brokers.values()
        except KafkaException:
            return False
        return killed.addresses[0][1] not in [each.port for each in listed]

    commit(1)
    killed.kill()
    eventually(has_left, within_s=WAIT_S, expected="the view without the node")
    thread = Thread(target=commit, args=(2,), daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert not thread.is_alive(), "send_offsets_to_transaction hangs"
    assert committed(consumer, topic) == 2
    consumer.close()


def committed(consumer: Consumer, topic: str) -> int:
    [found] = consumer.committed([TopicPartition(topic, 0)], timeout=WAIT_S)
    return found.offset
