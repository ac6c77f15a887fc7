"""The members of a simulated world, and what they and the server share: time, network,
topics and the transcript.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final

from coterie.broker.runtime.shards import CoordinatorPartition
from coterie.types import GroupId
from coterie.wire.error_codes import ErrorCode
from sim.checker import Checker
from sim.clock import Clock
from sim.members.classic import ClassicMember
from sim.members.consumer import ConsumerMember
from sim.members.member import Member, MemberConfig, MemberEnvironment
from sim.network import Calls
from sim.plan import GroupPlan, Kind, Plan, Protocol
from sim.server import ServerEnvironment
from sim.topics import Topics
from sim.transactions import Producers
from sim.transcript import Transcript

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
        self.owes_join = False
        """Whether an earlier process was to join once more; see ClassicMember."""


class Population:
    """The members of a world. A subclass adds what serves them."""

    network: Calls
    checker: Checker
    environment: MemberEnvironment
    producers: Producers
    slots: list[Slot]

    def __init__(self, seed: int, rng: Random, plan: Plan) -> None:
        self.seed = seed
        self.rng = rng
        self.clock = Clock()
        self.plan = plan
        self.topics = Topics(rng)
        for name, count in plan.topics.items():
            self.topics.create(name, count)
        self.transcript = Transcript(self.topics)
        self.server_environment = ServerEnvironment(
            self.clock, rng, plan.settings, self.topics
        )
        self.server_environment.disk_ms = plan.disk_ms
        self.steps = 0
        self.is_calm = False

    def populate(self, network: Calls, checker: Checker) -> None:
        """Create a slot for each member of the plan."""
        self.network = network
        self.checker = checker
        self.environment = MemberEnvironment(
            self.clock, self.rng, network, self.topics, self.transcript, checker
        )
        self.slots = [
            Slot(config, _protocol_of(group, self.rng))
            for group in self.plan.groups
            for config in group.config
        ]

    def note(self, what: str, *args: object) -> None:
        """Add a line about the server to the transcript."""
        self.transcript.add(self.clock.now_ms, "server", what, *args)

    # What a subclass adds.

    def partition(self, group_id: GroupId) -> CoordinatorPartition | None:
        """Return a group's shard where it is served now."""
        raise NotImplementedError

    def broadcast(self, event: object) -> None:
        """Send an event to all shards, as the catalog does."""
        raise NotImplementedError

    def step(self, until_ms: int) -> bool:
        """Run one event and its immediate effects; return whether there was one."""
        raise NotImplementedError

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

    def ended(self, member: Member) -> None:
        for slot in self.slots:
            if slot.member is member:
                slot.member = None
                slot.owes_join |= isinstance(member, ClassicMember) and member.owes_join
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
        while self.step(until_ms):
            pass


def _protocol_of(group: GroupPlan, rng: Random) -> Protocol:
    if group.kind is Kind.MIGRATING:
        return Protocol(rng.choice([each.value for each in Protocol]))
    is_classic = group.kind in (Kind.EAGER, Kind.COOPERATIVE)
    return Protocol.CLASSIC if is_classic else Protocol.CONSUMER
