"""Offset commits of librdkafka members of the consumer protocol (KIP-848)."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from tests.real_clients.confluent_admin import (
    ANSWER_S,
    committed_offsets,
    produce,
    transactional_producer,
)
from tests.real_clients.confluent_members import ConfluentGroup

PARTITIONS = 4
COUNT = 10

NewTopic = Callable[[str, int], str]


@pytest.fixture
def consumers(bootstrap: str, group: str, topic: str) -> Iterator[ConfluentGroup]:
    """A group of the consumer protocol, and COUNT records in each partition."""
    values = {p: [b"%d" % i for i in range(COUNT)] for p in range(PARTITIONS)}
    produce(bootstrap, topic, values)
    members = ConfluentGroup(bootstrap, group, topic, group_protocol="consumer")
    with contextlib.closing(members):
        yield members


def everything(topic: str, offset: int = COUNT) -> dict[tuple[str, int], int]:
    """Return a mapping of each partition to this offset."""
    return {(topic, partition): offset for partition in range(PARTITIONS)}


def read_all(consumers: ConfluentGroup) -> None:
    """Poll until all records were read."""
    consumers.poll_until(lambda: len(consumers.records) == COUNT * PARTITIONS)


@pytest.mark.fact("E17-02")
def test_a_member_commits_and_fetches_in_each_of_its_epochs(
    consumers: ConfluentGroup, bootstrap: str, group: str, topic: str
) -> None:
    asked = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    first = consumers.join()
    for offset in range(1, 4):
        consumers.poll_until_assigned(PARTITIONS)
        positions = [TopicPartition(topic, p, offset) for p in first.owned]
        done = first.consumer.commit(offsets=positions, asynchronous=False)
        assert all(one.error is None for one in done)
        found = first.consumer.committed(asked, timeout=ANSWER_S)
        mine = {one.partition: one.offset for one in found}
        assert {mine[partition] for partition in first.owned} == {offset}
        if offset < 3:
            consumers.join()  # bumps the member epoch
    assert set(committed_offsets(bootstrap, group)) == set(everything(topic))


@pytest.mark.fact("E25-08a", "E25-08b")
def test_auto_commit_commits_before_revocation_and_before_leaving(
    consumers: ConfluentGroup, bootstrap: str, group: str, topic: str
) -> None:
    first = consumers.join(enable_auto_commit=True, auto_commit_interval_ms=600_000)
    first.commits = False
    read_all(consumers)
    assert committed_offsets(bootstrap, group) == {}
    second = consumers.join()
    second.commits = False
    consumers.poll_until_assigned(PARTITIONS)
    assert committed_offsets(bootstrap, group) == {
        (topic, partition): COUNT for partition in second.owned
    }
    consumers.leave(first)
    assert committed_offsets(bootstrap, group) == everything(topic)
    consumers.poll_until_assigned(PARTITIONS)
    produce(bootstrap, topic, {p: [b"new"] for p in range(PARTITIONS)})
    consumers.poll_until(lambda: len(second.records) == PARTITIONS)
    assert {one.value for one in second.records} == {b"new"}  # no record twice


def copy(consumers: ConfluentGroup, producer: Producer, out: str) -> None:
    """Begin a transaction with all records and positions of the only member."""
    [member] = consumers.members
    producer.begin_transaction()
    for record in consumers.records:
        producer.produce(out, record.value, partition=0)
    producer.send_offsets_to_transaction(
        member.consumer.position(member.consumer.assignment()),
        member.consumer.consumer_group_metadata(),
        ANSWER_S,
    )


def test_consume_transform_produce_in_transactions_is_exactly_once(
    consumers: ConfluentGroup,
    bootstrap: str,
    group: str,
    topic: str,
    new_topic: NewTopic,
) -> None:
    out, producer = new_topic("out", 1), transactional_producer(bootstrap, group)
    member = consumers.join()
    member.commits = False
    read_all(consumers)
    copy(consumers, producer, out)
    producer.abort_transaction(ANSWER_S)
    assert committed_offsets(bootstrap, group) == {}
    consumers.leave(member)
    consumers.records.clear()
    consumers.join().commits = False
    read_all(consumers)  # reads everything again: nothing is committed
    copy(consumers, producer, out)
    assert committed_offsets(bootstrap, group) == {}
    producer.commit_transaction(ANSWER_S)
    assert committed_offsets(bootstrap, group) == everything(topic)
    reader = ConfluentGroup(bootstrap, f"{group}-out", out, group_protocol="consumer")
    with contextlib.closing(reader):
        reader.join(isolation_level="read_committed")
        reader.poll_until(lambda: len(reader.records) == COUNT * PARTITIONS)
    assert Counter(one.value for one in reader.records) == {
        b"%d" % i: PARTITIONS for i in range(COUNT)
    }


@pytest.mark.fact("E17-15a")
def test_a_transaction_with_an_older_member_epoch_commits_only_retained_partitions(
    consumers: ConfluentGroup, bootstrap: str, group: str, topic: str
) -> None:
    first, producer = consumers.join(), transactional_producer(bootstrap, group)
    first.commits = False
    consumers.poll_until_assigned(PARTITIONS)
    zombie = first.consumer.consumer_group_metadata()
    second = consumers.join()
    second.commits = False
    consumers.poll_until_assigned(PARTITIONS)
    consumers.leave(second)
    consumers.poll_until_assigned(PARTITIONS)
    assert len(first.assigned) > 1
    kept = next(iter(frozenset(range(PARTITIONS)) - frozenset().union(*first.revoked)))
    gone = next(iter(first.revoked[0]))
    for partition, refusal in ((kept, None), (gone, KafkaError.ILLEGAL_GENERATION)):
        producer.begin_transaction()
        assert refused(producer, TopicPartition(topic, partition, 5), zombie) == refusal
        producer.abort_transaction(ANSWER_S)


@pytest.mark.fact("E17-15b")
def test_a_transaction_of_a_member_that_left_is_refused(
    consumers: ConfluentGroup, bootstrap: str, group: str, topic: str
) -> None:
    first, _ = consumers.join(), consumers.join()
    producer = transactional_producer(bootstrap, group)
    consumers.poll_until_assigned(PARTITIONS)
    gone = first.consumer.consumer_group_metadata()
    consumers.leave(first)
    consumers.poll_until_assigned(PARTITIONS)
    before = committed_offsets(bootstrap, group)
    producer.begin_transaction()
    code = refused(producer, TopicPartition(topic, 0, 5), gone)
    assert code == KafkaError.UNKNOWN_MEMBER_ID
    producer.abort_transaction(ANSWER_S)
    assert committed_offsets(bootstrap, group) == before


def refused(producer: Producer, offset: TopicPartition, metadata: object) -> int | None:
    """Send an offset to the ongoing transaction; return the error code, if any."""
    try:
        producer.send_offsets_to_transaction([offset], metadata, ANSWER_S)
    except KafkaException as error:
        return int(error.args[0].code())
    return None
