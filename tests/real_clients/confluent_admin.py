"""confluent-kafka's admin client and producer, for the set-up of many tests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import pytest
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConsumerGroupDescription,
    NewTopic,
    ResourceType,
)

from tests.support.waiting import eventually

ANSWER_S = 60.0
FOREIGN_BROKER = "COTERIE_TEST_BOOTSTRAP"
"""The environment variable with the address of a broker that runs already."""


def admin_client(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def alter_group(
    admin: AdminClient,
    group: str,
    name: str,
    value: str | None,
    how: AlterConfigOpType = AlterConfigOpType.SET,
) -> None:
    """Change one configuration of a group.

    Skips the test when a broker that is not Coterie's has no such configurations, as
    the upstream of a gateway may have none (Kafka before 4.0).
    """
    entry = ConfigEntry(name, value, incremental_operation=how)
    change = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    try:
        admin.incremental_alter_configs([change])[change].result(ANSWER_S)
    except KafkaException as error:
        skip_without_group_configs(error)
        raise


def skip_without_group_configs(error: KafkaException) -> None:
    """Skip the test if the error is that of an old broker without configurations of
    groups."""
    is_unknown = error.args[0].code() == KafkaError.INVALID_REQUEST
    if is_unknown and FOREIGN_BROKER in os.environ:
        pytest.skip("upstream has no configurations of groups")


def create_topic(bootstrap: str, topic: str, *, partitions: int) -> str:
    """Create a topic and wait until the metadata has it."""
    admin = admin_client(bootstrap)
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1)
    admin.create_topics([new])[topic].result(ANSWER_S)

    def is_in_metadata() -> bool:
        metadata = admin.list_topics(topic, timeout=ANSWER_S).topics[topic]
        return metadata.error is None and len(metadata.partitions) == partitions

    eventually(is_in_metadata, expected=f"{topic} in the metadata")
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

    for partition, of_partition in values.items():
        for value in of_partition:
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
    assert producer.flush(ANSWER_S) == 0
    assert not failed, failed[:3]


def numbered_values(count: int, partitions: int = 4) -> dict[int, list[bytes]]:
    """Return `count` distinct values for each partition."""
    return {p: [b"%d-%d" % (p, i) for i in range(count)] for p in range(partitions)}


def transactional_producer(
    bootstrap: str, transactional_id: str, **config: object
) -> Producer:
    """Return a producer that has initialized its transactional id."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 300_000,
            **config,
        }
    )
    producer.init_transactions(ANSWER_S)
    return producer


def committed_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Return all offsets that a group has committed, without naming topics (KIP-88)."""
    admin = admin_client(bootstrap)
    futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    listed: list[TopicPartition] = futures[group].result(ANSWER_S).topic_partitions
    return {(each.topic, each.partition): each.offset for each in listed}


def alter_offsets(
    bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int]
) -> None:
    """Commit offsets for a group without being a member."""
    partitions = [
        TopicPartition(*partition, offset) for partition, offset in offsets.items()
    ]
    altered = ConsumerGroupTopicPartitions(group, partitions)
    admin = admin_client(bootstrap)  # keep it alive: its futures need it
    future = admin.alter_consumer_group_offsets([altered])[group]
    for each in future.result(ANSWER_S).topic_partitions:
        assert each.error is None, each


def describe_group(admin: AdminClient, group: str) -> ConsumerGroupDescription:
    return admin.describe_consumer_groups([group])[group].result(ANSWER_S)


def error_code(error: BaseException | None) -> int | None:
    """Return the Kafka error code of a future's exception, if there is one."""
    return None if error is None else int(error.args[0].code())
