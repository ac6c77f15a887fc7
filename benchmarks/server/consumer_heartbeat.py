"""Measure KIP-848 heartbeats, compared with a minimal server and a server in C.

50 connections send the heartbeats of 200 members of stable groups. With one request in
flight, the other side is an asyncio.Protocol that parses the header and sends a
constant response (bar 0.65). With one (bar 0.6) and 16 requests in flight (bar 1.5),
the other side is librdkafka's mock cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from benchmarks.harness.figures import Figure, Rounds, alternate, median_ratio
from benchmarks.harness.load import LoadShape, load
from benchmarks.harness.processes import coterie_command, python, running, scratch
from benchmarks.peers.connection import create_topic
from benchmarks.peers.consumer_groups import ERROR_AT, heartbeat_frames
from benchmarks.peers.librdkafka_mock import TOPIC

GROUPS, MEMBERS, PARTITIONS = 4, 50, 4  # the mock creates topics with 4 partitions
FLOOR_BAR = 0.65
MOCK_BARS = {16: 1.5, 1: 0.6}


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure all servers; the load keeps the members' sessions alive."""
    groups = [f"g{number}" for number in range(GROUPS)]
    with scratch() as home:
        log = home / "log"
        with (
            running(coterie_command("--memory"), log) as ours,
            running(python("peers.asyncio_floor"), log) as floor,
            running(python("peers.librdkafka_mock"), log) as mock,
        ):
            create_topic(ours.address, TOPIC, PARTITIONS)
            # In larger groups the mock refuses heartbeats until the group is stable.
            single = [f"single{number}" for number in range(GROUPS * MEMBERS)]
            to_mock = heartbeat_frames(mock.address, single, 1, TOPIC)
            to_ours = heartbeat_frames(ours.address, groups, MEMBERS, TOPIC)
            shape = LoadShape(connections=50, error_at=ERROR_AT)
            pairs = alternate(
                rounds,
                partial(load, ours.address, to_ours, shape, rounds),
                partial(load, floor.address, to_ours, shape, rounds),
            )
            yield Figure(
                name="KIP-848 heartbeats: rate relative to a bare asyncio server",
                value=median_ratio([(one.rate, other.rate) for one, other in pairs]),
                bar=FLOOR_BAR,
                detail=f"{pairs[-1][0]} | floor {pairs[-1][1].rate:,.0f}/s",
            )
            for in_flight, bar in MOCK_BARS.items():
                shape = LoadShape(
                    connections=50, in_flight=in_flight, error_at=ERROR_AT
                )
                pairs = alternate(
                    rounds,
                    partial(load, ours.address, to_ours, shape, rounds),
                    partial(load, mock.address, to_mock, shape, rounds),
                )
                yield Figure(
                    name=f"KIP-848 heartbeats, {in_flight} in flight, relative to the "
                    "mock",
                    value=median_ratio([(a.rate, b.rate) for a, b in pairs]),
                    bar=bar,
                    detail=f"{pairs[-1][0]} | mock {pairs[-1][1].rate:,.0f}/s",
                )
