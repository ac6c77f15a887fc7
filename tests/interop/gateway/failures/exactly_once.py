"""Read-process-write in transactions while nodes are killed.

Workers copy records of one topic to another, with the offsets in the transaction. In
the end the other topic has each record exactly once.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from threading import Event, Thread
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.topics import NewTopic
from tests.interop.gateway.nodes import SESSION_MS

from .copiers import Copier, Work, copier_starter
from .scenarios import WAIT_S, Findings, World

_GROUPS: Final = {
    "classic": ("classic", "classic"),
    "consumer": ("consumer", "consumer"),
    "mixed": ("classic", "consumer"),
}
"""The protocols of the workers of each group. Every group copies all records."""
_PARTITIONS: Final = 6
_PAUSE_S: Final = 0.01
"""Between two records."""
_LONG_S: Final = 2.0 * SESSION_MS / 1_000
"""When a node is away for so long, the brokers it advertised have other addresses."""


async def kill_nodes_under_transactions(
    world: World, times: int, client: str = "librdkafka"
) -> Findings:
    """Kill nodes and workers while workers copy records; count what is missing or
    repeated, and workers that hang.

    Every second node starts again at once, the others after their session.
    """
    findings = Findings(f"killed, transactions of {client}")
    bootstrap = world.gateway.bootstrap
    source = f"numbers-{client}"
    works = [
        Work(
            bootstrap,
            f"{client}-{group}-{index}",
            f"{client}-{group}",
            protocol,
            source,
            f"copies-{client}-{group}",
        )
        for group, protocols in _GROUPS.items()
        for index, protocol in enumerate(protocols)
    ]
    targets = {work.target for work in works}
    async with AdminClient(world.cluster.bootstrap) as admin:
        topics = [NewTopic(each, _PARTITIONS) for each in (source, *targets)]
        created = await admin.create_topics(topics)
        assert not created.errors, created.errors
    start = await asyncio.to_thread(
        copier_starter, client, world.cluster.jars, world.directory / client
    )
    copiers = await asyncio.to_thread(lambda: list(map(start, works)))
    try:
        writer = _Writer(bootstrap, source)
        try:
            await _kill_in_turn(world, findings, copiers, times)
        finally:
            written = await asyncio.to_thread(writer.stop)
        copies = {
            target: await asyncio.to_thread(_read_until, bootstrap, target, written)
            for target in targets
        }
    finally:
        await asyncio.gather(*(asyncio.to_thread(each.stop) for each in copiers))
    for copier in copiers:
        findings.hung += copier.is_hung
        findings.failures += copier.failures
    _compare(world.say, findings, written, copies)
    _report(world.say, copiers)
    return await world.finish(findings)


async def _kill_in_turn(
    world: World, findings: Findings, copiers: list[Copier], times: int
) -> None:
    """Kill nodes one after the other, and between two of them a worker."""
    for turn in range(times):
        index = turn % len(world.gateway.nodes)
        await asyncio.to_thread(world.gateway.nodes[index].kill)
        if turn % 2:
            await asyncio.sleep(_LONG_S)
        await asyncio.to_thread(world.gateway.restart, index)
        await world.ready()
        copier = world.random.choice(copiers)
        await asyncio.to_thread(copier.kill)
        findings.count += 1
        world.say(f"killed node {index}, then {copier.name}")


def _compare(
    say: Callable[[str], None],
    findings: Findings,
    written: int,
    copies: dict[str, Counter[int]],
) -> None:
    for target, copied in copies.items():
        missing = written - len(copied)
        repeated = sum(copied.values()) - len(copied)
        counts = f"{target}: {written} records, {missing} missing, {repeated} twice"
        say(counts)
        findings.lost += missing
        findings.repeated += repeated
        if missing or repeated:
            findings.failures.append(counts)


def _report(say: Callable[[str], None], copiers: list[Copier]) -> None:
    aborted = sum(each.aborted for each in copiers)
    again = sum(each.producers - 1 for each in copiers)
    say(f"{aborted} transactions aborted, {again} producers created again")
    for copier in copiers:
        for error in copier.errors:
            say(error)


class _Writer:
    """A thread that writes the numbers from 0 until it is stopped."""

    def __init__(self, bootstrap: str, source: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self._source = source
        self._written = 0
        self._stopped = Event()
        self._thread = Thread(target=self._write, name="writer")
        self._thread.start()

    def stop(self) -> int:
        """Return how many numbers were written."""
        self._stopped.set()
        self._thread.join()
        left = self._producer.flush(WAIT_S)
        assert left == 0, f"{left} records were not acknowledged"
        return self._written

    def _write(self) -> None:
        while not self._stopped.wait(_PAUSE_S):
            value = str(self._written)
            partition = self._written % _PARTITIONS
            self._producer.produce(self._source, value, partition=partition)
            self._producer.poll(0)
            self._written += 1


def _read_until(bootstrap: str, target: str, count: int) -> Counter[int]:
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
    consumer.assign([TopicPartition(target, each, 0) for each in range(_PARTITIONS)])
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
