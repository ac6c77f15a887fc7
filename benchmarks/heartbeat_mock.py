"""How fast are classic heartbeats beside a coordinator in C?

50 connections with 16 requests in flight on each, so that the server's own work counts
and not its system calls, against librdkafka's mock cluster. Bar: 1.5 times its rate.
With one in flight it is 0.6 that was asked of a first release.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from benchmarks.classic import heartbeats
from benchmarks.figures import Figure, Rounds, alternate, median_ratio
from benchmarks.generator import Shape, load
from benchmarks.processes import coterie_command, python, running, scratch, settings

GROUPS, MEMBERS = 4, 50
VERSION, ERROR_AT = 3, 8  # the newest that the mock knows
BARS = {16: 1.5, 1: 0.6}


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Each server has members of its own; the frames differ in nothing else."""
    quick = settings(group_initial_rebalance_delay_ms=1_000)
    groups = [f"g{number}" for number in range(GROUPS)]
    with scratch() as home:
        log = home / "log"
        with (
            running(coterie_command("--memory", *quick), log) as ours,
            running(python("mock"), log) as mock,
        ):
            # The mock's groups take seconds to form: ours are joined last.
            to_mock = heartbeats(mock.address, groups, MEMBERS, VERSION)
            to_ours = heartbeats(ours.address, groups, MEMBERS, VERSION)
            for in_flight, bar in BARS.items():
                shape = Shape(connections=50, in_flight=in_flight, error_at=ERROR_AT)
                pairs = alternate(
                    rounds,
                    partial(load, ours.address, to_ours, shape, rounds),
                    partial(load, mock.address, to_mock, shape, rounds),
                )
                yield Figure(
                    name=f"heartbeats, {in_flight} in flight, of librdkafka's mock",
                    value=median_ratio([(a.rate, b.rate) for a, b in pairs]),
                    bar=bar,
                    detail=f"{pairs[-1][0]} | mock {pairs[-1][1].rate:,.0f}/s",
                )
