"""A worker of a queue: share groups (KIP-932) with confluent-kafka's ShareConsumer.

The worker accepts good orders, rejects those that it will never understand, and
releases those that may work later. A record that it does not answer for is delivered
again when its lock ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer

from coterie.testing import Group, Kafka

WAIT_S = 30.0


def process(message: Message) -> AcknowledgeType:
    """Return what becomes of an order."""
    try:
        order = json.loads(message.value() or b"")
    except ValueError:
        return AcknowledgeType.REJECT
    return AcknowledgeType.RELEASE if order["stock"] < 1 else AcknowledgeType.ACCEPT


@pytest.fixture
def queue(kafka: Kafka, kafka_group: Group, kafka_topic: str) -> Group:
    # Without this a share group begins at the end of the topic, as in Kafka.
    kafka_group.configure({"share.auto.offset.reset": "earliest"})
    orders = ['{"stock": 2}', "not JSON", '{"stock": 0}']
    kafka.produce(kafka_topic, orders, partition=0)
    return kafka_group


@pytest.fixture
def worker(kafka: Kafka, queue: Group, kafka_topic: str) -> Iterator[ShareConsumer]:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": str(queue),
            "share.acknowledgement.mode": "explicit",
        }
    )
    consumer.subscribe([kafka_topic])
    yield consumer
    consumer.close()


def poll(consumer: ShareConsumer) -> list[Message]:
    """Return the next records."""
    while not (messages := list(consumer.poll(WAIT_S))):
        pass
    return messages


def test_each_order_is_accepted_rejected_or_released(
    queue: Group, worker: ShareConsumer
) -> None:
    messages = poll(worker)
    assert queue.in_flight == 3
    for message in messages:
        worker.acknowledge(message, process(message))
    worker.commit_sync(WAIT_S)

    [(record, delivery)] = queue.wait_for(in_flight=0).deliveries.items()
    assert (record.offset, delivery.state, delivery.count) == (2, "Available", 1)

    [again] = poll(worker)
    assert again.offset() == 2
    worker.acknowledge(again, AcknowledgeType.ACCEPT)
    worker.commit_sync(WAIT_S)
    queue.wait_for(in_flight=0, lag=0)


def test_a_worker_that_hangs_loses_its_records(
    kafka: Kafka, queue: Group, worker: ShareConsumer
) -> None:
    poll(worker)
    assert {each.count for each in queue.deliveries.values()} == {1}

    kafka.clock.advance(seconds=31)  # share.record.lock.duration.ms is 30 s

    queue.wait_for(in_flight=0)
    states = {each.state for each in queue.deliveries.values()}
    assert states == {"Available"}
