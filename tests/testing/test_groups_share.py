"""Share groups of a test server: deliveries, waits and reports."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from coterie.errors import ApiError
from coterie.testing import Group, Kafka, RecordId
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode

pytestmark = pytest.mark.slow

POLL_S = 60.0
LOCK_S = 30
SECOND = RecordId("orders", 0, 1)


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka() as server:
        yield server


@pytest.fixture
def queue(kafka: Kafka) -> Group:
    """A share group that reads a topic with two records from its beginning."""
    kafka.topic("orders")
    kafka.produce("orders", ["a", "b"])
    group = kafka.groups["queue"]
    group.configure({"share.auto.offset.reset": "earliest"})
    return group


@pytest.fixture
def member(kafka: Kafka) -> Iterator[ShareConsumer]:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "queue",
            "share.acknowledgement.mode": "explicit",
        }
    )
    consumer.subscribe(["orders"])
    yield consumer
    consumer.close()


def test_an_acquired_record_has_a_member_and_a_lock(
    kafka: Kafka, queue: Group, member: ShareConsumer
) -> None:
    other = kafka.groups["other"]
    assert (other.type, other.deliveries, other.in_flight) == (None, {}, 0)
    first, second = member.poll(POLL_S)
    [described] = queue.wait_for(state="Stable", members=1, in_flight=2).members
    assert queue.type == "share"
    assert queue.assignment == {"rdkafka": (TopicPartition("orders", 0),)}
    kafka.clock.advance(seconds=LOCK_S - 1)
    delivery = queue.deliveries[SECOND]
    assert (delivery.state, delivery.count) == ("Acquired", 1)
    assert delivery.member_id == described.member_id
    assert delivery.lock_ms is not None
    assert delivery.lock_ms <= 1_000

    member.acknowledge(first, AcknowledgeType.ACCEPT)
    member.acknowledge(second, AcknowledgeType.RELEASE)
    member.commit_sync(POLL_S)
    left = queue.wait_for(in_flight=0).deliveries
    assert list(left) == [SECOND]
    assert left[SECOND].lock_ms is None
    assert queue.lag == 1


def test_the_clock_ends_locks(
    kafka: Kafka, queue: Group, member: ShareConsumer
) -> None:
    member.poll(POLL_S)
    with pytest.raises(AssertionError) as raised:
        queue.wait_for(in_flight=0, timeout=0)
    assert "0 records in flight, but there are 2" in str(raised.value)
    assert "orders-0 offset 1: Acquired, delivered 1 times" in str(raised.value)
    kafka.clock.advance(seconds=LOCK_S)
    queue.wait_for(in_flight=0)
    assert {each.state for each in queue.deliveries.values()} == {"Available"}


def test_a_configuration_that_does_not_exist_is_refused(kafka: Kafka) -> None:
    with pytest.raises(ApiError) as raised:
        kafka.groups["queue"].configure({"share.offset.reset": "earliest"})
    assert raised.value.code is ErrorCode.INVALID_CONFIG


def test_an_acknowledgement_that_is_refused_stands_in_its_row(
    kafka: Kafka, queue: Group, member: ShareConsumer
) -> None:
    first, second = member.poll(POLL_S)
    member.acknowledge(first)
    member.acknowledge(second)
    with kafka.faults.reply("ShareAcknowledge", "INVALID_RECORD_STATE", times=1):
        [outcome] = member.commit_sync(POLL_S).values()
    assert outcome is not None
    assert outcome.args[0].name() == "INVALID_RECORD_STATE"
    assert queue.in_flight == 2
