"""Compare KIP-848 heartbeats in small and large groups, with few and many topics.

A heartbeat of a stable member in a group of 1 member against one of 10,000, and with 1
topic in the cluster against 2,000. Bar: 1.3 times the time on the small server.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.harness.figures import Bar, Figure, Rounds, alternate, median_ratio
from benchmarks.harness.load import LoadShape, load
from benchmarks.harness.processes import coterie_command, running, scratch, settings
from benchmarks.peers.connection import create_topic, frame
from benchmarks.peers.consumer_groups import ERROR_AT, VERSION, joined

MANY_MEMBERS, MANY_TOPICS = 10_000, 2_000
CONNECTIONS = 10
SESSION_MS = 1_800_000
BAR = 1.3


@contextlib.contextmanager
def scenario(
    folder: Path, *, topics: int, group_size: int
) -> Iterator[tuple[str, bytes]]:
    """Start a server; yield its address and the heartbeat of one of its members."""
    folder.mkdir()
    long_lived = settings(
        group_consumer_session_timeout_ms=SESSION_MS,
        group_consumer_max_session_timeout_ms=SESSION_MS,
    )
    with running(coterie_command("--memory", *long_lived), folder / "log") as server:
        for number in range(topics):
            create_topic(server.address, f"t{number}", 1)
        with joined(server.address, ["g"], group_size, "t0") as members:
            yield server.address, frame(members[0].heartbeat(), VERSION)


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Run three servers at once; in each compared pair one number differs."""
    with scratch() as home, contextlib.ExitStack() as stack:

        def make(name: str, topics: int, members: int) -> tuple[str, bytes]:
            context = scenario(home / name, topics=topics, group_size=members)
            return stack.enter_context(context)

        small = make("small", 1, 1)
        large = {
            f"{MANY_TOPICS:,} topics of 1": make("topics", MANY_TOPICS, 1),
            f"{MANY_MEMBERS:,} members of 1": make("members", 1, MANY_MEMBERS),
        }
        shape = LoadShape(connections=CONNECTIONS, error_at=ERROR_AT)
        for what, (address, heartbeat) in large.items():
            pairs = alternate(
                rounds,
                partial(load, small[0], [small[1]], shape, rounds),
                partial(load, address, [heartbeat], shape, rounds),
            )
            yield Figure(
                name=f"KIP-848 heartbeat: time with {what}",
                value=median_ratio([(few.rate, many.rate) for few, many in pairs]),
                bar=BAR,
                side=Bar.AT_MOST,
                detail=f"{pairs[-1][0].rate:,.0f}/s | {pairs[-1][1].rate:,.0f}/s",
            )
