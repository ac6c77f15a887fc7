"""Measure classic heartbeats, compared with a server that sends constant responses.

50 connections with one request in flight each and 200 members of stable groups, against
a bare asyncio.Protocol that parses the header and sends a constant response. Bar: 0.9
of its rate.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.harness.figures import Figure, Rounds, alternate, median_ratio
from benchmarks.harness.load import LoadShape, load
from benchmarks.harness.processes import (
    coterie_command,
    python,
    running,
    scratch,
    settings,
)
from benchmarks.peers.classic_groups import heartbeat_frames

GROUPS, MEMBERS, VERSION = 4, 50, 4
SHAPE = LoadShape(connections=50, error_at=9)
BAR = 0.9


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure both servers; the load keeps the members' sessions alive."""
    quick = settings(group_initial_rebalance_delay_ms=1_000)
    with scratch() as home:
        log = home / "log"
        with (
            running(coterie_command("--memory", *quick), log) as ours,
            running(python("peers.asyncio_floor"), log) as floor,
        ):
            groups = [f"g{number}" for number in range(GROUPS)]
            frames = heartbeat_frames(ours.address, groups, MEMBERS, VERSION)
            pairs = alternate(
                rounds,
                lambda: load(ours.address, frames, SHAPE, rounds),
                lambda: load(floor.address, frames, SHAPE, rounds),
            )
    yield Figure(
        name="heartbeats: rate relative to a bare asyncio server",
        value=median_ratio([(one.rate, other.rate) for one, other in pairs]),
        bar=BAR,
        detail=f"{pairs[-1][0]} | floor {pairs[-1][1].rate:,.0f}/s",
    )
