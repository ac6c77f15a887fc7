"""Offsets that expire: a job that ran a week ago starts again at its reset policy.

Committed offsets are deleted `offsets.retention.minutes` (seven days) after a group
became empty.
"""

from __future__ import annotations

from kafka import KafkaConsumer

from coterie.testing import Kafka

GROUP = "billing"


def run_job(kafka: Kafka, group: str, topic: str, count: int) -> list[bytes]:
    """Read `count` records as the nightly job does, commit and leave."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    values: list[bytes] = []
    while len(values) < count:
        for records in consumer.poll(timeout_ms=1_000).values():
            values += [record.value for record in records]
    consumer.commit()
    consumer.close()
    return values


def test_a_job_after_a_week_of_holidays_reads_everything_again(
    kafka_cluster: Kafka,
) -> None:
    kafka = kafka_cluster  # a server of its own: other tests keep their clock
    # Records expire after a week as well, unless the topic keeps them.
    topic = kafka.topic(config={"retention.ms": "-1"})
    kafka.produce(topic, [b"monday"])
    assert run_job(kafka, GROUP, topic, 1) == [b"monday"]

    kafka.clock.advance(days=6)
    kafka.produce(topic, [b"sunday"])
    assert run_job(kafka, GROUP, topic, 1) == [b"sunday"]

    kafka.clock.advance(days=8)
    assert kafka.groups[GROUP].offsets == {}
    assert run_job(kafka, GROUP, topic, 2) == [b"monday", b"sunday"]
