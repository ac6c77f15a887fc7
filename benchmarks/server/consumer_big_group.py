"""Measure how the cost of forming a KIP-848 group grows with its members.

Each member joins after the response to the previous one; then all send heartbeats until
they have reached the last target assignment. There is a partition for each member.
Bars: 3 s of the server's CPU for 3,000 members, and 1.3 times as much a member for
10,000.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from benchmarks.harness.figures import Bar, Figure, Rounds
from benchmarks.harness.processes import (
    coterie_command,
    running,
    scratch,
    settings,
)
from benchmarks.peers.connection import create_topic
from benchmarks.peers.consumer_groups import joined

MEMBERS, MANY_MEMBERS, TOPIC = 3_000, 10_000, "t"
BAR_S, GROWTH_BAR = 3.0, 1.3


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure the CPU time of the server for two groups."""
    del rounds
    spent_s, took_s = formed(MEMBERS)
    yield Figure(
        name=f"CPU to form a KIP-848 group of {MEMBERS:,}",
        value=spent_s,
        unit="s",
        bar=BAR_S,
        side=Bar.AT_MOST,
        detail=f"{took_s:.1f} s of wall-clock time, one connection",
    )
    many_s, _ = formed(MANY_MEMBERS)
    yield Figure(
        name=f"CPU a member of {MANY_MEMBERS:,}, of a member of {MEMBERS:,}",
        value=many_s / MANY_MEMBERS / (spent_s / MEMBERS),
        bar=GROWTH_BAR,
        side=Bar.AT_MOST,
        detail=f"{many_s:.1f} s for {MANY_MEMBERS:,} members",
    )


def formed(size: int) -> tuple[float, float]:
    """Form a group; return the CPU time of the server and the time, in seconds."""
    roomy = settings(group_consumer_max_size=size)
    with (
        scratch() as home,
        running(coterie_command("--memory", *roomy), home / "log") as server,
    ):
        create_topic(server.address, TOPIC, size)
        before_s, began = server.cpu_s, time.perf_counter()
        with joined(server.address, ["big"], size, TOPIC) as members:
            took_s = time.perf_counter() - began
            spent_s = server.cpu_s - before_s
            owned = sum(
                len(topic.partitions)
                for member in members
                for topic in member.owned or ()
            )
    if owned != size:
        raise RuntimeError(f"{owned} of {size} partitions have an owner")
    return spent_s, took_s
