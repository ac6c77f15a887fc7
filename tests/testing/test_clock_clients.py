"""The effect of `clock.advance` on real clients, which keep their own clocks.
docs/testing/clock.md has a table of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import aiokafka
import kafka as kafka_python
import pytest
from aiokafka.errors import CommitFailedError as AiokafkaCommitFailed
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from kafka.errors import CommitFailedError as KafkaPythonCommitFailed

from coterie.testing import Kafka
from tests.real_clients.aiokafka_members import wait_until
from tests.support.waiting import DEADLINE_S, eventually

pytestmark = pytest.mark.slow

TOPIC = "t"
HEARTBEAT_MS = 14_000
"""Long, so that a commit after the advance is sent before the next heartbeat."""
SESSION_MS = 45_000


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    settings = {"group.consumer.heartbeat.interval.ms": HEARTBEAT_MS}
    with Kafka(settings=settings) as kafka:
        kafka.topic(TOPIC, partitions=2)
        yield kafka


class Confluent:
    """A consumer of confluent-kafka that records its callbacks."""

    def __init__(self, kafka: Kafka, group: str, protocol: str) -> None:
        settings = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
        }
        if protocol == "classic":
            settings["heartbeat.interval.ms"] = HEARTBEAT_MS
            settings["session.timeout.ms"] = SESSION_MS
        self.calls: list[str] = []
        self.consumer = Consumer(settings)
        self.consumer.subscribe(
            [TOPIC],
            on_assign=lambda *_: self.calls.append("assign"),
            on_revoke=lambda *_: self.calls.append("revoke"),
            on_lost=lambda *_: self.calls.append("lost"),
        )
        self.poll_until(["assign"])

    def poll_until(self, calls: list[str]) -> None:
        def has_called() -> bool:
            self.consumer.poll(0.05)
            return self.calls == calls

        eventually(has_called, expected=f"callbacks {calls}")

    def commit(self) -> None:
        self.consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)

    def assert_commit_is_refused(self) -> None:
        with pytest.raises(KafkaException) as refused:
            self.commit()
        assert refused.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_confluent_kafka_loses_its_partitions_and_joins_again(
    kafka: Kafka, protocol: str
) -> None:
    member = Confluent(kafka, f"confluent-{protocol}", protocol)
    before = member.consumer.memberid()
    kafka.clock.advance(seconds=46)
    member.assert_commit_is_refused()
    member.poll_until(["assign", "lost", "assign"])
    # A member of the consumer protocol makes its id itself, and keeps it.
    assert (member.consumer.memberid() == before) == (protocol == "consumer")
    member.commit()
    member.consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_confluent_kafka_stays_with_keep_sessions(kafka: Kafka, protocol: str) -> None:
    member = Confluent(kafka, f"confluent-kept-{protocol}", protocol)
    member.commit()
    kafka.clock.advance(days=8, keep_sessions=True)
    member.commit()
    assert member.calls == ["assign"]
    member.consumer.close()


def test_confluent_kafka_is_fenced_when_its_transaction_timed_out(kafka: Kafka) -> None:
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "x"}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(TOPIC, b"v")
    assert producer.flush(DEADLINE_S) == 0
    kafka.clock.advance(minutes=1)
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction()
    assert fenced.value.args[0].code() == KafkaError._FENCED
    assert fenced.value.args[0].fatal()


def test_kafka_python_loses_its_partitions_and_joins_again(kafka: Kafka) -> None:
    calls: list[str] = []

    class Listener(kafka_python.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: set[object]) -> None:
            calls.extend(["revoked"] * bool(revoked))

        def on_partitions_assigned(self, assigned: set[object]) -> None:
            calls.append("assigned")

        def on_partitions_lost(self, lost: set[object]) -> None:
            calls.append("lost")

    consumer = kafka_python.KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id="kafka-python",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        enable_auto_commit=False,
        metrics_enabled=False,
    )
    assert consumer.partitions_for_topic(TOPIC)
    consumer.subscribe([TOPIC], listener=Listener())

    def poll_until(condition: Callable[[], bool], expected: str) -> None:
        def polled() -> bool:
            consumer.poll(timeout_ms=50)
            return condition()

        eventually(polled, expected=expected)

    poll_until(lambda: "assigned" in calls, "an assignment")
    calls.clear()
    kafka.clock.advance(seconds=46)
    offset = kafka_python.OffsetAndMetadata(1, "", -1)
    with pytest.raises(KafkaPythonCommitFailed):
        consumer.commit({kafka_python.TopicPartition(TOPIC, 0): offset})
    poll_until(lambda: "assigned" in calls, "another assignment")
    # It joins again when it reads the metadata, whether they have changed or not.
    assert calls[:2] == ["lost", "assigned"]
    consumer.close()


def test_aiokafka_revokes_its_partitions_and_joins_again(kafka: Kafka) -> None:
    asyncio.run(_aiokafka(kafka))


async def _aiokafka(kafka: Kafka) -> None:
    calls: list[str] = []

    class Listener(aiokafka.ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: set[object]) -> None:
            calls.extend(["revoked"] * bool(revoked))

        async def on_partitions_assigned(self, assigned: set[object]) -> None:
            calls.append("assigned")

    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id="aiokafka",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        consumer.subscribe([TOPIC], listener=Listener())
        await wait_until(lambda: "assigned" in calls, expected="an assignment")
        calls.clear()
        await kafka.clock.advance_async(seconds=46)
        with pytest.raises(AiokafkaCommitFailed):
            await consumer.commit({aiokafka.TopicPartition(TOPIC, 0): 1})
        await wait_until(lambda: "assigned" in calls, expected="another assignment")
        assert calls == ["revoked", "assigned"]
    finally:
        await consumer.stop()
