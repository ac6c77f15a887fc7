"""Read-process-write with transactions of librdkafka while nodes are killed.

Workers copy records of one topic to another, with the offsets in the transaction. In
the end the other topic has each record exactly once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from threading import Event, Thread
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.topics import NewTopic

from .scenarios import WAIT_S, Findings, World

_SOURCE: Final = "numbers"
_TARGET: Final = "copies"
_GROUP: Final = "copiers"
_PARTITIONS: Final = 6
_RECORDS_PER_KILL: Final = 1_500
_BATCH: Final = 20
_CALL_S: Final = 20.0
_IDLE_S: Final = 0.2


class Worker:
    """A consumer and a transactional producer in a thread."""

    def __init__(self, bootstrap: str, index: int, protocol: str) -> None:
        self.failures: list[str] = []
        self.aborted = 0
        self._bootstrap = bootstrap
        self._id = f"copier-{index}"
        self._protocol = protocol
        self._stopped = Event()
        self._thread = Thread(target=self._run, name=self._id)
        self._thread.start()

    def stop(self) -> None:
        """Finish the transaction in progress and end."""
        self._stopped.set()
        self._thread.join(WAIT_S)
        if self._thread.is_alive():
            self.failures.append(f"{self._id} did not end")

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._work()
            except KafkaException as error:
                # A fatal error needs another producer: the transaction was aborted by
                # the coordinator, or will be by the next InitProducerId.
                self.aborted += 1
                if not _is_expected(error):
                    self.failures.append(f"{self._id}: {error}")
                    return

    def _work(self) -> None:
        """Copy records until the worker is stopped or a producer is unusable."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": self._id,
                "transaction.timeout.ms": 20_000,
                "log_level": 0,
            }
        )
        retried(lambda: producer.init_transactions(_CALL_S))
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": _GROUP,
                "group.protocol": self._protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        consumer.subscribe([_SOURCE])
        try:
            while not self._stopped.is_set():
                records = [
                    each
                    for each in consumer.consume(_BATCH, timeout=_IDLE_S)
                    if each.error() is None
                ]
                if records:
                    self._copy(consumer, producer, records)
        finally:
            consumer.close()

    def _copy(
        self, consumer: Consumer, producer: Producer, records: list[Message]
    ) -> None:
        producer.begin_transaction()
        try:
            for record in records:
                producer.produce(_TARGET, record.value())
            offsets = consumer.position(consumer.assignment())
            retried(
                lambda: producer.send_offsets_to_transaction(
                    [each for each in offsets if each.offset >= 0],
                    consumer.consumer_group_metadata(),
                    _CALL_S,
                )
            )
            retried(lambda: producer.commit_transaction(_CALL_S))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.aborted += 1
            retried(lambda: producer.abort_transaction(_CALL_S))
            rewind(consumer)


def retried(call: object) -> None:
    """Repeat a call after retriable errors. Raises KafkaException for others."""
    deadline_s = time.monotonic() + WAIT_S
    while True:
        try:
            call()  # type: ignore[operator]
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline_s:
                raise
        else:
            return


def rewind(consumer: Consumer) -> None:
    """Seek to the committed offsets: the aborted records are read again."""
    assigned = consumer.assignment()
    while assigned:
        try:
            committed = consumer.committed(assigned, timeout=_CALL_S)
        except KafkaException:
            continue
        for each in committed:
            with contextlib.suppress(KafkaException):  # revoked meanwhile
                start = max(each.offset, 0)
                consumer.seek(TopicPartition(each.topic, each.partition, start))
        return


def _is_expected(error: KafkaException) -> bool:
    """Return whether a producer may end so: fenced, or after a fatal time-out."""
    return bool(error.args[0].fatal() or error.args[0].retriable())


async def kill_nodes_under_transactions(world: World, times: int) -> Findings:
    """Kill nodes while workers copy records; count what is missing or repeated."""
    findings = Findings("killed, transactions")
    bootstrap = world.gateway.bootstrap
    async with AdminClient(world.cluster.bootstrap) as admin:
        topics = [NewTopic(each, _PARTITIONS) for each in (_SOURCE, _TARGET)]
        created = await admin.create_topics(topics)
        assert not created.errors, created.errors
    written = 0
    workers = [
        Worker(bootstrap, index, protocol)
        for index, protocol in enumerate(("classic", "consumer", "consumer"))
    ]
    try:
        for turn in range(times):
            written = await asyncio.to_thread(_write, bootstrap, written)
            index = turn % len(world.gateway.nodes)
            await asyncio.to_thread(world.gateway.nodes[index].kill)
            written = await asyncio.to_thread(_write, bootstrap, written)
            await asyncio.to_thread(world.gateway.restart, index)
            await world.ready()
            findings.count += 1
            world.say(f"killed node {index} under transactions")
        copied = await asyncio.to_thread(_read_until, bootstrap, written)
    finally:
        for worker in workers:
            await asyncio.to_thread(worker.stop)
            findings.failures += worker.failures
    missing = written - len(copied)
    repeated = sum(copied.values()) - len(copied)
    aborted = sum(each.aborted for each in workers)
    world.say(
        f"{written} records, {missing} missing, {repeated} twice, {aborted} aborts"
    )
    findings.lost += missing + repeated
    if missing or repeated:
        findings.failures.append(f"{missing} records missing, {repeated} twice")
    return await world.finish(findings)


def _write(bootstrap: str, first: int) -> int:
    """Write records with the numbers from `first`; return the next one."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    )
    end = first + _RECORDS_PER_KILL // 2
    for number in range(first, end):
        producer.produce(_SOURCE, str(number), partition=number % _PARTITIONS)
        producer.poll(0)
    left = producer.flush(WAIT_S)
    assert left == 0, f"{left} records were not acknowledged"
    return end


def _read_until(bootstrap: str, count: int) -> Counter[int]:
    """Read the copies until `count` different ones were read, and what follows."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader-of-copies",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(_TARGET, each, 0) for each in range(_PARTITIONS)])
    copied: Counter[int] = Counter()
    deadline_s = time.monotonic() + WAIT_S
    try:
        while time.monotonic() < deadline_s:
            records = consumer.consume(1_000, timeout=1.0)
            values = [each.value() for each in records if each.error() is None]
            copied.update(int(value) for value in values if value is not None)
            if len(copied) == count and not values:
                break
    finally:
        consumer.close()
    return copied
