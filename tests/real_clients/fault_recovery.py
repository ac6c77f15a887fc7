"""The time that clients with their defaults need to recover from each fault.

A service reads a topic and commits each record. The topic is idle but for one record
that the fault gets hold of, and one that is written once the fault hit. The service has
recovered when the second record is committed. Errors of commits are noted, and the
service goes on, as one does that must not lose a record.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import aiokafka
import kafka as kafka_python
from confluent_kafka import Consumer, KafkaException

from coterie.testing import Kafka
from coterie.testing.faults.fault import Fault
from coterie.types import TopicPartition
from tests.support.waiting import eventually

TOPIC: Final = "orders"
GROUP: Final = "billing"
PAUSE_S: Final = 1.0
"""How long a server is paused; the time to recover begins when it goes on."""
DELAY_MS: Final = 200
SHORT_MS: Final = 1_000
SHORT_HEARTBEATS: Final = {
    "group.consumer.min.heartbeat.interval.ms": SHORT_MS,
    "group.consumer.heartbeat.interval.ms": SHORT_MS,
}


class Service:
    """A consumer in a thread of its own; `errors` has the names of its errors."""

    time_out = ""
    """The setting of the time-out of requests."""

    def __init__(self, bootstrap: str, settings: Mapping[str, int]) -> None:
        self.bootstrap = bootstrap
        self.settings = settings
        self.errors: list[str] = []
        self.stopped = threading.Event()
        self._thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self) -> Service:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self._thread.join()

    def run(self) -> None:
        """Read and commit until `stopped` is set."""
        raise NotImplementedError

    def note(self, error: str) -> None:
        """Add an error, unless it is the same as the one before."""
        if self.errors[-1:] != [error]:
            self.errors.append(error)


class Confluent(Service):
    """confluent-kafka in a classic group."""

    time_out = "socket.timeout.ms"
    protocol = "classic"

    def run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": GROUP,
                "group.protocol": self.protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
                **self.settings,
            }
        )
        consumer.subscribe([TOPIC])
        while not self.stopped.is_set():
            message = consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                self.note(error.name())
                continue
            try:
                consumer.commit(message=message, asynchronous=False)
            except KafkaException as raised:
                self.note(raised.args[0].name())
        consumer.close()


class ConfluentNext(Confluent):
    """confluent-kafka in a group of the consumer protocol (KIP-848)."""

    protocol = "consumer"


class KafkaPython(Service):
    """kafka-python."""

    time_out = "request_timeout_ms"

    def run(self) -> None:
        consumer = kafka_python.KafkaConsumer(
            TOPIC,
            bootstrap_servers=self.bootstrap,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **self.settings,
        )
        while not self.stopped.is_set():
            try:
                if consumer.poll(timeout_ms=1_000):
                    consumer.commit()
            except kafka_python.errors.KafkaError as error:
                self.note(type(error).__name__)
        consumer.close(autocommit=False, timeout_ms=1_000)


class Aiokafka(Service):
    """aiokafka."""

    time_out = "request_timeout_ms"

    def run(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=self.bootstrap,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **self.settings,
        )
        await consumer.start()
        while not self.stopped.is_set():
            try:
                if await consumer.getmany(timeout_ms=100):
                    await consumer.commit()
            except aiokafka.errors.KafkaError as error:
                self.note(type(error).__name__)
        with contextlib.suppress(aiokafka.errors.KafkaError):
            await consumer.stop()


CLIENTS: Final[dict[str, type[Service]]] = {
    "confluent-kafka": Confluent,
    "confluent-kafka, consumer protocol": ConfluentNext,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}


class Scenario(NamedTuple):
    """A fault that `start` begins, with one node or more.

    The time to recover begins at its hit; `is_at_once` says that it begins at once.
    `is_written` says that `start` has written the records.
    """

    start: Callable[[Kafka], Fault | None]
    is_at_once: bool = False
    nodes: int = 1
    is_written: bool = False


def _fence(kafka: Kafka) -> Fault:
    (member,) = kafka.groups[GROUP].members
    return kafka.faults.fence(GROUP, member.member_id)


def _disk_full(kafka: Kafka) -> Fault:
    """Let the disk be full for a commit that was received before."""
    with kafka.faults.delay("OffsetCommit", DELAY_MS, times=1) as delay:
        kafka.produce(TOPIC, [b"b", b"c"])
        delay.wait_for_hit()
        return kafka.faults.disk_full(times=1)


def _pause(kafka: Kafka) -> None:
    kafka.pause()
    time.sleep(PAUSE_S)
    kafka.resume()


def _kill(kafka: Kafka) -> None:
    kafka.kill()
    kafka.restart()


def _reply(api: str, error: str, **more: Any) -> Scenario:
    return Scenario(lambda kafka: kafka.faults.reply(api, error, times=1, **more))


FAULTS: Final[dict[str, Scenario]] = {
    'reply("OffsetCommit", "NOT_COORDINATOR")': _reply(
        "OffsetCommit", "NOT_COORDINATOR"
    ),
    'reply("OffsetCommit", "REQUEST_TIMED_OUT")': _reply(
        "OffsetCommit", "REQUEST_TIMED_OUT"
    ),
    'reply("Fetch", "OFFSET_OUT_OF_RANGE")': _reply("Fetch", "OFFSET_OUT_OF_RANGE"),
    'reply("Fetch", "NOT_LEADER_OR_FOLLOWER")': _reply(
        "Fetch", "NOT_LEADER_OR_FOLLOWER"
    ),
    'delay("OffsetCommit", 200)': Scenario(
        lambda kafka: kafka.faults.delay("OffsetCommit", DELAY_MS, times=1)
    ),
    'drop_response("OffsetCommit")': Scenario(
        lambda kafka: kafka.faults.drop_response("OffsetCommit", times=1)
    ),
    'drop_response("OffsetCommit", close=False)': Scenario(
        lambda kafka: kafka.faults.drop_response("OffsetCommit", close=False, times=1)
    ),
    'drop_response("Fetch")': Scenario(
        lambda kafka: kafka.faults.drop_response("Fetch", times=1)
    ),
    'lose_request("OffsetCommit")': Scenario(
        lambda kafka: kafka.faults.lose_request("OffsetCommit", times=1)
    ),
    'lose_request("OffsetCommit", close=False)': Scenario(
        lambda kafka: kafka.faults.lose_request("OffsetCommit", close=False, times=1)
    ),
    "drop_connections()": Scenario(
        lambda kafka: kafka.faults.drop_connections(times=1), is_at_once=True
    ),
    'throttle("OffsetCommit", 200)': Scenario(
        lambda kafka: kafka.faults.throttle("OffsetCommit", DELAY_MS, times=1)
    ),
    "loading(group=...)": Scenario(
        lambda kafka: kafka.faults.loading(group=GROUP, times=1)
    ),
    "coordinator_moves(group)": Scenario(
        lambda kafka: kafka.faults.coordinator_moves(GROUP), is_at_once=True
    ),
    "coordinator_moves(group), three nodes": Scenario(
        lambda kafka: kafka.faults.coordinator_moves(GROUP), is_at_once=True, nodes=3
    ),
    "fence(group, member), dynamic": Scenario(_fence, is_at_once=True),
    "disk_full(times=1)": Scenario(_disk_full, is_written=True),
    "pause(), resume()": Scenario(_pause, is_at_once=True),
    "kill(), restart()": Scenario(_kill, is_at_once=True),
}


NEEDS_SHORT: Final = {
    (fault, client)
    for fault in FAULTS
    for client in CLIENTS
    if "close=False" in fault or ("fence" in fault and "consumer protocol" in client)
}
"""Faults that a client notices by a time-out or its next heartbeat only, which its
defaults put off for 5 s and more."""


class Recovery(NamedTuple):
    """The time to recover, and the errors that the client reported."""

    seconds: float
    errors: tuple[str, ...]


@contextmanager
def running(
    scenario: Scenario, client: str, *, is_short: bool
) -> Iterator[tuple[Kafka, Service]]:
    """Start a server and a service that has committed its first record."""
    cls = CLIENTS[client]
    server = SHORT_HEARTBEATS if is_short else None
    with Kafka(nodes=scenario.nodes, settings=server) as kafka:
        kafka.topic(TOPIC)
        kafka.produce(TOPIC, [b"a"])
        settings = {cls.time_out: SHORT_MS} if is_short else {}
        with cls(kafka.bootstrap_servers, settings) as service:
            wait_for_commit(kafka, 1)
            yield kafka, service


def measure(fault: str, client: str, *, is_short: bool = False) -> Recovery:
    """Return the time from a fault's hit until the client has recovered.

    The client has its defaults; with `is_short` its requests time out after `SHORT_MS`
    and its heartbeats are as frequent.
    """
    scenario = FAULTS[fault]
    with running(scenario, client, is_short=is_short) as (kafka, service):
        active = scenario.start(kafka)
        began_s = time.monotonic()
        if not scenario.is_written:
            kafka.produce(TOPIC, [b"b"])
        if active is not None and not scenario.is_at_once:
            active.wait_for_hit()
            began_s = time.monotonic()
        if not scenario.is_written:
            kafka.produce(TOPIC, [b"c"])
        wait_for_commit(kafka, 3)
        return Recovery(time.monotonic() - began_s, tuple(service.errors))


def wait_for_commit(kafka: Kafka, offset: int) -> None:
    """Wait until the group's offset is at least that."""
    group = kafka.groups[GROUP]
    eventually(
        lambda: group.offsets.get(TopicPartition(TOPIC, 0), 0) >= offset,
        expected=f"a commit of {offset}",
    )
