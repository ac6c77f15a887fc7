"""Measure the rebalance after 900 partitions are added to a topic.

Ten confluent-kafka consumers share 100 partitions; then the topic is extended to 1,000.
Measured is the time until every partition has an owner, for the classic protocol and
KIP-848. No bar: published results are 103 s and 5 s.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewPartitions

from benchmarks.harness.figures import Figure, Rounds
from benchmarks.harness.processes import coterie_command, running, scratch
from benchmarks.peers.connection import create_topic

CONSUMERS, BEFORE, AFTER, TOPIC = 10, 100, 1_000, "t"
DEADLINE_S = 180.0
POLL_S = 0.01
CONFIGS = {
    "classic": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {},
}


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure one rebalance of each protocol."""
    del rounds
    for protocol in CONFIGS:
        with (
            scratch() as home,
            running(coterie_command("--memory"), home / "log") as server,
        ):
            create_topic(server.address, TOPIC, BEFORE)
            with _consumers(server.address, protocol) as members:
                _wait_for(members, BEFORE)
                admin = AdminClient({"bootstrap.servers": server.address})
                added = admin.create_partitions([NewPartitions(TOPIC, AFTER)])
                added[TOPIC].result()
                seconds = _wait_for(members, AFTER)
        yield Figure(
            name=f"{AFTER - BEFORE} partitions added, {CONSUMERS} {protocol} members",
            value=seconds,
            unit="s",
            detail="until every partition has an owner; metadata refresh every 1 s",
        )


@contextlib.contextmanager
def _consumers(address: str, protocol: str) -> Iterator[list[Consumer]]:
    members = [
        Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "g",
                "group.protocol": protocol,
                "topic.metadata.refresh.interval.ms": 1_000,
                "enable.auto.commit": False,
                **CONFIGS[protocol],
            }
        )
        for _ in range(CONSUMERS)
    ]
    try:
        for consumer in members:
            consumer.subscribe([TOPIC])
        yield members
    finally:
        for consumer in members:
            consumer.close()


def _wait_for(members: list[Consumer], partitions: int) -> float:
    began = time.perf_counter()
    while time.perf_counter() < began + DEADLINE_S:
        for consumer in members:
            consumer.poll(POLL_S)
        owned = [each.partition for one in members for each in one.assignment()]
        if len(owned) == len(set(owned)) == partitions:
            return time.perf_counter() - began
    raise RuntimeError(f"{len(set(owned))} of {partitions} partitions have an owner")
