"""Measure classic heartbeats, compared with a coordinator in C.

50 connections against librdkafka's mock cluster. With 16 requests in flight on each
connection, the server's own work takes longer than its system calls; bar: 1.5 times the
mock's rate. With one request in flight the bar is 0.6.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

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

GROUPS, MEMBERS = 4, 50
VERSION, ERROR_AT = 3, 8  # the newest version of the mock
BARS = {16: 1.5, 1: 0.6}


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure both servers; the frames differ only in their members."""
    quick = settings(group_initial_rebalance_delay_ms=1_000)
    groups = [f"g{number}" for number in range(GROUPS)]
    with scratch() as home:
        log = home / "log"
        with (
            running(coterie_command("--memory", *quick), log) as ours,
            running(python("peers.librdkafka_mock"), log) as mock,
        ):
            # The mock's groups take seconds to form, in which sessions on our server
            # would expire.
            to_mock = heartbeat_frames(mock.address, groups, MEMBERS, VERSION)
            to_ours = heartbeat_frames(ours.address, groups, MEMBERS, VERSION)
            for in_flight, bar in BARS.items():
                shape = LoadShape(
                    connections=50, in_flight=in_flight, error_at=ERROR_AT
                )
                pairs = alternate(
                    rounds,
                    partial(load, ours.address, to_ours, shape, rounds),
                    partial(load, mock.address, to_mock, shape, rounds),
                )
                yield Figure(
                    name=f"heartbeats, {in_flight} in flight: relative to the mock",
                    value=median_ratio([(a.rate, b.rate) for a, b in pairs]),
                    bar=bar,
                    detail=f"{pairs[-1][0]} | mock {pairs[-1][1].rate:,.0f}/s",
                )
