"""Nodes in racks: who is told, and an assignor that looks at them."""

from __future__ import annotations

import asyncio

import pytest

from coterie.errors import SettingError
from coterie.log.memory import MemoryLog
from coterie.server.assembly import Assembly
from coterie.settings import Settings
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from coterie.wire.messages.describe_cluster import DescribeClusterRequest
from coterie.wire.messages.metadata import MetadataRequest
from tests.server.apis.in_process import Office

RACKS = ("north", "south")
SETTINGS = Settings(
    broker_rack=RACKS,
    group_consumer_assignors=("rack", "uniform"),
    group_consumer_assignment_interval_ms=0,
)


def join(office: Office, member_id: str, rack_id: str) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        rack_id=rack_id,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    answer = office.call(request, 1, office.broker.shard_of("g") % len(RACKS))
    assert answer.error_code == 0, answer


def test_clients_are_told_the_racks() -> None:
    with Office(node_count=2, settings=SETTINGS) as office:
        metadata = office.call(MetadataRequest(topics=[]), 12)
        cluster = office.call(DescribeClusterRequest(), 1)
    assert tuple(each.rack for each in metadata.brokers) == RACKS
    assert tuple(each.rack for each in cluster.brokers) == RACKS


def test_the_rack_assignor_serves_members_in_their_own_rack() -> None:
    with Office(node_count=2, settings=SETTINGS) as office:
        join(office, "s", "south")
        join(office, "n", "north")
        state = office.broker.runtime.shards[office.broker.shard_of("g")].shard.state
        targets = state.consumer_groups["g"].targets
    # Topic t has 4 partitions of one replica: even ones are on the first node.
    assert [*targets["n"].values()] == [{0, 2}]
    assert [*targets["s"].values()] == [{1, 3}]


def test_every_node_has_a_rack_or_none_has() -> None:
    async def start() -> None:
        Assembly(SETTINGS, MemoryLog(), node_count=3)

    with pytest.raises(SettingError, match="2 racks, and there are 3 nodes"):
        asyncio.run(start())
