"""Cooperative against eager rebalances: what a consumer loses when another one joins.

With an eager assignor every member gives up everything before each rebalance; with a
cooperative one only the partitions that move are revoked.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from coterie.testing import Group, Kafka


@pytest.mark.parametrize(
    ("strategy", "count"), [("range", 6), ("cooperative-sticky", 3)]
)
def test_partitions_that_are_revoked_when_a_member_joins(
    kafka: Kafka, kafka_group: Group, strategy: str, count: int
) -> None:
    topic = kafka.topic(partitions=6)
    revoked: list[int] = []

    def note(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        revoked.extend(each.partition for each in partitions)

    def join() -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": kafka_group.group_id,
                "partition.assignment.strategy": strategy,
                "heartbeat.interval.ms": 100,
            }
        )
        consumer.subscribe([topic], on_revoke=note)
        return consumer

    first = join()
    while len(first.assignment()) != 6:
        first.poll(0.05)
    second = join()
    while (len(first.assignment()), len(second.assignment())) != (3, 3):
        first.poll(0.05)
        second.poll(0.05)

    assert len(revoked) == count
    first.close()
    second.close()
