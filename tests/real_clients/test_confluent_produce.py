"""Producing with librdkafka: codecs, idempotence, keys, headers, timestamps."""

from __future__ import annotations

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from tests.real_clients.compression import CODECS, compressible
from tests.real_clients.confluent_admin import ANSWER_S, create_topic, produce
from tests.real_clients.confluent_members import ConfluentMember
from tests.support.waiting import eventually


def read_partition(bootstrap: str, topic: str, count: int) -> list[Message]:
    """Return the first `count` records of partition 0, read without a group."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []

    def enough() -> bool:
        found.extend(consumer.consume(count - len(found), timeout=0.5))
        return len(found) == count

    try:
        eventually(enough, expected=f"{count} records")
    finally:
        consumer.close()
    assert all(message.error() is None for message in found)
    return found


@pytest.mark.fact("G4-05")
@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_are_read_as_produced(
    bootstrap: str, topic: str, codec: str
) -> None:
    values = compressible(300)
    produce(bootstrap, topic, {0: values}, **{"compression.type": codec})
    assert [one.value() for one in read_partition(bootstrap, topic, 300)] == values


def test_an_idempotent_producer_writes_each_record_once_in_order(
    bootstrap: str, topic: str
) -> None:
    values = [b"%d" % i for i in range(2_000)]
    settings = {"enable.idempotence": True, "batch.num.messages": 50}
    produce(bootstrap, topic, {0: values}, **settings)
    assert [one.value() for one in read_partition(bootstrap, topic, 2_000)] == values


def test_key_headers_and_timestamp_survive(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    headers: list[tuple[str, str | bytes | None]] = [
        ("one", b"1"),
        ("one", b"again"),
        ("none", None),
    ]
    producer.produce(
        topic, b"value", b"key", 0, timestamp=1_700_000_000_123, headers=headers
    )
    producer.produce(topic, None, b"tombstone", 0)
    assert producer.flush(ANSWER_S) == 0
    first, second = read_partition(bootstrap, topic, 2)
    assert (first.key(), first.value()) == (b"key", b"value")
    assert first.headers() == headers
    assert first.timestamp() == (TIMESTAMP_CREATE_TIME, 1_700_000_000_123)
    assert (second.key(), second.value()) == (b"tombstone", None)


@pytest.mark.fact("G1-06")
def test_records_with_acks_0_are_appended(bootstrap: str, topic: str) -> None:
    values = [b"%d" % i for i in range(100)]
    produce(bootstrap, topic, {1: [b"the leader is there"]})
    produce(bootstrap, topic, {0: values}, acks=0)
    assert [one.value() for one in read_partition(bootstrap, topic, 100)] == values


def test_a_record_above_the_size_limit_is_refused_and_the_next_is_accepted(
    bootstrap: str, topic: str
) -> None:
    config = {"bootstrap.servers": bootstrap, "message.max.bytes": 3_000_000}
    producer = Producer(config)
    codes: list[int | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        codes.append(None if error is None else error.code())

    producer.produce(topic, b"x" * 2_000_000, partition=0, on_delivery=delivered)
    assert producer.flush(ANSWER_S) == 0
    producer.produce(topic, b"small", partition=0, on_delivery=delivered)
    assert producer.flush(ANSWER_S) == 0
    assert codes == [KafkaError.MSG_SIZE_TOO_LARGE, None]


def test_offsets_are_listed_by_timestamp(
    bootstrap: str, topic: str, group: str
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for i in range(10):
        producer.produce(topic, b"%d" % i, partition=0, timestamp=1_700_000_000_000 + i)
        producer.flush(ANSWER_S)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    positions = [TopicPartition(topic, 0, 1_700_000_000_004)]
    assert consumer.offsets_for_times(positions, timeout=ANSWER_S)[0].offset == 4
    assert consumer.get_watermark_offsets(positions[0], timeout=ANSWER_S) == (0, 10)
    consumer.close()


def test_a_caught_up_consumer_receives_a_new_record_immediately(
    bootstrap: str, topic: str, group: str
) -> None:
    # With more partitions, a fetch without the last of them may wait for 120 s first.
    one = f"{topic}-one"
    create_topic(bootstrap, one, partitions=1)
    produce(bootstrap, one, {0: [b"first"]})
    slow = {"fetch_wait_max_ms": 120_000, "socket_timeout_ms": 180_000}
    member = ConfluentMember(bootstrap, group, [one], **slow)
    eventually(member.poll, expected="the first record")
    for i in range(5):
        produce(bootstrap, one, {0: [b"%d" % i]})
        # Far below fetch.wait.max.ms: the record itself completes the fetch.
        eventually(member.poll, within_s=60, expected=f"record {i}")
    member.leave()
