"""Run a simulated world in three phases: faults, calm, order.

The world starts, and faults happen for a time. Then they stop, and within a bound all
members must be at their targets. At the end the log is compared with the state.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from coterie.broker.coordinator.consumer.subscriptions import MIN_INTERVAL_MS
from sim.broken import Broken
from sim.faults import KINDS, Faults
from sim.members.classic import ClassicMember
from sim.members.computing import Flaw
from sim.members.consumer import ConsumerMember
from sim.network import NetworkFaults
from sim.order import find_disorder, is_in_group
from sim.population import Population
from sim.world import World

ARRIVE_WITHIN_MS: Final = 5_000
_COMPARE_EVERY_MS: Final = 20_000
_CHECK_EVERY_MS: Final = 1_000
_LASTS_MS: Final = 4_000
"""The time for which order must last: longer than the interval of heartbeats, with one
of which a new member repeats what it subscribes to."""
LATE_MS: Final = 10_000
"""The time after which delayed messages have arrived."""


def run_world(world: World) -> None:
    """Run a world: faults for a time, then no faults until it has settled, within a
    bound.

    Raise Broken; the transcript then shows the events before it.
    """
    world.note("begins:", f"seed {world.seed}, {world.plan}")
    world.start_server()
    for slot in world.slots:
        delay_ms = world.rng.randint(0, ARRIVE_WITHIN_MS)
        world.clock.after(delay_ms, partial(world.start_member, slot))
    _compare_later(world)
    Faults(world, KINDS).begin(world.plan.fault_kinds)
    world.advance(world.plan.trouble_ms)
    _calm_down(world)
    wait_for_order(world)
    commit_with_all(world)
    assert world.server is not None
    world.checker.compare(world.server, world.rng)


def _compare_later(world: World) -> None:
    delay_ms = world.rng.randint(1, _COMPARE_EVERY_MS)
    world.clock.after(delay_ms, partial(_compare, world))


def _compare(world: World) -> None:
    if world.server is not None and not world.is_calm:
        world.checker.compare(world.server, world.rng)
        _compare_later(world)


def _calm_down(world: World) -> None:
    """Stop all faults."""
    world.is_calm = True
    world.transcript.add(world.clock.now_ms, "world", "is calm from now on")
    world.network.faults = NetworkFaults()
    world.server_environment.disk_ms = 0
    world.server_environment.assignors_fail = False
    world.disk.death = None
    world.disk.failures = ()
    world.producers.end_all()
    for slot in world.slots:
        if slot.member is not None:
            slot.member.resume()
    world.advance(LATE_MS)
    repair_members(world)


def repair_members(world: Population) -> None:
    """Repair what members may have lost, when all late messages have arrived."""
    _repair_computation(world)
    for slot in world.slots:
        # A late request may have replaced the configuration of the member.
        if isinstance(slot.member, ConsumerMember):
            slot.member.repeat()
        elif isinstance(slot.member, ClassicMember) and slot.owes_join:
            slot.member.rejoin()


def _repair_computation(world: Population) -> None:
    """Repair the client-side assignors of groups in which all of them are defective."""
    for group in world.plan.groups:
        computers = [
            slot.member.computing
            for slot in world.slots
            if slot.config in group.config
            and isinstance(slot.member, ConsumerMember)
            and slot.member.computing is not None
        ]
        if all(computer.flaw is Flaw.DEAD for computer in computers):
            for computer in computers:
                computer.flaw = None


def wait_for_order(world: Population) -> None:
    """Wait until the world has settled. Raise Broken after the bound."""
    ends_ms = world.clock.now_ms + world.plan.bound_ms
    in_order_ms = 0
    while in_order_ms < _patience_ms(world):
        disorder = find_disorder(world)
        in_order_ms = 0 if disorder else in_order_ms + _CHECK_EVERY_MS
        if disorder and world.clock.now_ms >= ends_ms:
            raise Broken(f"{world.plan.bound_ms} ms after the last fault: {disorder}")
        world.advance(_CHECK_EVERY_MS)


def _patience_ms(world: Population) -> int:
    """Return the time for which a world must stay settled: a resolution of regular
    expressions may be due.
    """
    members = [slot.member for slot in world.slots]
    has_regex = any(getattr(member, "regex", None) for member in members)
    return _LASTS_MS + MIN_INTERVAL_MS if has_regex else _LASTS_MS


def commit_with_all(world: Population) -> None:
    """Commit once more with all members, whose commits must be accepted."""
    for member in filter(None, (slot.member for slot in world.slots)):
        if member.owned and is_in_group(world, member):
            member.commit(member.owned, answered=_must_be_accepted)
    world.advance(1_000)
    if disorder := find_disorder(world):
        raise Broken(f"order does not last: {disorder}")


def _must_be_accepted(response: object) -> None:
    codes = {
        each.error_code
        for topic in response.topics  # type: ignore[attr-defined]
        for each in topic.partitions
    }
    if codes != {0}:
        raise Broken(f"a settled member's commit is refused: {codes}")
