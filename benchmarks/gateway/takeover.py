"""How long are groups without a coordinator when a node with all shards dies?

A node commits offsets in the shards of a topic on Apache Kafka and is killed; another
takes all shards over. The time until the other nodes notice the death, the session
time-out, comes before it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.gateway.data_path import on_all_cores
from benchmarks.harness.figures import Bar, Figure, Rounds
from benchmarks.harness.processes import python, running, scratch
from coterie.auth.authorizer import AllowAll
from coterie.broker.catalog.topics import NewTopic
from coterie.broker.runtime.shards import Phase
from coterie.broker.runtime.slices import Slices
from coterie.broker.runtime.system import (
    random_topic_id,
    suspended_clock,
    wall_clock,
)
from coterie.broker.server.assembly import group_server
from coterie.client.admin.admin_client import AdminClient
from coterie.client.options import ClientOptions
from coterie.gateway.counts import GatewayCounts
from coterie.gateway.log.opening import LogContext, Opening
from coterie.gateway.ownership import Ownership
from coterie.gateway.upstream.client import UpstreamClient
from coterie.gateway.upstream.topic import ShardsTopic, open_topic
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.commit import as_received, decoded
from coterie.wire.error_codes import ErrorCode

BARS_S = {
    (1_000_000, 50): 3.0,
    (100_000, 1): 3.0,
    (1_000_000, 1): 3.0,
    (5_000_000, 1): 15.0,
}
"""The most seconds for a number of offsets in a number of shards."""
PARTITIONS_A_COMMIT = 100
IN_FLIGHT = 200
LEASE_MS = 3_600_000


class Caller:
    """The client of the commits."""

    api_version = 8
    client_id = "benchmark"
    client_host = "/127.0.0.1"

    def may_describe(self, topic: str) -> bool:
        """Allow every topic."""
        return True


class ShardNode:
    """The part of a gateway node that owns shards."""

    def __init__(self, bootstrap: str, topic: ShardsTopic) -> None:
        self.topic = topic
        self.upstream = UpstreamClient(bootstrap, ClientOptions(), topic.name)
        broker = group_server(Settings(), topic.cluster_id, AllowAll())
        orders = NewTopic(name="orders", partition_count=PARTITIONS_A_COMMIT)
        entry = broker.catalog.create_topic(orders, random_topic_id())
        broker.data.stage([entry])
        self.runtime = broker.runtime
        self.runtime.start(topic.partition_count, topic.name)
        loop = asyncio.get_running_loop()
        context = LogContext(
            runtime=self.runtime,
            upstream=self.upstream,
            topic=topic,
            node="benchmark",
            transactional_id=lambda index: f"{topic.name}-{index}",
            scheduler=loop,
            steady=broker.clock,
            wall=wall_clock,
            slices=Slices(loop),
            fenced=self._fenced,
        )
        self.ownership = Ownership(
            self.runtime,
            lambda index: Opening(context, index).opened,
            clock=suspended_clock,
            scheduler=loop,
            lease_ms=LEASE_MS,
            counts=GatewayCounts(),
        )

    def _fenced(self, index: int) -> None:
        self.ownership.fenced(index)

    async def own(self) -> float:
        """Take all shards over; return the seconds until all are active."""
        await self.upstream.start()
        self.ownership.heartbeat_answered(suspended_clock())
        started = time.perf_counter()
        self.ownership.assigned(frozenset(range(self.topic.partition_count)))
        for _ in range(30_000):
            await asyncio.sleep(0.01)
            if all(each.phase is Phase.ACTIVE for each in self.runtime.shards):
                return time.perf_counter() - started
        raise TimeoutError("the shards are not taken over")

    async def commit(self, group_id: str, offset: int) -> None:
        """Commit `PARTITIONS_A_COMMIT` offsets of a group."""
        partitions = [
            m.OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=""
            )
            for index in range(PARTITIONS_A_COMMIT)
        ]
        topic = m.OffsetCommitRequestTopic(name="orders", partitions=partitions)
        request = m.OffsetCommitRequest(group_id=group_id, topics=[topic])
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        shard = self.runtime.shard_of(group_id)
        commit = as_received(request, 8)
        self.runtime.submit(shard, commit, Caller(), answered.set_result)
        response = decoded(await answered, 8)
        rows = response.topics[0].partitions
        codes = {ErrorCode.read(row.error_code).name for row in rows}
        assert codes == {"NONE"}, codes

    async def commit_all(self, group_count: int, offset: int) -> None:
        """Commit the offsets of all groups, some at a time."""
        slots = asyncio.Semaphore(IN_FLIGHT)

        async def one(at: int) -> None:
            async with slots:
                await self.commit(f"group-{at}", offset)

        await asyncio.gather(*(one(at) for at in range(group_count)))

    def offsets(self) -> int:
        """Return the number of committed offsets in all shards."""
        return sum(
            len(partition.shard.state.offsets.partitions(group_id))
            for partition in self.runtime.shards
            for group_id in list(partition.shard.state.offsets.stored)
        )

    async def stop(self) -> None:
        """End as kill -9 does: nothing is written."""
        self.ownership.lost()
        await self.upstream.close()


async def _take_over(bootstrap: str, offsets: int, shards: int) -> float:
    """Return the seconds of a take-over."""
    async with AdminClient(bootstrap) as admin:
        name = f"__coterie_takeover_{offsets}_{shards}"
        topic = await open_topic(admin, name, partition_count=shards)
        first = ShardNode(bootstrap, topic)
        await first.own()
        await first.commit_all(offsets // PARTITIONS_A_COMMIT, 1)
        await first.stop()
        second = ShardNode(bootstrap, topic)
        taken_s = await second.own()
        assert second.offsets() == offsets
        await second.stop()
    return taken_s


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Start a broker and take the shards over, once each."""
    del rounds
    with scratch() as home:
        kafka = on_all_cores([*python("peers.apache_kafka"), str(home / "kafka")])
        with running(kafka, home / "log") as broker:
            times = {
                case: asyncio.run(_take_over(broker.address, *case)) for case in BARS_S
            }
    for (offsets, shards), seconds in times.items():
        yield Figure(
            name=f"take over {offsets:,} offsets in {shards} shard{'s' * (shards > 1)}",
            value=seconds,
            unit="s",
            bar=BARS_S[offsets, shards],
            side=Bar.AT_MOST,
        )
