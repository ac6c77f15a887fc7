"""A simulated world of several nodes, one upstream cluster and the members, from one
seed. `phases.py` runs it.
"""

from __future__ import annotations

from random import Random

from crc32c import crc32c

from coterie.broker.coordinator.offsets.deletion import TopicsDeleted
from coterie.broker.runtime.deferred import Respond
from coterie.broker.runtime.shards import DrivenShard
from coterie.types import GroupId
from coterie.wire import messages as m
from sim.broken import BugRecorder
from sim.gateway.applications import Applications
from sim.gateway.checker import GatewayChecker
from sim.gateway.membership import NodeGroup
from sim.gateway.network import ClientNetwork
from sim.gateway.node import Node, NodeEnvironment, Process
from sim.gateway.plan import draw_gateway_plan
from sim.gateway.upstream import Cluster
from sim.network import Call
from sim.population import Population


class GatewayWorld(Population):
    """The nodes, upstream, members, network and clock of a simulated world."""

    def __init__(self, seed: int, recorder: BugRecorder) -> None:
        rng = Random(seed)  # noqa: S311 - a seed is to decide everything
        more = Random(f"more of {seed}")  # noqa: S311
        self.gateway = draw_gateway_plan(rng, more)
        super().__init__(seed, rng, self.gateway.base)
        self.cluster = Cluster(
            self.clock,
            rng,
            self.gateway.shard_count,
            last_epoch=self.gateway.last_epoch,
            faults=self.gateway.upstream,
            bumps_epoch=self.gateway.has_epochs,
            more=more,
            delete_retention_ms=self.gateway.delete_retention_ms,
            read_since=self.read_since_ms,
        )
        self.group = NodeGroup(
            self.clock, rng, self.transcript, self.gateway.shard_count
        )
        self.group.network.faults = self.gateway.group_faults
        environment = NodeEnvironment(
            self.clock,
            rng,
            self.server_environment,
            self.cluster,
            self.group,
            self.transcript,
            self.gateway,
        )
        self.nodes = [
            Node(f"n{number}", environment, self.serve)
            for number in range(self.gateway.node_count)
        ]
        self.gateway_checker = GatewayChecker(
            self.server_environment,
            recorder,
            self.ended,
            self.cluster,
            self.gateway.foreign_shard,
            more,
        )
        network = ClientNetwork(self.clock, rng, self.transcript, self.nodes)
        network.faults = self.plan.network_faults
        self.client_network = network
        self.populate(network, self.gateway_checker)
        self.applications = Applications(
            self.environment, self.cluster.transactions, self.gateway.late_ends, more
        )
        self.producers = self.applications

    # The nodes.

    def start_node(self, node: Node) -> None:
        """Start a node's process, unless it is running."""
        if node.process is None:
            node.start()

    def kill_node(self, node: Node, down_ms: int) -> None:
        """Kill a node's process, and start it again later."""
        if node.process is None:
            return
        node.note("is killed")
        node.kill()
        self.client_network.of_nodes[self.nodes.index(node)].cut()
        self.clock.after(down_ms, lambda: self.start_node(node))

    def serve(self, process: Process, call: Call, answer: Respond) -> None:
        """Submit a request to a node's process."""
        if isinstance(call.request, m.AddOffsetsToTxnRequest):
            process.submit_transactional(call.request, call.caller, answer)
        elif not isinstance(call.request, m.TxnOffsetCommitRequest):
            self.gateway_checker.serve_at(process, call, answer)
        elif call.is_open and call.arrivals == 1:
            # A repeated or late request of version 1 could become a part of the
            # producer's next transaction, which Kafka cannot prevent either (KIP-890).
            transaction = self.applications.transaction_of(call.request)
            self.gateway_checker.serve_in_transaction(
                process, call, answer, transaction
            )

    def processes(self) -> list[Process]:
        """Return the running processes, stopped ones too."""
        return [node.process for node in self.nodes if node.process is not None]

    def read_since_ms(self, index: int) -> int | None:
        """Return since when nodes read a shard's partition: to load it, or to find the
        markers of transactions."""
        found = [process.read_since_ms(index) for process in self.processes()]
        return min((each for each in found if each is not None), default=None)

    def driven(self, group_id: GroupId) -> DrivenShard | None:
        """Return a group's shard at the node with the newest durable barrier."""
        index = self.cluster.shard_of(group_id)
        newest = self.cluster.newest_durable(index)
        for process in self.processes():
            if process.order(index) == newest >= 0:
                return process.runtime.shards[index]
        return None

    def broadcast(self, event: object) -> None:
        """Send an event to all nodes, as each one's copy of the catalog does."""
        if isinstance(event, TopicsDeleted):
            for topic in event.topics:
                self.gateway_checker.history.topic_deleted(topic.name)
        for process in self.processes():
            process.broadcast(event)

    def note_logs(self) -> None:
        """Add the bytes of upstream's partitions to the transcript, as checksums."""
        for index, log in enumerate(self.cluster.partitions):
            data = b"".join(batch for _, batch in log.stored)
            self.note(f"upstream's partition {index} has", len(data), crc32c(data))

    # Time.

    def step(self, until_ms: int) -> bool:
        """Run one event, and all immediate effects of it."""
        happened = self.clock.step(until_ms)
        self.settle()
        self.steps += happened
        return happened

    def settle(self) -> None:
        """Run all immediate effects of what has happened, and check them now: what a
        rule counts from a change counts from its time."""
        self.group.settle()
        members = self.group.member_ids()
        for process in self.processes():
            process.update_membership(members)
            loop = process.loop
            if loop.has_run:
                loop.settle()
                loop.has_run = False
                self.gateway_checker.check_changes(process)
