"""Exactly once: consume, transform, produce and commit in one transaction.

When the transaction is aborted, neither the output nor the offsets are visible, and the
next attempt reads the same input again.
"""

from __future__ import annotations

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from coterie.testing import Group, Kafka


def consume(consumer: Consumer, count: int) -> list[Message]:
    """Return the next `count` records."""
    found: list[Message] = []
    while len(found) < count:
        found += [each for each in consumer.consume(count, 0.1) if not each.error()]
    return found


def test_an_aborted_attempt_leaves_no_trace(kafka: Kafka, kafka_group: Group) -> None:
    orders, invoices = kafka.topic(), kafka.topic()
    kafka.produce(orders, [b"a", b"b", b"c"])
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": kafka_group.group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([orders])
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "transactional.id": f"{kafka_group.group_id}-1",
        }
    )
    producer.init_transactions()

    def attempt() -> None:
        producer.begin_transaction()
        for message in consume(consumer, 3):
            producer.produce(invoices, b"invoice of " + (message.value() or b""))
        producer.send_offsets_to_transaction(
            [TopicPartition(orders, 0, 3)], consumer.consumer_group_metadata()
        )

    attempt()
    producer.abort_transaction()
    assert kafka.records(invoices, isolation="read_committed") == []
    assert kafka_group.offsets == {}

    consumer.seek(TopicPartition(orders, 0, 0))
    attempt()
    producer.commit_transaction()
    values = [
        each.value for each in kafka.records(invoices, isolation="read_committed")
    ]
    assert values == [b"invoice of a", b"invoice of b", b"invoice of c"]
    assert kafka_group.offsets == {(orders, 0): 3}
    consumer.close()
