"""One world: a server, its members, and what goes wrong; all of it from one seed.

A world has three parts: it is drawn and begins; things go wrong for a time; then
nothing goes wrong any more, and within a bound everything must be in order.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final

from coterie.coordinator.consumer.resolve import MIN_INTERVAL_MS
from coterie.coordinator.consumer.topic_news import TopicsChanged
from coterie.runtime.deferred import Answer
from coterie.runtime.shards import DrivenShard
from coterie.types import GroupId, TopicName
from coterie.wire.error_codes import ErrorCode
from sim.broken import Broken, Ears
from sim.checker import Checker
from sim.clock import Clock
from sim.disk import Disk, Killed
from sim.faults import Faults
from sim.members.classic import ClassicMember
from sim.members.computing import Flaw
from sim.members.consumer import ConsumerMember
from sim.members.member import Habitat, Habits, Member
from sim.network import Call, Network, Weather
from sim.order import is_in_group, what_is_amiss
from sim.plan import GroupPlan, Kind, Protocol, draw_plan
from sim.server import Server, Surroundings
from sim.topics import Topics
from sim.transcript import Transcript

_ARRIVE_WITHIN_MS: Final = 5_000
_DOWN_MS_MAX: Final = 2_000
_RESTART_MS: Final = (500, 4_000)
_COMPARE_EVERY_MS: Final = 20_000
_WRONG_PROTOCOL: Final = (
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
)
_LOOK_EVERY_MS: Final = 1_000
_LASTS_MS: Final = 2_000
_LATE_MS: Final = 10_000
"""What was on its way when the world became calm has arrived by then."""


class Slot:
    """A place for a member: a process that is started again when it ends, as long as it
    is wanted."""

    def __init__(self, habits: Habits, protocol: Protocol) -> None:
        self.habits = habits
        self.protocol = protocol
        self.is_wanted = True
        self.member: Member | None = None
        self.incarnations = 0


class World:
    """Everything there is. `run` raises Broken, and then `transcript` says how it came
    to that."""

    def __init__(self, seed: int, ears: Ears) -> None:
        self.seed = seed
        self.rng = Random(seed)  # noqa: S311 - a seed is to decide everything
        self.clock = Clock()
        self.plan = draw_plan(self.rng)
        self.topics = Topics(self.rng)
        for name, count in self.plan.topics.items():
            self.topics.create(name, count)
        self.transcript = Transcript(self.topics)
        self.around = Surroundings(
            self.clock, self.rng, self.plan.settings, self.topics
        )
        self.around.disk_ms = self.plan.disk_ms
        self.checker = Checker(self.around, ears, self._ended)
        self.disk = Disk()
        self.server: Server | None = None
        self.life = 0
        self.steps = 0
        self.network = Network(self.clock, self.rng, self.transcript, self)
        self.network.weather = self.plan.weather
        self.habitat = Habitat(
            self.clock,
            self.rng,
            self.network,
            self.topics,
            self.transcript,
            self.checker,
        )
        self.slots = [
            Slot(habits, _protocol_of(group, self.rng))
            for group in self.plan.groups
            for habits in group.habits
        ]
        self.faults = Faults(self)
        self.is_calm = False

    def run(self) -> None:
        """Live through it. Raises Broken."""
        self.note("begins:", f"seed {self.seed}, {self.plan}")
        self.start_server()
        for slot in self.slots:
            delay_ms = self.rng.randint(0, _ARRIVE_WITHIN_MS)
            self.clock.after(delay_ms, partial(self.start_member, slot))
        self._compare_later()
        self.faults.begin()
        self._pass(self.plan.trouble_ms)
        self._calm_down()
        self._come_to_order()
        self._end()

    # The server.

    @property
    def is_up(self) -> bool:
        """Whether anybody listens."""
        return self.server is not None

    def start_server(self) -> None:
        """Open the disk as the last life left it."""
        if self.server is None:
            self.life += 1
            self.note("starts:", f"life {self.life}")
            self.server = Server(self.around, self.disk, self.plan.shard_count)

    def kill_server(self, why: str) -> None:
        """Its process is gone, and with it all that was not flushed."""
        if self.server is None:
            return
        self.note("is killed:", why)
        self.server.loop.die()
        self.server = None
        self.disk = self.disk.reopen()
        self.network.cut()
        self.clock.after(self.rng.randint(0, _DOWN_MS_MAX), self.start_server)

    def serve(self, call: Call, answer: Answer) -> None:
        """A request has arrived."""
        assert self.server is not None
        self.checker.serve(self.server, call, answer)

    def driven(self, group_id: GroupId) -> DrivenShard | None:
        """A group's shard, when the server is up."""
        if self.server is None:
            return None
        runtime = self.server.runtime
        return runtime.shards[runtime.shard_of(group_id)]

    def topic_changed(self, name: TopicName, *, is_new: bool) -> None:
        """Tell the server, as its catalog does."""
        if self.server is not None:
            names = frozenset({name})
            created = names if is_new else frozenset()
            self.server.runtime.notify(TopicsChanged(names, created))

    def note(self, what: str, *args: object) -> None:
        """Tell the transcript what happens to the server."""
        self.transcript.add(self.clock.now_ms, "server", what, *args)

    # Members.

    def start_member(self, slot: Slot) -> None:
        """Start a process in that place, unless one runs."""
        if not slot.is_wanted or slot.member is not None:
            return
        slot.incarnations += 1
        member: Member
        if slot.protocol is Protocol.CONSUMER:
            member = ConsumerMember(self.habitat, slot.habits, slot.incarnations)
        else:
            member = ClassicMember(self.habitat, slot.habits, slot.incarnations)
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
        """Who may not come with one protocol comes with the other, if it knows both."""
        if not self.is_migrating(slot) or member.refusal not in _WRONG_PROTOCOL:
            return slot.protocol
        return slot.protocol.other

    def is_migrating(self, slot: Slot) -> bool:
        """Whether the processes in that place know both protocols."""
        kinds = {group.group_id: group.kind for group in self.plan.groups}
        return kinds[slot.habits.group_id] is Kind.MIGRATING

    # Time.

    def _pass(self, duration_ms: int) -> None:
        until_ms = self.clock.now_ms + duration_ms
        while self._step(until_ms):
            pass

    def _step(self, until_ms: int) -> bool:
        """One thing happens, and whatever the server does at once because of it."""
        try:
            happened = self.clock.step(until_ms)
            server = self.server
            if server is not None:
                server.loop.settle()
                self.checker.look(server)
        except Killed:
            assert self.disk.death is not None
            self.kill_server(self.disk.death.value)
            return True
        self.steps += happened
        return happened

    def _compare_later(self) -> None:
        delay_ms = self.rng.randint(1, _COMPARE_EVERY_MS)
        self.clock.after(delay_ms, self._compare)

    def _compare(self) -> None:
        if self.server is not None and not self.is_calm:
            self.checker.compare(self.server, self.rng)
            self._compare_later()

    # The end.

    def _calm_down(self) -> None:
        """Nothing goes wrong any more."""
        self.is_calm = True
        self.transcript.add(self.clock.now_ms, "world", "is calm from now on")
        self.network.weather = Weather()
        self.around.disk_ms = 0
        self.around.assignors_fail = False
        self.disk.death = None
        self.disk.failures.clear()
        for slot in self.slots:
            if slot.member is not None:
                slot.member.go_on()
        self._pass(_LATE_MS)
        self._revive_a_computer()
        for slot in self.slots:
            # What it wants may have been undone by an older request that came late.
            if isinstance(slot.member, ConsumerMember):
                slot.member.repeat()

    def _revive_a_computer(self) -> None:
        """A group needs one member that computes, if all its members say they do."""
        for group in self.plan.groups:
            computers = [
                slot.member.computing
                for slot in self.slots
                if slot.habits in group.habits
                and isinstance(slot.member, ConsumerMember)
                and slot.member.computing is not None
            ]
            if all(computer.flaw is Flaw.DEAD for computer in computers):
                for computer in computers:
                    computer.flaw = None

    def _come_to_order(self) -> None:
        """Raises Broken if that takes longer than the bound."""
        ends_ms = self.clock.now_ms + self.plan.bound_ms
        in_order_ms = 0
        while in_order_ms < self._patience_ms():
            amiss = what_is_amiss(self)
            in_order_ms = 0 if amiss else in_order_ms + _LOOK_EVERY_MS
            if amiss and self.clock.now_ms >= ends_ms:
                raise Broken(f"{self.plan.bound_ms} ms after the last fault: {amiss}")
            self._pass(_LOOK_EVERY_MS)

    def _patience_ms(self) -> int:
        """How long order has to last to be called so. What regular expressions match
        may have to wait to be looked up."""
        members = [slot.member for slot in self.slots]
        has_regex = any(getattr(member, "regex", None) for member in members)
        return _LASTS_MS + MIN_INTERVAL_MS if has_regex else _LASTS_MS

    def _end(self) -> None:
        """Everybody commits once more, and what the log says is what is."""
        assert self.server is not None
        for member in filter(None, (slot.member for slot in self.slots)):
            if member.owned and is_in_group(self, member):
                member.commit(member.owned, answered=_must_be_accepted)
        self._pass(1_000)
        self.checker.compare(self.server, self.rng)
        if amiss := what_is_amiss(self):
            raise Broken(f"order does not last: {amiss}")


def _must_be_accepted(response: object) -> None:
    codes = {
        each.error_code
        for topic in response.topics  # type: ignore[attr-defined]
        for each in topic.partitions
    }
    if codes != {0}:
        raise Broken(f"a settled member's commit is refused: {codes}")


def _protocol_of(group: GroupPlan, rng: Random) -> Protocol:
    if group.kind is Kind.MIGRATING:
        return Protocol(rng.choice([each.value for each in Protocol]))
    is_classic = group.kind in (Kind.EAGER, Kind.COOPERATIVE)
    return Protocol.CLASSIC if is_classic else Protocol.CONSUMER
