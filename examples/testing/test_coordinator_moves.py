"""A group coordinator that moves to another broker while a batch is processed.

The commit after the batch meets NOT_COORDINATOR; the client has to look for the new
coordinator and commit there, without processing the batch again.
"""

from __future__ import annotations

import pytest
from aiokafka import AIOKafkaConsumer

from coterie.testing import Kafka

GROUP = "billing"


@pytest.mark.kafka(nodes=3)
async def test_a_batch_is_committed_at_the_new_coordinator(
    kafka_cluster: Kafka,
) -> None:
    kafka = kafka_cluster
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, [b"%d" % n for n in range(10)])
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    processed: list[bytes] = []
    while len(processed) < 10:
        batches = await consumer.getmany(timeout_ms=100)
        processed += [record.value for batch in batches.values() for record in batch]

    kafka.faults.coordinator_moves(GROUP)
    await consumer.commit()

    assert kafka.groups[GROUP].offsets == {(topic, 0): 10}
    commits = kafka.requests.of("OffsetCommit", group=GROUP)
    assert len({commit.node for commit in commits if not commit.errors}) == 1
    await consumer.stop()
