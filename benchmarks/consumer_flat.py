"""Does a KIP-848 heartbeat cost more in a large group, or beside many topics?

A steady heartbeat in a group of 1 member against one of 10,000, and with 1 topic in its
cluster against 2,000. Bar: 1.3 times the time of the small world.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.consumer import ERROR_AT, VERSION, joined
from benchmarks.figures import Bar, Figure, Rounds, alternate, median_ratio
from benchmarks.generator import Shape, load
from benchmarks.peer import create_topic, frame
from benchmarks.processes import coterie_command, running, scratch, settings

MANY_MEMBERS, MANY_TOPICS = 10_000, 2_000
CONNECTIONS = 10
SESSION_MS = 1_800_000
BAR = 1.3


@contextlib.contextmanager
def world(folder: Path, *, topics: int, members: int) -> Iterator[tuple[str, bytes]]:
    """A server's address, and the frame of a heartbeat of one of its members."""
    folder.mkdir()
    long_lived = settings(
        group_consumer_session_timeout_ms=SESSION_MS,
        group_consumer_max_session_timeout_ms=SESSION_MS,
    )
    with running(coterie_command("--memory", *long_lived), folder / "log") as server:
        for number in range(topics):
            create_topic(server.address, f"t{number}", 1)
        with joined(server.address, ["g"], members, "t0") as everybody:
            yield server.address, frame(everybody[0].heartbeat(), VERSION)


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Three worlds at once; each pair of them differs in one number."""
    with scratch() as home, contextlib.ExitStack() as stack:

        def make(name: str, topics: int, members: int) -> tuple[str, bytes]:
            made = world(home / name, topics=topics, members=members)
            return stack.enter_context(made)

        small = make("small", 1, 1)
        large = {
            f"{MANY_TOPICS:,} topics of 1": make("topics", MANY_TOPICS, 1),
            f"{MANY_MEMBERS:,} members of 1": make("members", 1, MANY_MEMBERS),
        }
        shape = Shape(connections=CONNECTIONS, error_at=ERROR_AT)
        for what, (address, beat) in large.items():
            pairs = alternate(
                rounds,
                partial(load, small[0], [small[1]], shape, rounds),
                partial(load, address, [beat], shape, rounds),
            )
            yield Figure(
                name=f"KIP-848 heartbeat: time with {what}",
                value=median_ratio([(few.rate, many.rate) for few, many in pairs]),
                bar=BAR,
                side=Bar.AT_MOST,
                detail=f"{pairs[-1][0].rate:,.0f}/s | {pairs[-1][1].rate:,.0f}/s",
            )
