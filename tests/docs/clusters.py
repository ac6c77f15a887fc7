"""The clusters that the guides assume: topics, records and committed offsets."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_S = 120.0


def fill(bootstrap: str, topic: str, *records: int) -> None:
    """Create a topic with the given number of records in each partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, len(records))])[topic].result(WAIT_S)
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, count in enumerate(records):
        for number in range(count):
            producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(WAIT_S) == 0


def commit(bootstrap: str, group: str, topic: str, *offsets: int) -> None:
    """Commit an offset for each partition, without joining the group."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(
        offsets=[TopicPartition(topic, *each) for each in enumerate(offsets)],
        asynchronous=False,
    )
    consumer.close()


def shop(bootstrap: str) -> None:
    """Fill a cluster with two topics and three groups, one of which lags."""
    fill(bootstrap, "orders", 900, 1000)
    fill(bootstrap, "payments", 50)
    commit(bootstrap, "billing", "orders", 100, 1000)
    commit(bootstrap, "audit", "orders", 900, 1000)
    commit(bootstrap, "refunds", "payments", 45)


def shop_with_trials(bootstrap: str) -> None:
    """Add two groups of trials to the shop."""
    shop(bootstrap)
    commit(bootstrap, "trial-1", "orders", 6, 5)
    commit(bootstrap, "trial-2", "orders", 0, 0)


def topics(bootstrap: str) -> None:
    """Fill a cluster with the topics of the shop, without groups."""
    fill(bootstrap, "orders", 900, 1000)
