"""Topics of a test server: create, produce and read."""

from __future__ import annotations

import contextlib

import pytest
from confluent_kafka import Consumer, Producer
from kafka.partitioner.default import murmur2 as reference_murmur2

from coterie.errors import ApiError
from coterie.testing import Kafka
from coterie.wire.error_codes import ErrorCode
from coterie.wire.murmur2 import murmur2


def test_a_topic_without_a_name_gets_a_new_one_each_time(shared_kafka: Kafka) -> None:
    first, second = shared_kafka.topic(), shared_kafka.topic(partitions=3)
    assert first != second
    assert len(shared_kafka.partitions_of(second)) == 3


def test_produced_records_are_read_with_all_that_they_have(shared_kafka: Kafka) -> None:
    topic = shared_kafka.topic()
    produced = shared_kafka.produce(
        topic,
        [b"one", ("key", "zwei"), (b"gone", None)],
        headers=[("trace", b"7")],
        timestamp_ms=1_700_000_000_000,
    )
    records = shared_kafka.records(topic)
    assert records == produced
    assert [each.key for each in records] == [None, b"key", b"gone"]
    assert [each.value for each in records] == [b"one", b"zwei", None]
    assert [each.offset for each in records] == [0, 1, 2]
    assert {each.headers for each in records} == {(("trace", b"7"),)}
    assert {each.timestamp_ms for each in records} == {1_700_000_000_000}


def test_log_append_time_is_the_timestamp_of_produced_records(
    shared_kafka: Kafka,
) -> None:
    config = {"message.timestamp.type": "LogAppendTime"}
    topic = shared_kafka.topic(config=config)
    produced = shared_kafka.produce(topic, ["late"], timestamp_ms=5)
    assert produced == shared_kafka.records(topic)
    assert produced[0].timestamp_ms > 5


def test_records_without_a_key_go_to_all_partitions_in_turn(
    shared_kafka: Kafka,
) -> None:
    topic = shared_kafka.topic(partitions=3)
    produced = shared_kafka.produce(topic, ["a", "b", "c", "d"])
    assert [each.partition for each in produced] == [0, 1, 2, 0]
    assert [each.offset for each in produced] == [0, 0, 0, 1]
    read = shared_kafka.records(topic, partition=0)
    assert [each.value for each in read] == [b"a", b"d"]
    assert len(shared_kafka.records(topic)) == 4


def test_a_key_selects_the_partition_of_the_java_client(shared_kafka: Kafka) -> None:
    keys = [b"", b"a", b"ab", b"abc", b"abcd", b"order-17", bytes(range(256))]
    for key in keys:
        assert murmur2(key) == reference_murmur2(key) & 0x7FFFFFFF
    topic = shared_kafka.topic(partitions=5)
    produced = shared_kafka.produce(topic, [(key, b"") for key in keys])
    assert [each.partition for each in produced] == [murmur2(key) % 5 for key in keys]


def test_a_record_for_a_given_partition_goes_there(shared_kafka: Kafka) -> None:
    topic = shared_kafka.topic(partitions=2)
    (record,) = shared_kafka.produce(topic, [("a", "b")], partition=1)
    assert record.partition == 1


def test_a_topic_that_does_not_exist_is_an_error(shared_kafka: Kafka) -> None:
    with pytest.raises(ApiError, match="topic missing: UNKNOWN_TOPIC_OR_PARTITION"):
        shared_kafka.produce("missing", ["a"])
    with pytest.raises(ApiError) as error:
        shared_kafka.records("missing")
    assert error.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_with_an_invalid_configuration_is_an_error(shared_kafka: Kafka) -> None:
    with pytest.raises(ApiError, match=r"topic orders: INVALID_CONFIG: .*retention"):
        shared_kafka.topic("orders", config={"retention.ms": "a week"})


@pytest.mark.slow
def test_committed_reads_leave_out_aborted_and_open_transactions(
    shared_kafka: Kafka,
) -> None:
    topic = shared_kafka.topic()
    producer = Producer(
        {
            "bootstrap.servers": shared_kafka.bootstrap_servers,
            "transactional.id": "copier",
        }
    )
    producer.init_transactions(30)
    for text, end in (
        ("aborted", producer.abort_transaction),
        ("committed", producer.commit_transaction),
        ("open", producer.flush),
    ):
        producer.begin_transaction()
        producer.produce(topic, text)
        producer.flush(30)
        end(30)
    shared_kafka.produce(topic, ["plain"])
    values = [each.value for each in shared_kafka.records(topic)]
    assert values == [b"aborted", b"committed", b"open", b"plain"]
    committed = shared_kafka.records(topic, isolation="read_committed")
    assert [each.value for each in committed] == [b"committed"]
    producer.abort_transaction(30)
    committed = shared_kafka.records(topic, isolation="read_committed")
    assert [each.value for each in committed] == [b"committed", b"plain"]


def test_a_compressed_batch_of_a_client_is_read(shared_kafka: Kafka) -> None:
    topic = shared_kafka.topic()
    config = {
        "bootstrap.servers": shared_kafka.bootstrap_servers,
        "compression.type": "lz4",
        "linger.ms": 0,
    }
    producer = Producer(config)
    for at in range(50):
        producer.produce(topic, f"value {at}")
    producer.flush(30)
    values = [each.value for each in shared_kafka.records(topic)]
    assert values == [f"value {at}".encode() for at in range(50)]


def test_helpers_need_no_rights_on_a_server_with_acls() -> None:
    with Kafka(settings={"authorizer": "acl"}) as kafka:
        kafka.topic("orders")
        kafka.produce("orders", ["a"])
        assert len(kafka.records("orders")) == 1
        consumer = Consumer(
            {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "billing"}
        )
        with contextlib.closing(consumer):
            assert "orders" not in consumer.list_topics(timeout=30).topics
