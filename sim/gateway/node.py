"""A node: its successive processes. A process runs the real runtime, ownership, shard
logs and writers over the world's time and upstream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast

from coterie.auth.acl import ANONYMOUS
from coterie.auth.authorizer import AllowAll
from coterie.broker.coordinator.assignors.registry import configured
from coterie.broker.coordinator.result import CoordinatorEnvironment
from coterie.broker.coordinator.shard import Shard
from coterie.broker.runtime.deferred import Respond
from coterie.broker.runtime.runtime import Runtime
from coterie.broker.runtime.shards import CoordinatorPartition, Phase
from coterie.broker.runtime.slices import Slices
from coterie.broker.runtime.system import Timekeeping
from coterie.broker.server.broker import Counts
from coterie.broker.server.call import Call as ServerCall
from coterie.gateway.counts import GatewayCounts
from coterie.gateway.log.opening import LogContext, Opening
from coterie.gateway.log.shard_writer import ShardWriter
from coterie.gateway.ownership import OpenedShard, Ownership
from coterie.gateway.transactions import GatewayTransactions
from coterie.gateway.upstream.topic import ShardsTopic
from coterie.gateway.view import NodeInfo, View
from coterie.types import GroupId
from sim.clock import Clock
from sim.gateway.coordinator import AppTransaction
from sim.gateway.loop import NodeLoop
from sim.gateway.membership import (
    TOPIC,
    MemberEvents,
    MemberPlan,
    NodeGroup,
    NodeMember,
)
from sim.gateway.plan import GatewayPlan
from sim.gateway.transaction_client import ClientTransactions
from sim.gateway.upstream import Cluster, UpstreamClient
from sim.network import Call, Caller
from sim.server import Assignors, ServerEnvironment
from sim.transcript import Transcript

_TOPIC_ID: Final = b"coterie-topic-id"
_CLOCK_AHEAD_MS: Final = 500_000


@dataclass(frozen=True)
class NodeEnvironment:
    """The environment of all nodes."""

    clock: Clock
    rng: Random
    server: ServerEnvironment
    cluster: Cluster
    group: NodeGroup
    transcript: Transcript
    plan: GatewayPlan


Serve = Callable[["Process", Call, Respond], None]


class Node:
    """A node of the gateway."""

    def __init__(self, name: str, environment: NodeEnvironment, serve: Serve) -> None:
        self.name = name
        self.environment = environment
        self._serve = serve
        self.process: Process | None = None
        self.life = 0
        self.is_cut_off = False

    def start(self) -> None:
        """Start a process."""
        self.life += 1
        self.note("starts:", f"life {self.life}")
        self.process = Process(self)
        self.process.upstream.is_cut_off = self.is_cut_off
        self.process.loop.run(self.process.start)

    def kill(self) -> None:
        """Kill the process."""
        assert self.process is not None
        self.process.loop.die()
        self.environment.cluster.clients.remove(self.process.upstream)
        self.process = None

    def cut_off_log(self) -> None:
        """Cut the node off from upstream's partitions."""
        self.is_cut_off = True
        if self.process is not None:
            self.process.upstream.is_cut_off = True

    def restore_log(self) -> None:
        """Restore the network to upstream's partitions."""
        self.is_cut_off = False
        if self.process is not None:
            self.process.upstream.is_cut_off = False

    def note(self, what: str, *args: object) -> None:
        """Add a line to the transcript."""
        now_ms = self.environment.clock.now_ms
        self.environment.transcript.add(now_ms, self.name, what, *args)

    # The interface of `CoordinatorNode`.

    @property
    def is_up(self) -> bool:
        """Whether a process accepts connections; a stopped one does, too."""
        return self.process is not None

    @property
    def is_answering(self) -> bool:
        """Whether the process runs and is not stopped."""
        return self.process is not None and not self.process.loop.is_stopped

    def coordinator_of(self, group_id: GroupId) -> int | None:
        """Return the number of the node that owns a group, by this node's view."""
        return None if self.process is None else self.process.owner_of(group_id)

    def serve(self, call: Call, answer: Respond) -> None:
        """Handle a request that has arrived."""
        process = self.process
        assert process is not None
        process.loop.run(lambda: self._serve(process, call, answer))


class Process:
    """A process of a node."""

    def __init__(self, node: Node) -> None:
        environment = node.environment
        plan, rng = environment.plan, environment.rng
        self.node = node
        self.name = f"{node.name}.{node.life}"
        self.note = node.note
        self.environment = environment.server
        self.settings = environment.server.settings
        self.is_removed = False
        """Whether upstream has removed the process from the group of nodes."""
        self._known_member_id: str | None = None
        self._cluster = environment.cluster
        ahead_ms = rng.randint(0, _CLOCK_AHEAD_MS)
        wall = environment.clock.now
        self.clock = wall
        self._steady = lambda: wall() + ahead_ms
        """The clock of leases, which starts anywhere."""
        self.loop = NodeLoop(environment.clock, rng)
        self.upstream = UpstreamClient(environment.cluster, self.loop.run)
        assignors = configured(self.settings.group_consumer_assignors)
        self.runtime = Runtime(
            CoordinatorEnvironment(
                self.settings,
                topics=self.environment.topics,
                configs=self.environment.configs,
                assignors=Assignors(assignors, self.environment),
                new_id=self.environment.new_id,
                new_uuid=self.environment.new_uuid,
            ),
            scheduler=self.loop,
            timekeeping=Timekeeping(wall, wall, self.loop, self.loop),
        )
        self.runtime.start(plan.shard_count)
        self.transactions = GatewayTransactions(
            self.runtime,
            ClientTransactions(self.upstream, environment.cluster),
            self.loop,
        )
        self.committing: set[tuple[AppTransaction, Call]] = set()
        """The commits in transactions without a response."""
        self.writers: dict[int, ShardWriter] = {}
        self._opened_ms: dict[int, int] = {}
        self.unanswered: dict[Call, Shard] = {}
        """The requests without a response, with the state that handles them."""
        self.ownership = Ownership(
            self.runtime,
            self._open_shard,
            clock=self._steady,
            scheduler=self.loop,
            lease_ms=plan.session_timeout_ms * 9 // 10,
            counts=GatewayCounts(),
        )
        self._log = LogContext(
            runtime=self.runtime,
            upstream=self.upstream,
            topic=ShardsTopic(
                TOPIC, _TOPIC_ID, plan.shard_count, environment.cluster.cluster_id
            ),
            node=node.name,
            transactional_id=lambda shard: f"coterie-sim-{shard}",
            scheduler=self.loop,
            steady=self._steady,
            wall=wall,
            slices=Slices(self.loop, lambda: 0.0),
            fenced=self.ownership.fenced,
        )
        self.member = NodeMember(
            NodeInfo(name=node.name, host=node.name, port=1, broker_port=2),
            environment.group,
            self.loop,
            self._steady,
            MemberEvents(
                on_view=self._view_changed,
                on_lease=self.ownership.heartbeat_answered,
                on_lost=self.ownership.lost,
            ),
            MemberPlan(
                plan.session_timeout_ms, plan.is_static, plan.shard_count, wall()
            ),
        )

    def start(self) -> None:
        """Join the group of nodes."""
        self.member.start()

    def leave(self) -> None:
        """Drain the shards, and leave the group of nodes."""
        self.loop.run(lambda: self.ownership.drain(self.member.leave))

    def resume(self) -> None:
        """Continue the process, if it was stopped."""
        if self.loop.is_stopped and not self.loop.is_dead:
            self.note("continues")
            self.loop.resume()

    def broadcast(self, event: object) -> None:
        """Send an event to the shards."""
        self.loop.run(lambda: self.runtime.broadcast(event))

    def submit_transactional(
        self, request: Any, caller: Caller, respond: Respond
    ) -> None:
        """Handle AddOffsetsToTxn or TxnOffsetCommit."""
        broker = SimpleNamespace(
            runtime=self.runtime,
            catalog=self.environment.topics,
            settings=self.settings,
            shard_of=self.runtime.shard_of,
            counts=Counts(),
            authorizer=AllowAll(),
            admit=None,
        )
        peer = SimpleNamespace(
            node=SimpleNamespace(broker=broker),
            principal=ANONYMOUS,
            client_host=caller.client_host,
            send_response=lambda _, response: respond(response),
        )
        call = ServerCall(
            request, caller.api_version, caller.client_id, cast(Any, peer), None
        )
        self.transactions.handlers[request.API_KEY](call)

    # What the checker asks.

    @property
    def has_lease(self) -> bool:
        """Whether the node may serve."""
        return self.ownership.lease.is_held()

    def order(self, index: int) -> int:
        """Return the order of the process's producer for a shard; -1 for none."""
        writer = self.writers.get(index)
        if writer is None:
            return -1
        producer = writer.producer
        found = self._cluster.order_of(producer.producer_id, producer.producer_epoch)
        return -1 if found is None else found

    def read_since_ms(self, index: int) -> int | None:
        """Return since when the process reads a shard's partition; None if it does
        not."""
        partition = self.runtime.shards[index]
        if partition.phase is Phase.LOADING:
            return self._opened_ms.get(index)
        transactions = partition.shard.state.offsets.pending.transactions.values()
        return min(
            (
                offset.commit_timestamp_ms
                for transaction in transactions
                for offsets in transaction.groups.values()
                for offset in offsets.values()
            ),
            default=None,
        )

    def is_quiet(self, partition: CoordinatorPartition) -> bool:
        """Return whether all records of the shard are durable."""
        return partition.written_sequence <= partition.flusher.durable_sequence

    def update_membership(self, member_ids: frozenset[str] | None) -> None:
        """Note whether upstream has removed the process from the group of nodes."""
        if member_ids is None:
            return
        # A late JoinGroup of a static member replaces it; its shards stay where they
        # are.
        member_id = self.member.instance_id or self.member.session.member_id
        if member_id in member_ids:
            self._known_member_id, self.is_removed = member_id, False
        elif self._known_member_id is not None:
            self.is_removed = True

    # The group of nodes.

    def owner_of(self, group_id: GroupId) -> int | None:
        """Return the number of the node that owns a group, by this process's view."""
        owner = self.member.view.owner(self.runtime.shard_of(group_id))
        return None if owner is None else int(owner.name.removeprefix("n"))

    def _view_changed(self, view: View, shards: frozenset[int]) -> None:
        self.note(f"owns {sorted(shards)} of {view.owners} in {view.generation}")
        self.ownership.assigned(shards)

    # Shards.

    def _open_shard(self, index: int) -> OpenedShard:
        self._opened_ms[index] = self.clock()
        opened = Opening(self._log, index).opened
        writer = opened.store.flusher
        assert isinstance(writer, ShardWriter)
        self.writers[index] = writer
        return opened
