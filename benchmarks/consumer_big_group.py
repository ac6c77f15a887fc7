"""What does it cost to form a KIP-848 group of 3,000 members and 3,000 partitions?

The members join as fast as they are answered, and then send heartbeats until everybody
is at the last target and owns what it says. Bar: 5 s of the server's CPU.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from benchmarks.consumer import joined
from benchmarks.figures import Bar, Figure, Rounds
from benchmarks.peer import create_topic
from benchmarks.processes import coterie_command, running, scratch

MEMBERS, PARTITIONS, TOPIC = 3_000, 3_000, "t"
BAR_S = 5.0


def measure(rounds: Rounds) -> Iterable[Figure]:
    """One group is one round; its size is the point."""
    del rounds
    with (
        scratch() as home,
        running(coterie_command("--memory"), home / "log") as server,
    ):
        create_topic(server.address, TOPIC, PARTITIONS)
        before_s, began = server.cpu_s, time.perf_counter()
        with joined(server.address, ["big"], MEMBERS, TOPIC) as everybody:
            took_s = time.perf_counter() - began
            spent_s = server.cpu_s - before_s
            owned = sum(
                len(topic.partitions)
                for member in everybody
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
        detail=f"{took_s:.1f} s by the clock, one connection",
    )
