"""Read-process-write in transactions while nodes and workers are killed.

Workers copy records of one topic to another, with the offsets in the transaction. After
each failure every group has to copy what was written before it, and in the end the
other topic has each record exactly once.
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
from .load import until
from .scenarios import WAIT_S, Findings, World

_GROUPS: Final = {
    "classic": ("classic", "classic"),
    "consumer": ("consumer", "consumer"),
    "mixed": ("classic", "consumer"),
}
"""The protocols of the workers of each group. Every group copies all records."""
_PARTITIONS: Final = 6
_PAUSE_S: Final = 0.02
"""Between two records."""
_LONG_S: Final = 2.0 * SESSION_MS / 1_000
"""When a node is away for so long, the brokers it advertised have other addresses."""
_COPIED_S: Final = 180.0
"""The time in which a group has to copy what was written: longer than every time-out of
the clients."""


async def kill_nodes_under_transactions(
    world: World, times: int, client: str = "librdkafka"
) -> Findings:
    """Kill nodes and workers while workers copy records; count what is missing or
    repeated, and groups and workers that hang.

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
    targets = sorted({work.target for work in works})
    async with AdminClient(world.cluster.bootstrap) as admin:
        topics = [NewTopic(each, _PARTITIONS) for each in (source, *targets)]
        created = await admin.topics.create(topics)
        assert not created.errors, created.errors
    start = await asyncio.to_thread(
        copier_starter, client, world.cluster.jars, world.directory / client
    )
    copiers = await asyncio.to_thread(lambda: list(map(start, works)))
    copies = [_Copies(world.cluster.bootstrap, target) for target in targets]
    writer = _Writer(bootstrap, source)
    try:
        await _kill_in_turn(world, findings, copiers, writer, copies, times)
    finally:
        written = await asyncio.to_thread(writer.stop)
        await _copied(findings, copies, written)
        await asyncio.gather(*(asyncio.to_thread(each.stop) for each in copiers))
        for each in copies:
            await asyncio.to_thread(each.stop)
    for copier in copiers:
        findings.hung += copier.is_hung
        findings.failures += copier.failures
    for each in copies:
        _compare(world.say, findings, written, each)
    _report(world.say, copiers)
    return await world.finish(findings)


async def _kill_in_turn(
    world: World,
    findings: Findings,
    copiers: list[Copier],
    writer: _Writer,
    copies: list[_Copies],
    times: int,
) -> None:
    """Kill nodes one after the other, and after each a worker; end early when a group
    hangs."""
    if not await _copied(findings, copies, 1):
        return
    for turn in range(times):
        index = turn % len(world.gateway.nodes)
        moment_s = time.monotonic()
        await asyncio.to_thread(world.gateway.nodes[index].kill)
        if turn % 2:
            await asyncio.sleep(_LONG_S)
        await asyncio.to_thread(world.gateway.restart, index)
        copier = world.random.choice(copiers)
        await asyncio.to_thread(copier.kill)
        await world.ready()
        findings.count += 1
        if not await _copied(findings, copies, writer.written):
            world.say(f"a group hangs after the kill of node {index}")
            return
        findings.recoveries_s.append(time.monotonic() - moment_s)
        world.say(
            f"killed node {index} and {copier.name}: {findings.recoveries_s[-1]:.1f} s"
        )


async def _copied(findings: Findings, copies: list[_Copies], count: int) -> bool:
    """Wait until every group has copied the first `count` records; count those that do
    not."""
    try:
        await until(lambda: all(each.complete >= count for each in copies), _COPIED_S)
    except TimeoutError:
        behind = [each for each in copies if each.complete < count]
        findings.hung += len(behind)
        findings.failures += [
            f"{each.target} has {each.complete} of {count} records after {_COPIED_S} s"
            for each in behind
        ]
        return False
    return True


def _compare(
    say: Callable[[str], None], findings: Findings, written: int, copies: _Copies
) -> None:
    missing = written - len(copies.counts)
    repeated = copies.counts.total() - len(copies.counts)
    counts = f"{copies.target}: {written} records, {missing} missing, {repeated} twice"
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
        self.written = 0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self._source = source
        self._stopped = Event()
        self._thread = Thread(target=self._write, name="writer")
        self._thread.start()

    def stop(self) -> int:
        """Return how many numbers were written."""
        self._stopped.set()
        self._thread.join()
        left = self._producer.flush(WAIT_S)
        assert left == 0, f"{left} records were not acknowledged"
        return self.written

    def _write(self) -> None:
        while not self._stopped.wait(_PAUSE_S):
            value = str(self.written)
            partition = self.written % _PARTITIONS
            self._producer.produce(self._source, value, partition=partition)
            self._producer.poll(0)
            self.written += 1


class _Copies:
    """A thread that reads the committed copies of one group, directly from the
    brokers."""

    def __init__(self, bootstrap: str, target: str) -> None:
        self.target = target
        self.counts: Counter[int] = Counter()
        self.complete = 0
        """The first number of which there is no copy."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader-of-copies",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._consumer.assign(
            [TopicPartition(target, each, 0) for each in range(_PARTITIONS)]
        )
        self._stopped = Event()
        self._thread = Thread(target=self._read, name=target)
        self._thread.start()

    def stop(self) -> None:
        """Read what is left."""
        self._stopped.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        has_more = True
        while has_more or not self._stopped.is_set():
            records = self._consumer.consume(1_000, timeout=1.0)
            values = [each.value() for each in records if each.error() is None]
            self.counts.update(int(value) for value in values if value is not None)
            has_more = bool(values)
            while self.complete in self.counts:
                self.complete += 1
