"""A commit that was applied, but whose response was lost.

The client cannot know, so it sends the commit again. A commit is idempotent: the group
has the offset either way. Each of the three clients has to get this right.
"""

from __future__ import annotations

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from coterie.testing import Group, Kafka


def test_confluent_kafka(kafka: Kafka, kafka_topic: str, kafka_group: Group) -> None:
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": kafka_group.group_id}
    )
    offsets = [ConfluentPartition(kafka_topic, 0, 7)]
    with kafka.faults.drop_response(
        "OffsetCommit", group=kafka_group.group_id, times=1
    ) as lost:
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            consumer.commit(offsets=offsets, asynchronous=False)
    assert len(lost.hits) == 1
    assert kafka_group.offsets == {(kafka_topic, 0): 7}
    consumer.close()


def test_kafka_python(kafka: Kafka, kafka_topic: str, kafka_group: Group) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, group_id=kafka_group.group_id
    )
    offsets = {TopicPartition(kafka_topic, 0): OffsetAndMetadata(7, "", -1)}
    with kafka.faults.drop_response(
        "OffsetCommit", group=kafka_group.group_id, times=1
    ) as lost:
        try:
            consumer.commit(offsets)
        except KafkaError:
            consumer.commit(offsets)
    assert len(lost.hits) == 1
    assert kafka_group.offsets == {(kafka_topic, 0): 7}
    consumer.close()


async def test_aiokafka(kafka: Kafka, kafka_topic: str, kafka_group: Group) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=kafka_group.group_id,
        enable_auto_commit=False,
    )
    await consumer.start()
    partition = AioPartition(kafka_topic, 0)
    consumer.assign([partition])
    with kafka.faults.drop_response(
        "OffsetCommit", group=kafka_group.group_id, times=1
    ) as lost:
        try:
            await consumer.commit({partition: 7})
        except AioError:
            await consumer.commit({partition: 7})
    assert len(lost.hits) == 1
    assert kafka_group.offsets == {(kafka_topic, 0): 7}
    await consumer.stop()
