"""Time until a node serves all shards of a dead one, without and with local snapshots.

    python -m benchmarks.gateway.takeover HOST:PORT [--offsets 1000000] [--shards 50]

It creates a topic `__coterie_NAME` in the cluster, commits offsets in it as a gateway
does, and takes all shards over three times: without local snapshots, with the ones that
this load has written, and with those and further commits. The topic is deleted at the
end.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

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
        late_s = 0.0
        while any(each.phase is not Phase.ACTIVE for each in self.runtime.shards):
            before = time.perf_counter()
            await asyncio.sleep(0.01)
            late_s = max(late_s, time.perf_counter() - before - 0.01)
        elapsed = time.perf_counter() - started
        print(f"  the event loop was late by at most {late_s * 1000:.0f} ms")
        return elapsed

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


async def run(bootstrap: str, offsets: int, shards: int, directory: Path) -> None:
    """Print the times."""
    name = f"__coterie_takeover{time.time_ns()}"
    async with AdminClient(bootstrap) as admin:
        topic = await open_topic(admin, name, partition_count=shards)
        try:
            first = ShardNode(bootstrap, topic)
            print(f"empty: {await first.own():.2f} s")
            started = time.perf_counter()
            await first.commit_all(offsets // PARTITIONS_A_COMMIT, 1)
            elapsed = time.perf_counter() - started
            print(f"{offsets:,} offsets committed in {elapsed:.1f} s")
            await first.stop()
            second = ShardNode(bootstrap, topic, directory)
            print(f"without snapshots: {await second.own():.2f} s")
            print(f"  {second.offsets():,} offsets")
            await second.snapshots_written()
            await second.stop()
            third = ShardNode(bootstrap, topic, directory)
            print(f"with snapshots: {await third.own():.2f} s")
            print(f"  {third.offsets():,} offsets")
            await third.commit_all(offsets // PARTITIONS_A_COMMIT // 10, 2)
            await third.stop()
            fourth = ShardNode(bootstrap, topic, directory)
            print(f"with snapshots and {offsets // 10:,} more: ", end="")
            print(f"{await fourth.own():.2f} s")
            print(f"  {fourth.offsets():,} offsets")
            await fourth.stop()
        finally:
            await admin.delete_topics([name])


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bootstrap")
    parser.add_argument("--offsets", type=int, default=1_000_000)
    parser.add_argument("--shards", type=int, default=50)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(
            run(
                arguments.bootstrap,
                arguments.offsets,
                arguments.shards,
                Path(directory),
            )
        )


if __name__ == "__main__":
    main()
