"""What many tests ask of an admin client: confluent-kafka's, as none is neutral."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from .waiting import eventually

ANSWER_S = 15.0


def admin_of(bootstrap: str) -> AdminClient:
    """An admin client of that broker."""
    return AdminClient({"bootstrap.servers": bootstrap})


def create_topic(bootstrap: str, topic: str, *, partitions: int) -> str:
    """Create a topic and wait until everybody who asks is told about it."""
    admin = admin_of(bootstrap)
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1)
    admin.create_topics([wanted])[topic].result(ANSWER_S)

    def known() -> bool:
        found = admin.list_topics(topic, timeout=ANSWER_S).topics[topic]
        return found.error is None and len(found.partitions) == partitions

    eventually(known, wanted=f"{topic} in the metadata")
    return topic


def produce(
    bootstrap: str, topic: str, values: Mapping[int, Iterable[bytes]], **config: object
) -> None:
    """Produce values, given by partition, and wait for every acknowledgement."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **config})
    failed: list[str] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failed.append(str(error))

    for partition, those in values.items():
        for value in those:
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
    assert producer.flush(ANSWER_S) == 0
    assert not failed, failed[:3]


def committed_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Every offset a group has committed, asked without naming a topic (KIP-88)."""
    admin = admin_of(bootstrap)
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found: list[TopicPartition] = asked[group].result(ANSWER_S).topic_partitions
    return {(one.topic, one.partition): one.offset for one in found}


def alter_offsets(
    bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int]
) -> None:
    """Commit offsets for a group from outside."""
    partitions = [TopicPartition(*where, offset) for where, offset in offsets.items()]
    wanted = ConsumerGroupTopicPartitions(group, partitions)
    admin = admin_of(bootstrap)  # held: its futures die with it
    future = admin.alter_consumer_group_offsets([wanted])[group]
    for one in future.result(ANSWER_S).topic_partitions:
        assert one.error is None, one
