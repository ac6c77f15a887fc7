"""How long are groups without a coordinator when a node with all shards dies?

A node commits 1,000,000 offsets in 50 shards of a topic on Apache Kafka and is killed;
another takes all shards over, without local snapshots, with the ones that this load has
written, and with those and 100,000 further commits. The time until the other nodes
notice the death, the session time-out, comes before it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gateway.data_path import on_all_cores
from benchmarks.harness.figures import Bar, Figure, Rounds
from benchmarks.harness.processes import python, running, scratch
from coterie.auth.authorizer import AllowAll
from coterie.broker.catalog.topics import NewTopic
from coterie.broker.log.stores import open_log
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.shards import Phase
from coterie.broker.runtime.system import (
    random_topic_id,
    suspended_clock,
    wall_clock,
)
from coterie.client.admin.admin_client import AdminClient
from coterie.client.options import ClientOptions
from coterie.gateway.counts import GatewayCounts
from coterie.gateway.group_server import group_server
from coterie.gateway.log.local_snapshots import LocalSnapshots, store_directory
from coterie.gateway.log.opening import LogContext, ShardOpener
from coterie.gateway.log.slices import Slices
from coterie.gateway.ownership import Ownership
from coterie.gateway.upstream.client import UpstreamClient
from coterie.gateway.upstream.topic import ShardsTopic, open_topic
from coterie.settings import Settings
from coterie.wire.codec import encode
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.wire.plain_commit import read_plain_commit

OFFSETS, SHARDS = 1_000_000, 50
BARS_S = {
    "no local snapshots": 20,
    "local snapshots": 5,
    "local snapshots and 100,000 commits": 5,
}
PARTITIONS_A_COMMIT = 100
IN_FLIGHT = 200
LEASE_MS = 3_600_000
SNAPSHOT_RECORDS = 4_000
NO_LIMIT = 1 << 30


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

    def __init__(
        self, bootstrap: str, topic: ShardsTopic, directory: Path | None = None
    ) -> None:
        self.topic = topic
        self.upstream = UpstreamClient(bootstrap, ClientOptions(), topic.name)
        broker = group_server(Settings(), topic.cluster_id, AllowAll())
        orders = NewTopic(name="orders", partition_count=PARTITIONS_A_COMMIT)
        entry = broker.catalog.create_topic(orders, random_topic_id())
        broker.data.stage([entry])
        self.runtime = broker.runtime
        self.runtime.start(topic.partition_count, topic.name)
        loop = asyncio.get_running_loop()
        self.snapshots: LocalSnapshots | None = None
        if directory is not None:
            log = open_log(store_directory(directory, topic))
            flusher = Flusher(log, loop)
            self.snapshots = LocalSnapshots(
                log, flusher, self.runtime.shards, loop, wall_clock
            )
            self.runtime.on_growth(self.snapshots.consider)
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
            snapshots=self.snapshots,
        )
        self.ownership = Ownership(
            self.runtime,
            ShardOpener(context).open,
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
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=""
            )
            for index in range(PARTITIONS_A_COMMIT)
        ]
        topic = OffsetCommitRequestTopic(name="orders", partitions=partitions)
        general = OffsetCommitRequest(group_id=group_id, topics=[topic])
        plain = read_plain_commit(encode(general, 8), 0, 8, NO_LIMIT)
        assert plain is not None
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        shard = self.runtime.shard_of(group_id)
        self.runtime.submit(shard, plain, Caller(), answered.set_result)
        response = await answered
        if isinstance(response, OffsetCommitResponse):
            codes = {part.error_code for part in response.topics[0].partitions}
            assert codes == {0}, codes

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
            len(driven.shard.state.offsets.partitions(group_id))
            for driven in self.runtime.shards
            for group_id in list(driven.shard.state.offsets.stored)
        )

    async def stop(self) -> None:
        """End as kill -9 does: nothing is written."""
        self.ownership.lost()
        await self.upstream.close()
        if self.snapshots is not None:
            self.snapshots.close()

    async def snapshots_written(self) -> None:
        """Wait until every shard with much to replay has a snapshot."""
        snapshots = self.snapshots
        assert snapshots is not None
        large = [
            each.index
            for each in self.runtime.shards
            if each.records_since_snapshot >= SNAPSHOT_RECORDS
        ]
        for _ in range(600):
            await asyncio.sleep(0.1)
            if not any(snapshots.replay_from(index) is None for index in large):
                return
        raise TimeoutError("the snapshots are not written")


async def _take_over(bootstrap: str, directory: Path) -> dict[str, float]:
    """Return the seconds of each take-over."""
    times = {}
    async with AdminClient(bootstrap) as admin:
        topic = await open_topic(admin, "__coterie_takeover", partition_count=SHARDS)
        first = ShardNode(bootstrap, topic)
        await first.own()
        await first.commit_all(OFFSETS // PARTITIONS_A_COMMIT, 1)
        await first.stop()
        second = ShardNode(bootstrap, topic, directory)
        times["no local snapshots"] = await second.own()
        assert second.offsets() == OFFSETS
        await second.snapshots_written()
        await second.stop()
        third = ShardNode(bootstrap, topic, directory)
        times["local snapshots"] = await third.own()
        assert third.offsets() == OFFSETS
        await third.commit_all(OFFSETS // PARTITIONS_A_COMMIT // 10, 2)
        await third.stop()
        fourth = ShardNode(bootstrap, topic, directory)
        times["local snapshots and 100,000 commits"] = await fourth.own()
        assert fourth.offsets() == OFFSETS
        await fourth.stop()
    return times


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Start a broker and take the shards over, once each."""
    del rounds
    with scratch() as home:
        kafka = on_all_cores([*python("peers.apache_kafka"), str(home / "kafka")])
        with running(kafka, home / "log") as broker:
            times = asyncio.run(_take_over(broker.address, home / "data"))
    for case, seconds in times.items():
        yield Figure(
            name=f"take over {SHARDS} shards with {OFFSETS:,} offsets: {case}",
            value=seconds,
            unit="s",
            bar=BARS_S[case],
            side=Bar.AT_MOST,
        )
