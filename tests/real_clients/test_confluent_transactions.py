"""librdkafka transactions: committed, aborted, fenced, with committed offsets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from tests.real_clients.confluent_admin import (
    ANSWER_S,
    admin_client,
    committed_offsets,
    produce,
    transactional_producer,
)
from tests.real_clients.confluent_members import ConfluentMember
from tests.support.waiting import eventually

QUIET_S = 1.0


@pytest.fixture
def member(bootstrap: str, group: str, topic: str) -> Iterator[ConfluentMember]:
    """A group member, whose metadata offset commits in transactions need."""
    member = ConfluentMember(bootstrap, group, [topic])
    member.commits = False
    eventually(lambda: member.poll() or member.owned, expected="an assignment")
    yield member
    member.consumer.close()


def read_until(bootstrap: str, topic: str, last: bytes, level: str) -> list[bytes]:
    """Return the values of partition 0 at an isolation level, up to `last`."""
    config = {"bootstrap.servers": bootstrap, "group.id": "unused"}
    consumer = Consumer({**config, "isolation.level": level})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []

    def arrived() -> bool:
        for message in consumer.consume(100, timeout=0.2):
            assert message.error() is None
            values.append(bytes(message.value() or b""))
        return last in values

    try:
        eventually(arrived, expected=f"{last!r}")
    finally:
        consumer.close()
    return values


def test_an_aborted_transaction_is_invisible(
    bootstrap: str, topic: str, name: str
) -> None:
    producer = transactional_producer(bootstrap, name)
    for value, end in (
        (b"one", producer.commit_transaction),
        (b"two", producer.abort_transaction),
        (b"three", producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(ANSWER_S)
        end(ANSWER_S)
    seen = read_until(bootstrap, topic, b"three", "read_committed")
    assert seen == [b"one", b"three"]
    everything = read_until(bootstrap, topic, b"three", "read_uncommitted")
    assert everything == [b"one", b"two", b"three"]


def test_records_after_an_open_transaction_are_invisible(
    bootstrap: str, topic: str, name: str
) -> None:
    producer = transactional_producer(bootstrap, name)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(ANSWER_S)
    produce(bootstrap, topic, {0: [b"plain"]})
    config = {"bootstrap.servers": bootstrap, "group.id": "unused"}
    consumer = Consumer({**config, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert not consumer.consume(1, timeout=QUIET_S)
    producer.commit_transaction(ANSWER_S)
    values: list[bytes | None] = []

    def both() -> bool:
        values.extend(m.value() for m in consumer.consume(2, timeout=0.2))
        return len(values) == 2

    eventually(both, expected="both records")
    consumer.close()
    assert values == [b"open", b"plain"]


def send_offsets(
    producer: Producer, member: ConfluentMember, topic: str, offset: int
) -> None:
    """Add an offset of the member's group to the ongoing transaction."""
    offsets = [TopicPartition(topic, 0, offset)]
    metadata = member.consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction(offsets, metadata, ANSWER_S)


@pytest.mark.fact("G4-05")
def test_offsets_of_a_committed_transaction_are_visible(
    bootstrap: str, topic: str, group: str, name: str, member: ConfluentMember
) -> None:
    producer = transactional_producer(bootstrap, name)
    producer.begin_transaction()
    send_offsets(producer, member, topic, 7)
    assert committed_offsets(bootstrap, group) == {}
    producer.commit_transaction(ANSWER_S)
    # Apache Kafka writes the markers after it has answered EndTxn.
    eventually(
        lambda: committed_offsets(bootstrap, group) == {(topic, 0): 7},
        expected="the committed offset",
    )


def test_offsets_of_an_aborted_transaction_are_invisible(
    bootstrap: str, topic: str, group: str, name: str, member: ConfluentMember
) -> None:
    producer = transactional_producer(bootstrap, name)
    producer.begin_transaction()
    send_offsets(producer, member, topic, 7)
    producer.commit_transaction(ANSWER_S)
    producer.begin_transaction()
    send_offsets(producer, member, topic, 9)
    producer.abort_transaction(ANSWER_S)
    assert committed_offsets(bootstrap, group) == {(topic, 0): 7}


@pytest.mark.fact("H-93a", "H-93c", "A-48a")
def test_a_fetch_with_require_stable_reports_pending_offsets_as_unstable(
    bootstrap: str, topic: str, group: str, name: str, member: ConfluentMember
) -> None:
    producer = transactional_producer(bootstrap, name)
    producer.begin_transaction()
    send_offsets(producer, member, topic, 7)
    admin = admin_client(bootstrap)
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    asked = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, partitions)], require_stable=True
    )
    pending, free = asked[group].result(ANSWER_S).topic_partitions
    assert pending.error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT
    assert free.error is None
    producer.commit_transaction(ANSWER_S)


def test_a_second_producer_with_the_transactional_id_fences_the_first(
    bootstrap: str, topic: str, name: str
) -> None:
    first = transactional_producer(bootstrap, name)
    first.begin_transaction()
    first.produce(topic, b"lost", partition=0)
    first.flush(ANSWER_S)
    second = transactional_producer(bootstrap, name)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(ANSWER_S)
    assert refused.value.args[0].code() in {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
    second.begin_transaction()
    second.produce(topic, b"kept", partition=0)
    second.commit_transaction(ANSWER_S)
    assert read_until(bootstrap, topic, b"kept", "read_committed") == [b"kept"]
