"""A simulated world: a server, its members, and their environment, from one seed.

`phases.py` runs it.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final

from coterie.broker.coordinator.consumer.subscriptions import (
    TopicsChanged,
)
from coterie.broker.runtime.deferred import Respond
from coterie.broker.runtime.shards import DrivenShard
from coterie.types import GroupId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from sim.broken import BugRecorder
from sim.checker import Checker
from sim.clock import Clock
from sim.disk import Disk, Killed, MemoryDisk
from sim.members.classic import ClassicMember
from sim.members.consumer import ConsumerMember
from sim.members.member import Member, MemberConfig, MemberEnvironment
from sim.network import Call, Network
from sim.plan import GroupPlan, Kind, Protocol, draw_plan
from sim.server import Server, ServerEnvironment
from sim.topics import Topics
from sim.transactions import Producers, Transaction
from sim.transcript import Transcript

_DOWN_MS_MAX: Final = 2_000
_RESTART_MS: Final = (500, 4_000)
_WRONG_PROTOCOL: Final = (
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
)


class Slot:
    """A slot for a client process, which is restarted when it ends unless it was
    stopped.
    """

    def __init__(self, config: MemberConfig, protocol: Protocol) -> None:
        self.config = config
        self.protocol = protocol
        self.is_wanted = True
        self.member: Member | None = None
        self.incarnations = 0


class World:
    """The server, members, network, disk and clock of a simulated world."""

    def __init__(
        self, seed: int, recorder: BugRecorder, disk: Disk | None = None
    ) -> None:
        self.seed = seed
        self.rng = Random(seed)  # noqa: S311 - a seed is to decide everything
        self.clock = Clock()
        self.plan = draw_plan(self.rng)
        self.topics = Topics(self.rng)
        for name, count in self.plan.topics.items():
            self.topics.create(name, count)
        self.transcript = Transcript(self.topics)
        self.server_environment = ServerEnvironment(
            self.clock, self.rng, self.plan.settings, self.topics
        )
        self.server_environment.disk_ms = self.plan.disk_ms
        self.checker = Checker(self.server_environment, recorder, self._ended)
        self.disk = disk or MemoryDisk()
        self.server: Server | None = None
        self.life = 0
        self.steps = 0
        self.network = Network(self.clock, self.rng, self.transcript, self)
        self.network.faults = self.plan.network_faults
        self.environment = MemberEnvironment(
            self.clock,
            self.rng,
            self.network,
            self.topics,
            self.transcript,
            self.checker,
        )
        self.producers = Producers(self.environment, lambda: self.server)
        self.slots = [
            Slot(config, _protocol_of(group, self.rng))
            for group in self.plan.groups
            for config in group.config
        ]
        self.is_calm = False

    # The server.

    @property
    def is_up(self) -> bool:
        """Whether the server accepts requests."""
        return self.server is not None

    def start_server(self) -> None:
        """Start a server on the disk of the last one."""
        if self.server is None:
            self.life += 1
            self.note("starts:", f"life {self.life}")
            self.server = Server(
                self.server_environment, self.disk, self.plan.shard_count
            )

    def kill_server(self, why: str) -> None:
        """Kill the server's process; unflushed data is lost."""
        if self.server is None:
            return
        self.note("is killed:", why)
        self.server.loop.die()
        self.server = None
        self.disk = self.disk.reopen()
        self.network.cut()
        self.clock.after(self.rng.randint(0, _DOWN_MS_MAX), self.start_server)

    def serve(self, call: Call, answer: Respond) -> None:
        """Submit a request to the server."""
        assert self.server is not None
        transaction: Transaction | None = None
        if isinstance(call.request, TxnOffsetCommitRequest):
            shard = self.server.runtime.shard_of(call.group_id)
            transaction = self.producers.admit(call.request, shard)
            if transaction is None:
                return
        self.checker.serve(self.server, call, answer, transaction)

    def driven(self, group_id: GroupId) -> DrivenShard | None:
        """Return a group's shard while the server is running."""
        if self.server is None:
            return None
        runtime = self.server.runtime
        return runtime.shards[runtime.shard_of(group_id)]

    def topic_changed(self, name: TopicName, *, is_new: bool) -> None:
        """Broadcast a change of topics, as the catalog does."""
        if self.server is not None:
            names = frozenset({name})
            created = names if is_new else frozenset()
            self.server.runtime.broadcast(TopicsChanged(names, created))

    def note(self, what: str, *args: object) -> None:
        """Add a line about the server to the transcript."""
        self.transcript.add(self.clock.now_ms, "server", what, *args)

    # Members.

    def start_member(self, slot: Slot) -> None:
        """Start a process in the slot, unless one is running."""
        if not slot.is_wanted or slot.member is not None:
            return
        slot.incarnations += 1
        member: Member
        if slot.protocol is Protocol.CONSUMER:
            member = ConsumerMember(self.environment, slot.config, slot.incarnations)
        else:
            member = ClassicMember(self.environment, slot.config, slot.incarnations)
        slot.member = member
        member.note("starts as a", slot.protocol.value, "member")
        member.start()

    def _ended(self, member: Member) -> None:
        for slot in self.slots:
            if slot.member is member:
                slot.member = None
                slot.protocol = self._next_protocol(slot, member)
                delay_ms = self.rng.randint(*_RESTART_MS)
                self.clock.after(delay_ms, partial(self.start_member, slot))

    def _next_protocol(self, slot: Slot, member: Member) -> Protocol:
        """Return the other protocol after a refusal, if the process supports both."""
        if not self.is_migrating(slot) or member.refusal not in _WRONG_PROTOCOL:
            return slot.protocol
        return slot.protocol.other

    def is_migrating(self, slot: Slot) -> bool:
        """Return whether the processes of the slot support both protocols."""
        kinds = {group.group_id: group.kind for group in self.plan.groups}
        return kinds[slot.config.group_id] is Kind.MIGRATING

    # Time.

    def advance(self, duration_ms: int) -> None:
        """Run all events in the next `duration_ms`."""
        until_ms = self.clock.now_ms + duration_ms
        while self._step(until_ms):
            pass

    def _step(self, until_ms: int) -> bool:
        """Run one event, and all immediate effects of it in the server."""
        try:
            happened = self.clock.step(until_ms)
            server = self.server
            if server is not None:
                server.loop.settle()
                self.checker.check_changes(server)
        except Killed:
            assert self.disk.death is not None
            self.kill_server(self.disk.death.value)
            return True
        self.steps += happened
        return happened


def _protocol_of(group: GroupPlan, rng: Random) -> Protocol:
    if group.kind is Kind.MIGRATING:
        return Protocol(rng.choice([each.value for each in Protocol]))
    is_classic = group.kind in (Kind.EAGER, Kind.COOPERATIVE)
    return Protocol.CLASSIC if is_classic else Protocol.CONSUMER
