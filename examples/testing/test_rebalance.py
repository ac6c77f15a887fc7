"""A consumer that survives a rebalance without losing or repeating a record.

It commits what it has processed before it gives partitions away, so the next owner
starts exactly there.
"""

from __future__ import annotations

from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, TopicPartition

from coterie.testing import Group, Kafka


class Service:
    """A consumer of a topic that remembers which values it processed."""

    def __init__(self, kafka: Kafka, group: str, topic: str) -> None:
        self.processed: list[bytes] = []
        self.revoked: list[int] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "cooperative-sticky",
                "heartbeat.interval.ms": 100,
            }
        )
        self.consumer.subscribe([topic], on_revoke=self.hand_over)

    def hand_over(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Commit before the partitions have another owner."""
        self.revoked += [each.partition for each in partitions]
        positions = [each for each in consumer.position(partitions) if each.offset >= 0]
        if positions:
            # A member that the group has removed meanwhile cannot commit any more.
            with suppress(KafkaException):
                consumer.commit(offsets=positions, asynchronous=False)

    def run_once(self) -> None:
        """Process the next record, if there is one."""
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.processed.append(message.value() or b"")


def test_a_second_instance_takes_over_without_loss_or_repetition(
    kafka: Kafka, kafka_group: Group
) -> None:
    topic = kafka.topic(partitions=4)
    values = [b"%d" % n for n in range(40)]
    for n, value in enumerate(values[:20]):
        kafka.produce(topic, [value], partition=n % 4)
    first = Service(kafka, kafka_group.group_id, topic)
    while len(first.processed) < 20:
        first.run_once()

    second = Service(kafka, kafka_group.group_id, topic)
    while len(second.consumer.assignment()) != 2:
        first.run_once()
        second.run_once()
    for n, value in enumerate(values[20:]):
        kafka.produce(topic, [value], partition=n % 4)
    while len(first.processed) + len(second.processed) < 40:
        first.run_once()
        second.run_once()

    assert sorted(first.processed + second.processed) == sorted(values)
    assert len(first.revoked) == 2  # a cooperative rebalance moves only what it has to
    assert second.processed
    first.consumer.close()
    second.consumer.close()
