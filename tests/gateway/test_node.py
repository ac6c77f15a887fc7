"""Two nodes of a gateway, in front of an embedded server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from coterie.broker.runtime.shards import Phase
from coterie.broker.server.config import make_settings
from coterie.client import ConfigResource, ConfigResourceType
from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.group_member import GroupMember
from coterie.gateway.node import Gateway
from coterie.gateway.options import AuthorizerKind, GatewayOptions
from coterie.testing import Kafka
from coterie.types import TopicPartition
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.asyncio]

SHARDS = 4
PARTITION = TopicPartition("orders", 0)
GROUPS = [f"g{at}" for at in range(8)]


@pytest.fixture(scope="module")
def upstream() -> Iterator[Kafka]:
    with Kafka() as kafka:
        kafka.topic(PARTITION.topic, partitions=4)
        yield kafka


def make_plan(upstream: Kafka, gateway: str, node: str) -> GatewayOptions:
    return GatewayOptions(
        settings=make_settings({"group.initial.rebalance.delay.ms": 0}),
        bootstrap=upstream.bootstrap_servers,
        name=gateway,
        node=node,
        host="127.0.0.1",
        port=0,
        advertised_host="127.0.0.1",
        partition_count=SHARDS,
        replication_factor=1,
        authorizer=AuthorizerKind.NONE,
    )


@asynccontextmanager
async def running(
    upstream: Kafka, gateway: str, *names: str
) -> AsyncIterator[list[Gateway]]:
    nodes = [Gateway(make_plan(upstream, gateway, name)) for name in names]
    started: list[Gateway] = []
    try:
        for node in nodes:
            await node.start()
            started.append(node)
        yield nodes
    finally:
        for node in started:
            await node.stop()


async def until(condition: Callable[[], bool], expected: str) -> None:
    await asyncio.to_thread(eventually, condition, expected=expected)


def active(node: Gateway) -> set[int]:
    return {
        each.index for each in node.broker.runtime.shards if each.phase is Phase.ACTIVE
    }


async def share(*nodes: Gateway) -> None:
    """Wait until each of the nodes serves its part of the shards."""
    part = SHARDS // len(nodes)
    await until(
        lambda: all(len(active(node)) == part for node in nodes), "an even share"
    )


async def commit_all(bootstrap: str, offset: int) -> None:
    async with AdminClient(bootstrap) as admin:
        for group in GROUPS:
            offsets = {PARTITION: CommittedOffset(offset)}
            (await admin.group_offsets.alter(group, offsets)).all()


async def committed(bootstrap: str) -> set[int]:
    async with AdminClient(bootstrap) as admin:
        listed = await admin.group_offsets.fetch_many(dict.fromkeys(GROUPS))
        found = [listed.one(group).all()[PARTITION] for group in GROUPS]
        return {each.offset for each in found if each is not None}


async def test_a_node_that_stops_hands_its_groups_over(upstream: Kafka) -> None:
    async with running(upstream, "handover", "a", "b") as (a, b):
        await share(a, b)
        assert active(a) | active(b) == set(range(SHARDS))
        await commit_all(b.address, 7)
        assert await committed(a.address) == {7}
        await a.stop()
        await until(lambda: len(active(b)) == SHARDS, "all shards on one node")
        assert await committed(b.address) == {7}
        await commit_all(b.address, 8)
        assert await committed(b.address) == {8}


async def test_a_node_that_joins_takes_shards_with_their_groups(
    upstream: Kafka,
) -> None:
    async with running(upstream, "joining", "a") as (a,):
        await share(a)
        await commit_all(a.address, 7)
        async with running(upstream, "joining", "b") as (b,):
            await share(a, b)
            assert not active(a) & active(b)
            assert await committed(b.address) == {7}


async def test_configurations_of_groups_that_are_set_through_the_gateway_apply(
    upstream: Kafka,
) -> None:
    heartbeat = "consumer.heartbeat.interval.ms"
    resource = ConfigResource(ConfigResourceType.GROUP, "configured")
    async with running(upstream, "configs", "a") as (node,):
        configs = node.broker.catalog.group_configs
        async with AdminClient(node.address) as admin:
            (await admin.configs.alter({resource: {heartbeat: "7000"}})).all()
            await until(
                lambda: configs.heartbeat_interval_ms("configured") == 7_000,
                "the interval of the group",
            )
            (await admin.configs.alter({resource: {heartbeat: None}})).all()
            await until(
                lambda: configs.heartbeat_interval_ms("configured") == 5_000,
                "the default interval",
            )


async def test_a_member_stays_while_its_coordinator_moves(upstream: Kafka) -> None:
    revoked: list[object] = []

    async def stopping(partitions: object) -> None:
        revoked.append(partitions)

    async with running(upstream, "moving", "a", "b") as (a, b):
        await share(a, b)
        async with GroupMember(
            f"{a.address},{b.address}",
            group_id="g",
            topics=[PARTITION.topic],
            on_revoked=stopping,
            on_lost=stopping,
        ) as member:
            await member.commit({PARTITION: 5})
            epoch = member.member_epoch
            owner = a if a.broker.runtime.shard_of("g") in active(a) else b
            await owner.stop()
            await member.commit({PARTITION: 6})
            assert member.member_epoch == epoch
            assert not revoked
