"""A static member whose instance id is taken by another process.

It happens when two pods get the same `group.instance.id`. The first one is fenced: the
error is fatal for its consumer, and the service has to stop instead of retrying.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from coterie.testing import Group, Kafka

_FATAL = KafkaError._FATAL  # noqa: SLF001 (librdkafka's own codes have underscores)


def run(consumer: Consumer) -> None:
    """Consume until the consumer fails for good, as a service does."""
    while True:
        message = consumer.poll(0.1)
        error = message.error() if message is not None else None
        if error is not None and error.code() == _FATAL:
            raise KafkaException(error)


def test_a_fenced_instance_stops(
    kafka: Kafka, kafka_topic: str, kafka_group: Group
) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": kafka_group.group_id,
            "group.instance.id": "pod-1",
            "heartbeat.interval.ms": 100,
            "session.timeout.ms": 45_000,
        }
    )
    consumer.subscribe([kafka_topic])
    while not consumer.assignment():
        consumer.poll(0.1)

    kafka.faults.fence(kafka_group.group_id, "pod-1")

    with pytest.raises(KafkaException) as raised:
        run(consumer)
    assert "fenced" in str(raised.value).lower()
    consumer.close()
