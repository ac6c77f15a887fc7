"""Racks of nodes in metadata, and the rack-aware assignor."""

from __future__ import annotations

import asyncio

import pytest

from coterie.broker.log.memory import MemoryLog
from coterie.broker.server.assembly import Assembly
from coterie.errors import SettingError
from coterie.settings import Settings
from coterie.wire import messages as m
from tests.broker.server.apis.in_process_server import InProcessServer

RACKS = ("north", "south")
SETTINGS = Settings(
    broker_rack=RACKS,
    group_consumer_assignors=("rack", "uniform"),
    group_consumer_assignment_interval_ms=0,
)


def join(server: InProcessServer, member_id: str, rack_id: str) -> None:
    request = m.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        rack_id=rack_id,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    answer = server.call(request, 1, server.broker.shard_of("g") % len(RACKS))
    assert answer.error_code == 0, answer


def test_metadata_has_the_racks_of_nodes() -> None:
    with InProcessServer(node_count=2, settings=SETTINGS) as server:
        metadata = server.call(m.MetadataRequest(topics=[]), 12)
        cluster = server.call(m.DescribeClusterRequest(), 1)
    assert tuple(each.rack for each in metadata.brokers) == RACKS
    assert tuple(each.rack for each in cluster.brokers) == RACKS


def test_the_rack_assignor_serves_members_in_their_own_rack() -> None:
    with InProcessServer(node_count=2, settings=SETTINGS) as server:
        join(server, "s", "south")
        join(server, "n", "north")
        state = server.broker.runtime.shards[server.broker.shard_of("g")].shard.state
        targets = state.consumer_groups["g"].targets
    # Topic t has 4 partitions of one replica: even ones are on the first node.
    assert [*targets["n"].values()] == [{0, 2}]
    assert [*targets["s"].values()] == [{1, 3}]


def test_the_number_of_racks_must_match_the_number_of_nodes() -> None:
    async def start() -> None:
        Assembly(SETTINGS, MemoryLog(), node_count=3)

    with pytest.raises(SettingError, match="2 racks for 3 nodes"):
        asyncio.run(start())
