"""A simulated member of the classic protocol."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from coterie.wire import messages as m
from sim.clock import Clock
from sim.members.classic import ClassicMember
from sim.members.embedded import write_assignment
from sim.members.member import MemberConfig, MemberEnvironment
from sim.network import Call, NetworkFaults
from sim.phases import repair_members
from sim.plan import Protocol
from sim.population import Population, Slot
from sim.topics import Topics
from sim.transcript import Transcript

CONFIG = MemberConfig("m", "g", ("t",), instance_id="i", is_cooperative=True)


class World(Population):
    """One slot whose member's requests wait for the test."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.rng = Random(1)
        self.plan: Any = SimpleNamespace(groups=())
        self.topics = Topics(self.rng)
        self.topics.create("t", 3)
        self.calls: list[Call] = []
        self.faults = NetworkFaults()
        self.environment = MemberEnvironment(
            self.clock, self.rng, self, self.topics, Transcript(self.topics), self
        )
        self.slots = [Slot(CONFIG, Protocol.CLASSIC)]
        self.start_member(self.slots[0])

    def is_migrating(self, slot: Slot) -> bool:
        return False

    # The network and the watcher of the member.

    def call(self, call: Call, timeout_ms: int) -> None:
        self.calls.append(call)

    def forget(self, call: Call) -> None: ...

    def partitions_adopted(self, member: Any, parts: Collection[Any]) -> None: ...

    def step(self, until_ms: int) -> bool:
        return self.clock.step(until_ms)

    # What the test does.

    @property
    def member(self) -> ClassicMember:
        member = self.slots[0].member
        assert isinstance(member, ClassicMember)
        return member

    def answer(self, request: type[Any], response: Any) -> None:
        (call,) = [each for each in self.calls if isinstance(each.request, request)]
        self.calls.remove(call)
        call.answered(response)

    def assign(self, generation: int, *partitions: int) -> None:
        joined = m.JoinGroupResponse(
            generation_id=generation, leader="other", member_id="m"
        )
        self.answer(m.JoinGroupRequest, joined)
        assigned = write_assignment(("t", each) for each in partitions)
        self.answer(m.SyncGroupRequest, m.SyncGroupResponse(assignment=assigned))

    def is_joining(self) -> bool:
        return any(isinstance(each.request, m.JoinGroupRequest) for each in self.calls)


@pytest.fixture
def world() -> World:
    found = World()
    found.assign(1, 0, 1, 2)
    return found


def restart(world: World) -> None:
    world.member.die("goes")
    world.calls.clear()
    world.advance(5_000)


def test_partitions_that_a_member_revoked_before_its_end_get_another_rebalance(
    world: World,
) -> None:
    """Restart a static member: its successor gets the assignment of its generation
    without a rebalance, as in Kafka, so no member gets the revoked partitions."""
    world.member.rejoin()
    world.assign(2, 0)
    world.advance(1_000)
    assert world.is_joining()
    restart(world)
    world.assign(2, 0)
    assert not world.is_joining()
    repair_members(world)
    assert world.is_joining()


def test_a_member_that_owes_no_join_is_not_repaired(world: World) -> None:
    world.member.rejoin()
    world.assign(2, 0)
    world.advance(1_000)
    world.assign(3, 0)
    restart(world)
    world.assign(3, 0)
    repair_members(world)
    assert not world.is_joining()
