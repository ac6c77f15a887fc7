"""A node whose shards are in a fake upstream cluster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from coterie.broker.runtime.shards import Phase
from coterie.broker.runtime.slices import Slices
from coterie.gateway.counts import GatewayCounts
from coterie.gateway.log.opening import LogContext, Opening
from coterie.gateway.log.shard_writer import ShardWriter
from coterie.gateway.ownership import OpenedShard, Ownership
from coterie.gateway.upstream.topic import ShardsTopic
from tests.broker.runtime.world import World, commit_error, commit_request
from tests.gateway.log.fake_upstream import FakeUpstream, Partition

LEASE_MS = 1_000_000_000
TOPIC = ShardsTopic("__coterie_test", b"coterie-topic-id", 2, "cluster-a")


@dataclass
class Node(World):
    """A node that serves all shards; `opened` are its tries to take them over."""

    starts: bool = False
    shard_count: int = TOPIC.partition_count
    topic: ShardsTopic = TOPIC
    name: str = "node-1"
    shared: FakeUpstream | None = None
    """The upstream cluster of another node."""
    context_changes: dict[str, Any] = field(default_factory=dict)
    opened: list[Opening] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.upstream = self.shared or FakeUpstream(self.loop)
        if self.shared is None:
            self.upstream.answers_produce = True
        context = LogContext(
            runtime=self.runtime,
            upstream=self.upstream,
            topic=self.topic,
            node=self.name,
            transactional_id=lambda index: f"coterie-test-{index}",
            scheduler=self.loop,
            steady=self.loop.clock,
            wall=self.loop.clock,
            slices=Slices(self.loop, lambda: 0.0),
            fenced=self._fenced,
        )
        self.context = replace(context, **self.context_changes)
        self.counts = GatewayCounts()
        self.ownership = Ownership(
            self.runtime,
            self.open_shard,
            clock=self.loop.clock,
            scheduler=self.loop,
            lease_ms=LEASE_MS,
            counts=self.counts,
        )
        self.runtime.start(self.shard_count)
        self.ownership.heartbeat_answered(self.loop.clock())

    def open_shard(self, index: int) -> OpenedShard:
        opening = Opening(self.context, index)
        self.opened.append(opening)
        return OpenedShard(opening.store, opening.close)

    def _fenced(self, index: int) -> None:
        self.ownership.fenced(index)

    def own(self, *shards: int) -> None:
        """Take over these shards, and release all others."""
        self.ownership.assigned(frozenset(shards or range(self.shard_count)))
        self.loop.settle()

    def partition_of(self, group_id: str) -> Partition:
        return self.upstream.partitions[self.runtime.shard_of(group_id)]

    def writer_of(self, group_id: str) -> ShardWriter:
        writer = self.partition(group_id).flusher
        assert isinstance(writer, ShardWriter)
        return writer

    def commit(self, group_id: str, offset: int, partition: int = 0) -> int:
        """Commit an offset; return the error code."""
        return commit_error(
            self.call(commit_request(group_id, offset, partition), group_id)
        )

    def is_active(self, group_id: str) -> bool:
        return self.partition(group_id).phase is Phase.ACTIVE

    def successor(self, **changes: Any) -> Node:
        """Return another node on the same upstream cluster and loop."""
        name = changes.pop("name", "node-2")
        return Node(loop=self.loop, shared=self.upstream, name=name, **changes)


def node(**changes: Any) -> Node:
    """Return a node that owns all shards."""
    started = Node(**changes)
    started.own()
    return started
