"""librdkafka's admin client: topics, configurations, the cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.real_clients.confluent_admin import ANSWER_S, produce
from tests.support.waiting import eventually


def refusal(call: Callable[[], object]) -> int:
    """Return the error code with which the call fails."""
    with pytest.raises(KafkaException) as refused:
        call()
    return int(refused.value.args[0].code())


def test_a_topic_is_created_and_deleted(admin: AdminClient, name: str) -> None:
    new_topic = NewTopic(name, num_partitions=3, replication_factor=1)
    admin.create_topics([new_topic])[name].result(ANSWER_S)
    assert len(admin.list_topics(timeout=ANSWER_S).topics[name].partitions) == 3
    admin.delete_topics([name])[name].result(ANSWER_S)
    eventually(
        lambda: name not in admin.list_topics(timeout=ANSWER_S).topics,
        expected="the topic gone",
    )


def test_an_existing_topic_cannot_be_created(admin: AdminClient, topic: str) -> None:
    futures = admin.create_topics([NewTopic(topic, 1, 1)])
    code = refusal(lambda: futures[topic].result(ANSWER_S))
    assert code == KafkaError.TOPIC_ALREADY_EXISTS


def test_an_unknown_topic_cannot_be_deleted(admin: AdminClient, name: str) -> None:
    futures = admin.delete_topics([name])
    code = refusal(lambda: futures[name].result(ANSWER_S))
    assert code == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize("bad", [".", "..", "a b", "x" * 250])
def test_a_topic_with_an_invalid_name_is_refused(admin: AdminClient, bad: str) -> None:
    futures = admin.create_topics([NewTopic(bad, 1, 1)])
    code = refusal(lambda: futures[bad].result(ANSWER_S))
    assert code == KafkaError.TOPIC_EXCEPTION


def test_validate_only_creates_nothing(admin: AdminClient, name: str) -> None:
    futures = admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)
    futures[name].result(ANSWER_S)
    assert name not in admin.list_topics(timeout=ANSWER_S).topics


def test_the_partition_count_cannot_be_decreased(
    admin: AdminClient, topic: str
) -> None:
    admin.create_partitions([NewPartitions(topic, 6)])[topic].result(ANSWER_S)
    eventually(
        lambda: len(admin.list_topics(timeout=ANSWER_S).topics[topic].partitions) == 6,
        expected="six partitions",
    )
    futures = admin.create_partitions([NewPartitions(topic, 5)])
    code = refusal(lambda: futures[topic].result(ANSWER_S))
    assert code == KafkaError.INVALID_PARTITIONS


def test_the_configs_of_a_topic_are_described_and_altered(
    admin: AdminClient, topic: str
) -> None:
    def retention() -> str | None:
        asked = ConfigResource(ResourceType.TOPIC, topic)
        found = admin.describe_configs([asked])[asked].result(ANSWER_S)
        value: str | None = found["retention.ms"].value
        return value

    assert retention() == "604800000"
    entry = ConfigEntry(
        "retention.ms", "1234567", incremental_operation=AlterConfigOpType.SET
    )
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result(ANSWER_S)
    eventually(lambda: retention() == "1234567", expected="the new retention")


def test_the_configs_of_a_broker_are_described(admin: AdminClient) -> None:
    node = next(iter(admin.list_topics(timeout=ANSWER_S).brokers))
    asked = ConfigResource(ResourceType.BROKER, str(node))
    found = admin.describe_configs([asked])[asked].result(ANSWER_S)
    assert int(found["offsets.topic.num.partitions"].value) > 0


def test_an_unknown_config_is_refused(admin: AdminClient, topic: str) -> None:
    entry = ConfigEntry("no.such", "1", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    futures = admin.incremental_alter_configs([change])
    code = refusal(lambda: futures[change].result(ANSWER_S))
    assert code == KafkaError.INVALID_CONFIG


def test_the_cluster_is_described(admin: AdminClient, bootstrap: str) -> None:
    found = admin.describe_cluster().result(ANSWER_S)
    addresses = {f"{node.host}:{node.port}" for node in found.nodes}
    assert set(bootstrap.split(",")) <= addresses
    assert found.controller is not None
    assert found.cluster_id


def test_topics_are_described_with_their_ids(admin: AdminClient, topic: str) -> None:
    found = admin.describe_topics(TopicCollection([topic]))[topic].result(ANSWER_S)
    assert len(found.partitions) == 4
    assert str(found.topic_id) not in {"", "AAAAAAAAAAAAAAAAAAAAAA"}
    assert not found.is_internal


def test_offsets_are_listed_by_earliest_latest_and_time(
    admin: AdminClient, bootstrap: str, topic: str
) -> None:
    produce(bootstrap, topic, {0: [b"x"] * 12})

    def offset(spec: OffsetSpec) -> int:
        where = TopicPartition(topic, 0)
        found = admin.list_offsets({where: spec})[where].result(ANSWER_S)
        return int(found.offset)

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 12
    assert offset(OffsetSpec.for_timestamp(1)) == 0
    assert 0 <= offset(OffsetSpec.max_timestamp()) < 12


def test_deleted_records_are_not_read_again(
    admin: AdminClient, bootstrap: str, topic: str
) -> None:
    produce(bootstrap, topic, {0: [b"x"] * 10})
    where = TopicPartition(topic, 0, 6)
    futures = admin.delete_records([where])
    assert futures[where].result(ANSWER_S).low_watermark == 6
    earliest = {TopicPartition(topic, 0): OffsetSpec.earliest()}
    found = admin.list_offsets(earliest)
    assert next(iter(found.values())).result(ANSWER_S).offset == 6
