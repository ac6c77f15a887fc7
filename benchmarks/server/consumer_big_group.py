"""Measure the cost of forming a KIP-848 group of 3,000 members and 3,000 partitions.

Each member joins after the response to the previous one; then all send heartbeats until
they have reached the last target assignment. Bar: 5 s of the server's CPU.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from benchmarks.harness.figures import Bar, Figure, Rounds
from benchmarks.harness.processes import coterie_command, running, scratch
from benchmarks.peers.connection import create_topic
from benchmarks.peers.consumer_groups import joined

MEMBERS, PARTITIONS, TOPIC = 3_000, 3_000, "t"
BAR_S = 5.0


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure the CPU time of the server for one large group."""
    del rounds
    with (
        scratch() as home,
        running(coterie_command("--memory"), home / "log") as server,
    ):
        create_topic(server.address, TOPIC, PARTITIONS)
        before_s, began = server.cpu_s, time.perf_counter()
        with joined(server.address, ["big"], MEMBERS, TOPIC) as members:
            took_s = time.perf_counter() - began
            spent_s = server.cpu_s - before_s
            owned = sum(
                len(topic.partitions)
                for member in members
                for topic in member.owned or ()
            )
    if owned != PARTITIONS:
        raise RuntimeError(f"{owned} of {PARTITIONS} partitions have an owner")
    yield Figure(
        name=f"CPU to form a KIP-848 group of {MEMBERS:,}",
        value=spent_s,
        unit="s",
        bar=BAR_S,
        side=Bar.AT_MOST,
        detail=f"{took_s:.1f} s of wall-clock time, one connection",
    )
