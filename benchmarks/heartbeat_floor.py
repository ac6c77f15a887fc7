"""What does a classic heartbeat cost beside a server that does nothing?

50 connections, one request in flight on each, 200 living members, against a bare
asyncio.Protocol that parses the header and answers a constant. Bar: 0.65 of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.classic import heartbeats
from benchmarks.figures import Figure, Rounds, alternate, median_ratio
from benchmarks.generator import Shape, load
from benchmarks.processes import coterie_command, python, running, scratch, settings

GROUPS, MEMBERS, VERSION = 4, 50, 4
SHAPE = Shape(connections=50, error_at=9)
BAR = 0.65


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Both servers live through all rounds; the load keeps the members alive."""
    quick = settings(group_initial_rebalance_delay_ms=1_000)
    with scratch() as home:
        log = home / "log"
        with (
            running(coterie_command("--memory", *quick), log) as ours,
            running(python("floor"), log) as floor,
        ):
            groups = [f"g{number}" for number in range(GROUPS)]
            frames = heartbeats(ours.address, groups, MEMBERS, VERSION)
            pairs = alternate(
                rounds,
                lambda: load(ours.address, frames, SHAPE, rounds),
                lambda: load(floor.address, frames, SHAPE, rounds),
            )
    yield Figure(
        name="heartbeats, of a bare asyncio server",
        value=median_ratio([(one.rate, other.rate) for one, other in pairs]),
        bar=BAR,
        detail=f"{pairs[-1][0]} | floor {pairs[-1][1].rate:,.0f}/s",
    )
