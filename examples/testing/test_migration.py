"""Migrate a group to KIP-848 while it consumes, one instance at a time.

Each instance is replaced by one with `group.protocol=consumer`. The first upgrades the
group; classic members stay in it until they are replaced. No record is lost, none is
processed twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, TopicPartition

from coterie.testing import Group, Kafka

CLASSIC = {
    "partition.assignment.strategy": "cooperative-sticky",
    "heartbeat.interval.ms": 100,
}
KIP_848 = {"group.protocol": "consumer"}


class Instance:
    """An instance of a service that commits what it has processed."""

    def __init__(
        self, kafka: Kafka, group: str, topic: str, protocol: Mapping[str, object]
    ) -> None:
        self.processed: list[bytes] = []
        self.next_offsets: dict[int, int] = {}
        self.consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **protocol,
            }
        )
        self.consumer.subscribe([topic], on_revoke=self.hand_over)

    def hand_over(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # librdkafka's own positions are gone when `close` interrupts a rebalance.
        offsets = [
            TopicPartition(
                each.topic, each.partition, self.next_offsets.pop(each.partition)
            )
            for each in partitions
            if each.partition in self.next_offsets
        ]
        if offsets:
            # A member that the group has removed meanwhile cannot commit any more.
            with suppress(KafkaException):
                consumer.commit(offsets=offsets, asynchronous=False)

    def run_once(self) -> None:
        message = self.consumer.poll(0.02)
        if message is None or message.error() is not None:
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self.processed.append(message.value() or b"")
        self.next_offsets[partition] = offset + 1


def test_a_rolling_migration_under_load(kafka: Kafka, kafka_group: Group) -> None:
    topic = kafka.topic(partitions=4)
    produced: list[bytes] = []
    old = [Instance(kafka, kafka_group.group_id, topic, CLASSIC) for _ in range(2)]
    everyone, running = list(old), list(old)

    def run_until_balanced() -> None:
        """Produce and consume until every instance owns its share."""
        share = 4 // len(running)
        while any(len(each.consumer.assignment()) != share for each in running):
            value = b"%d" % len(produced)
            kafka.produce(topic, [value], partition=len(produced) % 4)
            produced.append(value)
            for each in running:
                each.run_once()

    run_until_balanced()
    assert kafka_group.type == "classic"
    for each in old:
        running.remove(each)
        each.consumer.close()
        new = Instance(kafka, kafka_group.group_id, topic, KIP_848)
        everyone.append(new)
        running.append(new)
        run_until_balanced()
        assert kafka_group.type == "consumer"
    while sum(len(each.processed) for each in everyone) < len(produced):
        for each in running:
            each.run_once()

    processed = [value for each in everyone for value in each.processed]
    assert sorted(processed) == sorted(produced)
    for each in running:
        each.consumer.close()
