"""Offsets that librdkafka's members of the KIP-848 protocol commit, or may not."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from .admin import ANSWER_S, committed_offsets, produce
from .members import Crew

PARTITIONS = 4
COUNT = 10

NewTopic = Callable[[str, int], str]


@pytest.fixture
def crew(bootstrap: str, group: str, topic: str) -> Iterator[Crew]:
    """A crew whose members speak the consumer protocol, and COUNT records each."""
    values = {p: [b"%d" % i for i in range(COUNT)] for p in range(PARTITIONS)}
    produce(bootstrap, topic, values)
    members = Crew(bootstrap, group, topic, group_protocol="consumer")
    with contextlib.closing(members):
        yield members


def everything(topic: str, offset: int = COUNT) -> dict[tuple[str, int], int]:
    """That offset for each partition."""
    return {(topic, partition): offset for partition in range(PARTITIONS)}


def read_all(crew: Crew) -> None:
    """Poll until each record has been read."""
    crew.poll_until(lambda: len(crew.seen) == COUNT * PARTITIONS)


@pytest.mark.fact("E17-02")
def test_a_member_commits_and_fetches_in_each_of_its_epochs(
    crew: Crew, bootstrap: str, group: str, topic: str
) -> None:
    asked = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    first = crew.join()
    for offset in range(1, 4):
        crew.poll_until_shared(PARTITIONS)
        wanted = [TopicPartition(topic, p, offset) for p in first.owned]
        done = first.consumer.commit(offsets=wanted, asynchronous=False)
        assert all(one.error is None for one in done)
        found = first.consumer.committed(asked, timeout=ANSWER_S)
        mine = {one.partition: one.offset for one in found}
        assert {mine[partition] for partition in first.owned} == {offset}
        if offset < 3:
            crew.join()  # another epoch
    assert set(committed_offsets(bootstrap, group)) == set(everything(topic))


@pytest.mark.fact("E25-08")
def test_auto_commit_commits_before_a_partition_goes_and_before_leaving(
    crew: Crew, bootstrap: str, group: str, topic: str
) -> None:
    first = crew.join(enable_auto_commit=True, auto_commit_interval_ms=600_000)
    first.commits = False
    read_all(crew)
    assert committed_offsets(bootstrap, group) == {}
    second = crew.join()
    second.commits = False
    crew.poll_until_shared(PARTITIONS)
    assert committed_offsets(bootstrap, group) == {
        (topic, partition): COUNT for partition in second.owned
    }
    crew.leave(first)
    assert committed_offsets(bootstrap, group) == everything(topic)
    crew.poll_until_shared(PARTITIONS)
    produce(bootstrap, topic, {p: [b"new"] for p in range(PARTITIONS)})
    crew.poll_until(lambda: len(second.seen) == PARTITIONS)
    assert {one.value for one in second.seen} == {b"new"}  # nothing again


def transactional(bootstrap: str, name: str) -> Producer:
    """A producer whose transactions may begin."""
    config = {"bootstrap.servers": bootstrap, "transactional.id": name}
    producer = Producer(config)
    producer.init_transactions(ANSWER_S)
    return producer


def copy(crew: Crew, producer: Producer, out: str) -> None:
    """Begin a transaction with all that the crew's one member has read."""
    [member] = crew.members
    producer.begin_transaction()
    for record in crew.seen:
        producer.produce(out, record.value, partition=0)
    producer.send_offsets_to_transaction(
        member.consumer.position(member.consumer.assignment()),
        member.consumer.consumer_group_metadata(),
        ANSWER_S,
    )


@pytest.mark.fact("E17-15")
def test_what_is_consumed_and_produced_in_transactions_counts_once(
    crew: Crew, bootstrap: str, group: str, topic: str, new_topic: NewTopic
) -> None:
    out, producer = new_topic("out", 1), transactional(bootstrap, group)
    member = crew.join()
    member.commits = False
    read_all(crew)
    copy(crew, producer, out)
    producer.abort_transaction(ANSWER_S)
    assert committed_offsets(bootstrap, group) == {}
    crew.leave(member)
    crew.seen.clear()
    crew.join().commits = False
    read_all(crew)  # all of it again, as nothing is committed
    copy(crew, producer, out)
    assert committed_offsets(bootstrap, group) == {}
    producer.commit_transaction(ANSWER_S)
    assert committed_offsets(bootstrap, group) == everything(topic)
    reader = Crew(bootstrap, f"{group}-out", out, group_protocol="consumer")
    with contextlib.closing(reader):
        reader.join(isolation_level="read_committed")
        reader.poll_until(lambda: len(reader.seen) == COUNT * PARTITIONS)
    assert Counter(one.value for one in reader.seen) == {
        b"%d" % i: PARTITIONS for i in range(COUNT)
    }


@pytest.mark.fact("E17-15")
def test_a_transaction_of_an_older_epoch_commits_only_what_its_member_has_kept(
    crew: Crew, bootstrap: str, group: str, topic: str
) -> None:
    first, producer = crew.join(), transactional(bootstrap, group)
    first.commits = False
    crew.poll_until_shared(PARTITIONS)
    zombie = first.consumer.consumer_group_metadata()
    second = crew.join()
    second.commits = False
    crew.poll_until_shared(PARTITIONS)
    crew.leave(second)
    crew.poll_until_shared(PARTITIONS)
    assert len(first.assigned) > 1
    kept = next(iter(frozenset(range(PARTITIONS)) - frozenset().union(*first.revoked)))
    gone = next(iter(first.revoked[0]))
    for partition, refusal in ((kept, None), (gone, KafkaError.ILLEGAL_GENERATION)):
        producer.begin_transaction()
        assert refused(producer, TopicPartition(topic, partition, 5), zombie) == refusal
        producer.abort_transaction(ANSWER_S)


@pytest.mark.fact("E17-15")
def test_a_transaction_of_a_member_that_left_is_refused(
    crew: Crew, bootstrap: str, group: str, topic: str
) -> None:
    first, _ = crew.join(), crew.join()
    producer = transactional(bootstrap, group)
    crew.poll_until_shared(PARTITIONS)
    gone = first.consumer.consumer_group_metadata()
    crew.leave(first)
    crew.poll_until_shared(PARTITIONS)
    before = committed_offsets(bootstrap, group)
    producer.begin_transaction()
    code = refused(producer, TopicPartition(topic, 0, 5), gone)
    assert code == KafkaError.UNKNOWN_MEMBER_ID
    producer.abort_transaction(ANSWER_S)
    assert committed_offsets(bootstrap, group) == before


def refused(producer: Producer, offset: TopicPartition, metadata: object) -> int | None:
    """Send an offset to the running transaction; the error's code, if there is one."""
    try:
        producer.send_offsets_to_transaction([offset], metadata, ANSWER_S)
    except KafkaException as error:
        return int(error.args[0].code())
    return None
