"""The faults of a world. Each kind of fault is a function with the world as argument;
the plan selects the kinds of a world.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from coterie.broker.coordinator.admin import (
    DeleteGroup,
    DescribeConsumerGroup,
    DescribeGroup,
)
from coterie.broker.coordinator.consumer.subscriptions import TopicsChanged
from coterie.broker.coordinator.offsets.deletion import DeletedTopic, TopicsDeleted
from coterie.errors import LogError, LogFull
from coterie.types import GroupId
from coterie.wire import messages as m
from sim.configs import GroupConfig
from sim.disk import Death
from sim.members.computing import Flaw
from sim.members.consumer import ConsumerMember
from sim.members.member import REQUEST_TIMEOUT_MS, Member
from sim.network import Call, Caller, NetworkFaults
from sim.plan import REGEXES, TOPICS
from sim.population import Population, Slot
from sim.world import World

W = TypeVar("W", bound=Population)


class Faults(Generic[W]):
    """The scheduler of random faults, until the phase without faults."""

    def __init__(self, world: W, kinds: Sequence[Callable[[W], None]]) -> None:
        self._world = world
        self._kinds = kinds

    def begin(self, selected: int) -> None:
        """Start to inject faults of the kinds that have a bit in `selected`."""
        kinds = enumerate(self._kinds)
        self._kinds = [kind for number, kind in kinds if selected >> number & 1]
        if self._kinds:
            self._later()

    def _later(self) -> None:
        world = self._world
        delay_ms = world.rng.randint(1, 2 * world.plan.fault_every_ms)
        world.clock.after(delay_ms, self._strike)

    def _strike(self) -> None:
        world = self._world
        if not world.is_calm:
            world.rng.choice(self._kinds)(world)
            self._later()


# The server and its disk.


def _kill(world: World) -> None:
    world.kill_server("just so")


def _kill_at(world: World) -> None:
    world.disk.death = world.rng.choice([*Death])
    world.disk.countdown = world.rng.randint(0, 4)


def _fail_writes(world: World) -> None:
    error = world.rng.choice((LogError("the disk is broken"), LogFull("it is full")))
    world.note("'s disk fails:", str(error))
    world.disk.failures = [error] * world.rng.randint(1, 2)


def _slow_disk(world: World) -> None:
    world.server_environment.disk_ms = world.rng.choice((0, 50, 1_000))
    world.note("'s disk takes up to", world.server_environment.disk_ms, "ms")


def _compact(world: World) -> None:
    if world.server is None:
        return
    driven = world.rng.choice(world.server.runtime.shards)
    world.note("compacts the log of shard", driven.index)
    world.server.compact(driven, world.rng.choice((0, 10_000, 86_400_000)))


def _snapshot(world: World) -> None:
    if world.server is None:
        return
    driven = world.rng.choice(world.server.runtime.shards)
    world.note("takes a snapshot of shard", driven.index)
    world.server.snapshot(driven)


# The network.


def _change_network_faults(world: Population) -> None:
    rng = world.rng
    is_storm = rng.random() < 0.3
    world.network.faults = (
        NetworkFaults(loss=0.5, repetition=0.3, delay_share=0.3)
        if is_storm
        else NetworkFaults()
    )
    world.note("'s network is unreliable" if is_storm else "'s network is reliable")
    duration_ms = rng.randint(500, 8_000)
    world.clock.after(duration_ms, lambda: _end_storm(world))


def _end_storm(world: Population) -> None:
    if not world.is_calm:
        world.network.faults = world.plan.network_faults


# Topics.


def _change_topics(world: Population) -> None:
    rng, topics = world.rng, world.topics
    name = rng.choice(TOPICS)
    is_new = False
    if name not in topics.known:
        topic = topics.create(name, rng.randint(1, 4))
        is_new = True
        world.note("has a new topic", name, f"of {topic.partition_count} partitions")
    elif rng.random() < 0.6:
        topics.grow(name, rng.randint(1, 2))
        world.note("has more partitions of", name)
    else:
        _delete_topic(world, name)
        if rng.random() < 0.5:
            topics.create(name, rng.randint(1, 4))
            is_new = True
            world.note("creates topic", name, "again")
    names = frozenset({name})
    world.broadcast(TopicsChanged(names, names if is_new else frozenset()))


def _delete_topic(world: Population, name: str) -> None:
    topic = world.topics.delete(name)
    world.note("deletes topic", name)
    world.checker.forget_offsets(topic=name)
    world.broadcast(TopicsDeleted((DeletedTopic(name, topic.topic_id),)))


# Members.


def _some_member(world: Population) -> Member | None:
    alive = [slot.member for slot in world.slots if slot.member is not None]
    return world.rng.choice(alive) if alive else None


def _crash(world: Population) -> None:
    if (member := _some_member(world)) is not None:
        member.die("crashes")


def _leave(world: Population) -> None:
    if (member := _some_member(world)) is not None and not member.is_hanging:
        member.note("leaves")
        member.leave()


def _hang(world: Population) -> None:
    if (member := _some_member(world)) is not None:
        member.hang()
        duration_ms = world.rng.choice((500, 3_000, 15_000, 30_000))
        world.clock.after(duration_ms, member.resume)


def _slow_callback(world: Population) -> None:
    if (member := _some_member(world)) is not None:
        member.slow_callback_ms = world.rng.choice((3_000, 15_000))
        member.note("'s next callback takes", member.slow_callback_ms, "ms")


def _keep_partitions(world: Population) -> None:
    """Make a member ignore that it must revoke partitions. Only the server ends this,
    also after the last fault.
    """
    member = _some_member(world)
    if isinstance(member, ConsumerMember):
        member.keeps_partitions = True
        member.note("keeps its partitions from now on")


def _subscribe(world: Population) -> None:
    member = _some_member(world)
    if isinstance(member, ConsumerMember) and not member.is_hanging:
        topics = world.rng.sample(TOPICS, world.rng.randint(1, len(TOPICS)))
        regex = world.rng.choice((None, None, *REGEXES))
        member.subscribe(sorted(topics), regex)


def _change_subscription_twice(world: Population) -> None:
    """Change a member's subscription twice within a short time."""
    member = _some_member(world)
    if not isinstance(member, ConsumerMember) or member.is_hanging:
        return

    def choose() -> None:
        topics = world.rng.sample(TOPICS, world.rng.randint(1, 2))
        member.subscribe(sorted(topics), None)

    choose()
    member.after(world.rng.randint(100, 1_500), choose)
    member.after(world.rng.randint(1_500, 3_000), choose)


def _start_or_stop(world: Population) -> None:
    """Stop or start a process; at least one process of each group always runs."""
    slot: Slot = world.rng.choice(world.slots)
    wanted = sum(
        each.is_wanted
        for each in world.slots
        if each.config.group_id == slot.config.group_id
    )
    if not slot.is_wanted:
        slot.is_wanted = True
        world.start_member(slot)
    elif wanted > 1:
        slot.is_wanted = False
        if slot.member is not None:
            slot.member.leave() if world.rng.random() < 0.7 else slot.member.die("goes")


def _break_computation(world: Population) -> None:
    """Give the next computation of a member a defect: slow, wrong or failing."""
    member = _some_member(world)
    if isinstance(member, ConsumerMember) and member.computing is not None:
        others = [
            slot.member.computing
            for slot in world.slots
            if isinstance(slot.member, ConsumerMember) and slot.member is not member
        ]
        flaw = world.rng.choice([*Flaw])
        if flaw is Flaw.DEAD and not any(each and not each.flaw for each in others):
            return  # one member must be able to compute
        member.computing.flaw = flaw
        member.note("'s next computation:", flaw.value)


def _migrate(world: Population) -> None:
    """End a process, which restarts with the other protocol."""
    slots = [slot for slot in world.slots if world.is_migrating(slot)]
    if not slots:
        return
    slot: Slot = world.rng.choice(slots)
    slot.protocol = slot.protocol.other
    if slot.member is not None:
        slot.member.note("changes to the", slot.protocol.value, "protocol")
        slot.member.leave() if world.rng.random() < 0.7 else slot.member.die("goes")


# Groups.


def _break_assignors(world: Population) -> None:
    world.note("'s assignors fail")
    world.server_environment.assignors_fail = True

    def mend() -> None:
        world.server_environment.assignors_fail = False

    world.clock.after(world.rng.randint(500, 5_000), mend)


def _admin(world: Population, request: Any, group_id: GroupId, version: int) -> None:
    """Send a request as an admin client, and ignore the response."""
    call = Call(
        "admin", group_id, request, Caller(version, "admin"), lambda _: None, _nothing
    )
    world.network.call(call, REQUEST_TIMEOUT_MS)


def _nothing() -> None: ...


def _transact(world: Population) -> None:
    """Run a transaction that commits offsets to some of the groups."""
    groups = [group.group_id for group in world.plan.groups]
    members = [slot.member for slot in world.slots if slot.member is not None]
    world.producers.transact(groups, members)


def _fetch_offsets(world: Population) -> None:
    world.producers.fetch(world.rng.choice(world.plan.groups).group_id)


def _delete_group(world: Population) -> None:
    group_id = world.rng.choice(world.plan.groups).group_id
    _admin(world, DeleteGroup(group_id), group_id, 2)


def _delete_offsets(world: Population) -> None:
    """Delete the offsets of a topic as an admin client."""
    group_id = world.rng.choice(world.plan.groups).group_id
    partitions = [m.OffsetDeleteRequestPartition(partition_index=0)]
    topic = m.OffsetDeleteRequestTopic(
        name=world.rng.choice(TOPICS), partitions=partitions
    )
    _admin(world, m.OffsetDeleteRequest(group_id=group_id, topics=[topic]), group_id, 0)


def _describe_group(world: Population) -> None:
    group_id = world.rng.choice(world.plan.groups).group_id
    kind = world.rng.choice((DescribeConsumerGroup, DescribeGroup))
    _admin(world, kind(group_id), group_id, 1)


def _remove_member(world: Population) -> None:
    """Remove a member as an admin client."""
    member = _some_member(world)
    if member is None:
        return
    identity = m.MemberIdentity(member_id=member.member_id)
    if member.instance_id is not None:
        identity = m.MemberIdentity(member_id="", group_instance_id=member.instance_id)
    request = m.LeaveGroupRequest(group_id=member.group_id, members=[identity])
    _admin(world, request, member.group_id, 5)


def _configure(world: Population) -> None:
    rng = world.rng
    group_id = rng.choice(world.plan.groups).group_id
    config = GroupConfig(
        rng.choice((None, 6_000, 15_000)), rng.choice((None, 1_000, 2_500))
    )
    world.note("has a configuration of", group_id, config)
    world.server_environment.configs.change(group_id, config)


_SERVER_KINDS: Final[Sequence[Callable[[World], None]]] = (
    _kill,
    _kill_at,
    _fail_writes,
    _slow_disk,
    _compact,
    _snapshot,
)
MEMBER_KINDS: Final[Sequence[Callable[[Population], None]]] = (
    _change_network_faults,
    _change_topics,
    _crash,
    _leave,
    _hang,
    _slow_callback,
    _keep_partitions,
    _subscribe,
    _change_subscription_twice,
    _start_or_stop,
    _migrate,
    _migrate,
    _break_computation,
    _break_computation,
    _break_assignors,
    _transact,
    _transact,
    _fetch_offsets,
    _delete_group,
    _delete_offsets,
    _describe_group,
    _remove_member,
    _configure,
)
KINDS: Final[Sequence[Callable[[World], None]]] = (*_SERVER_KINDS, *MEMBER_KINDS)
"""The faults of a world with a single server, by their bits in `Plan.fault_kinds`."""
