"""Real clients that produce and consume through the data path, on Apache Kafka.

The group server is in memory: only the data path is under test.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from coterie.client.connection import Address
from coterie.gateway.path.addresses import UpstreamBroker
from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.gateway.path.gateway import ThreadGateway
from tests.interop.node import variable_of
from tests.real_clients.confluent_admin import create_topic
from tests.support.waiting import eventually

KAFKA = variable_of("PLAIN")
COUNT = 2_000
WAIT_S = 60.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(KAFKA not in os.environ, reason="needs Apache Kafka"),
]


@pytest.fixture(scope="module")
def gateway() -> Iterator[ThreadGateway]:
    address = Address.parse(os.environ[KAFKA])
    with WireClient(*address) as client:
        listed = client.call(m.MetadataRequest(topics=[])).brokers
    brokers = [UpstreamBroker(each.node_id, each.host, each.port) for each in listed]
    with ThreadGateway(
        brokers,
        group_initial_rebalance_delay_ms=0,
        group_consumer_min_heartbeat_interval_ms=300,
        group_consumer_heartbeat_interval_ms=300,
    ) as running:
        yield running


@pytest.fixture
def bootstrap(gateway: ThreadGateway) -> str:
    return f"127.0.0.1:{gateway.port}"


@pytest.fixture
def topic(gateway: ThreadGateway, bootstrap: str) -> str:
    name = f"path-{secrets.token_hex(4)}"
    create_topic(bootstrap, name, partitions=2)
    gateway.copy_topics()
    return name


def values(topic: str) -> list[bytes]:
    return [f"{topic} {number}".encode() * 20 for number in range(COUNT)]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_librdkafka(bootstrap: str, topic: str, protocol: str, codec: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
        }
    )
    for value in values(topic):
        producer.produce(topic, value)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            # The commit below returns only what was not committed before.
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    read: list[bytes | None] = []

    def is_complete() -> bool:
        read.extend(each.value() for each in consumer.consume(COUNT, 0.5))
        return len(read) >= COUNT

    eventually(is_complete, expected="all records")
    committed = consumer.commit(asynchronous=False)
    assert committed is not None
    # The producer may send every record to one partition; the other one has no offset.
    offsets = [row.offset for row in committed if row.offset != OFFSET_INVALID]
    assert sum(offsets) == COUNT
    consumer.close()
    assert sorted(filter(None, read)) == sorted(values(topic))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    groups = admin.list_consumer_groups().result(WAIT_S)
    assert not groups.errors
    listed = [each.group_id for each in groups.valid]
    assert listed.count(topic) == 1


def test_transactions_of_librdkafka(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(WAIT_S)
    for is_committed in (True, False):
        producer.begin_transaction()
        for value in values(topic)[:100]:
            producer.produce(topic, value)
        if is_committed:
            producer.commit_transaction(WAIT_S)
        else:
            producer.flush(WAIT_S)
            producer.abort_transaction(WAIT_S)
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=3_000,
    )
    read = [each.value for each in consumer]
    consumer.close()
    assert sorted(read) == sorted(values(topic)[:100])


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_kafka_python(bootstrap: str, topic: str, acks: int | str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks=acks, enable_idempotence=False
    )
    for value in values(topic):
        producer.send(topic, value)
    producer.flush(WAIT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    read: list[bytes] = []

    def is_complete() -> bool:
        for records in consumer.poll(500).values():
            read.extend(each.value for each in records)
        return len(read) >= COUNT

    eventually(is_complete, expected="all records")
    consumer.commit()
    consumer.close()
    assert sorted(read) == sorted(values(topic))


def test_kcat(bootstrap: str, topic: str) -> None:
    def kcat(*arguments: str, given: str = "") -> str:
        done = subprocess.run(
            ["kcat", "-b", bootstrap, *arguments],
            input=given,
            capture_output=True,
            text=True,
            check=True,
            timeout=WAIT_S,
        )
        return done.stdout

    lines = [f"line {number}" for number in range(COUNT)]
    kcat("-P", "-t", topic, given="\n".join(lines))
    read = kcat("-C", "-q", "-t", topic, "-o", "beginning", "-e")
    assert sorted(read.splitlines()) == sorted(lines)
    assert f'topic "{topic}" with 2 partitions' in kcat("-L", "-t", topic)
