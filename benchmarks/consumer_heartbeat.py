"""What does a KIP-848 heartbeat cost beside a server that does nothing, and one in C?

50 connections, 200 living members in steady groups. One request in flight against a
bare asyncio.Protocol that parses the header and answers a constant (bar 0.65); one (bar
0.6) and 16 in flight (bar 1.5) against librdkafka's mock cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from benchmarks.consumer import ERROR_AT, heartbeats
from benchmarks.figures import Figure, Rounds, alternate, median_ratio
from benchmarks.generator import Shape, load
from benchmarks.mock import TOPIC
from benchmarks.peer import create_topic
from benchmarks.processes import coterie_command, python, running, scratch

GROUPS, MEMBERS, PARTITIONS = 4, 50, 4  # as many as the mock makes
FLOOR_BAR = 0.65
MOCK_BARS = {16: 1.5, 1: 0.6}


def measure(rounds: Rounds) -> Iterable[Figure]:
    """All servers live through all rounds; the load keeps the members alive."""
    groups = [f"g{number}" for number in range(GROUPS)]
    with scratch() as home:
        log = home / "log"
        with (
            running(coterie_command("--memory"), log) as ours,
            running(python("floor"), log) as floor,
            running(python("mock"), log) as mock,
        ):
            create_topic(ours.address, TOPIC, PARTITIONS)
            # The mock refuses what members of a larger group say while they settle.
            alone = [f"alone{number}" for number in range(GROUPS * MEMBERS)]
            to_mock = heartbeats(mock.address, alone, 1, TOPIC)
            to_ours = heartbeats(ours.address, groups, MEMBERS, TOPIC)
            shape = Shape(connections=50, error_at=ERROR_AT)
            pairs = alternate(
                rounds,
                partial(load, ours.address, to_ours, shape, rounds),
                partial(load, floor.address, to_ours, shape, rounds),
            )
            yield Figure(
                name="KIP-848 heartbeats, of a bare asyncio server",
                value=median_ratio([(one.rate, other.rate) for one, other in pairs]),
                bar=FLOOR_BAR,
                detail=f"{pairs[-1][0]} | floor {pairs[-1][1].rate:,.0f}/s",
            )
            for in_flight, bar in MOCK_BARS.items():
                shape = Shape(connections=50, in_flight=in_flight, error_at=ERROR_AT)
                pairs = alternate(
                    rounds,
                    partial(load, ours.address, to_ours, shape, rounds),
                    partial(load, mock.address, to_mock, shape, rounds),
                )
                yield Figure(
                    name=f"KIP-848 heartbeats, {in_flight} in flight, of librdkafka's "
                    "mock",
                    value=median_ratio([(a.rate, b.rate) for a, b in pairs]),
                    bar=bar,
                    detail=f"{pairs[-1][0]} | mock {pairs[-1][1].rate:,.0f}/s",
                )
