"""Measure the assignors with 10,000 members and 100,000 partitions.

The target assignment is computed on the event loop's thread, so all other requests wait
for it. Measured is the CPU time of the fastest round. `uniform` has the events of
Apache Kafka's benchmark of assignors: FULL (a new group; bar 15 ms), STABLE (nothing
changed), JOIN_ONE, JOIN_MANY (a tenth of the members), LEAVE_ONE, LEAVE_MANY and
PARTITIONS_ADDED (a tenth more).

Then a group in which half of the members subscribe to half of the topics (bar 250 ms);
a rack-aware assignment with replicas in three of six racks; and the overhead of the
coordinator around an assignor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

from benchmarks.harness.figures import Bar, Figure, Rounds
from coterie.broker.coordinator.assignors import rack, uniform
from coterie.broker.coordinator.assignors.spec import (
    Assignment,
    GroupSpec,
    MemberSpec,
    TopicSpec,
)
from coterie.broker.coordinator.consumer.member import Member, Target
from coterie.broker.coordinator.consumer.target import (
    KnownTopic,
    NewTarget,
    TargetInput,
    build_target,
    group_spec,
)
from coterie.types import TopicId
from tests.support.assignment_quality import quality

MEMBERS, TOPICS, PARTITIONS = 10_000, 100, 1_000
RACKS = [f"rack-{number}" for number in range(6)]
FULL_BAR, MIXED_BAR = 15.0, 250.0


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure each case, and check the quality of the assignments."""
    yield _figure("uniform, FULL", uniform_group(), rounds, FULL_BAR)
    yield from _events(rounds)
    yield _figure(
        "uniform, half of the members with half of the topics",
        mixed_group(),
        rounds,
        MIXED_BAR,
    )
    yield _figure(
        "rack-aware, full assignment", rack_group(), rounds, None, rack.assign
    )
    churned = owned_by(rack_group(), rack.assign(rack_group()))
    yield _figure("rack-aware, reassignment", churned, rounds, None, rack.assign)
    yield _target_overhead(rounds)


def topic_ids() -> list[TopicId]:
    return [number.to_bytes(16, "big") for number in range(1, TOPICS + 1)]


_EVERYTHING = frozenset(topic_ids())


def uniform_group() -> GroupSpec:
    """Return a new group in which all members subscribe to all topics."""
    names = [f"member-{number:05}" for number in range(MEMBERS)]
    members = {name: uniform_group_member(name) for name in names}
    return GroupSpec(members, {topic: TopicSpec(PARTITIONS) for topic in _EVERYTHING})


def uniform_group_member(name: str) -> MemberSpec:
    """Return a new member that subscribes to all topics."""
    return MemberSpec(name, None, None, _EVERYTHING, {})


def mixed_group() -> GroupSpec:
    """Return a group in which every other member subscribes to half of the topics."""
    spec = uniform_group()
    half = frozenset(topic_ids()[::2])
    members = {
        name: member._replace(subscribed_topic_ids=half) if number % 2 else member
        for number, (name, member) in enumerate(spec.members.items())
    }
    return GroupSpec(members, spec.topics)


def rack_group() -> GroupSpec:
    """Return a group with members and replicas in six racks."""
    spec = uniform_group()
    places = [
        frozenset(RACKS[(first + step * (1 + first % 2)) % 6] for step in range(3))
        for first in range(PARTITIONS)
    ]
    members = {
        name: member._replace(rack_id=RACKS[number * number % 6])
        for number, (name, member) in enumerate(spec.members.items())
    }
    topics = {topic: TopicSpec(PARTITIONS, places) for topic in spec.topics}
    return GroupSpec(members, topics)


def owned_by(spec: GroupSpec, assignment: Assignment) -> GroupSpec:
    """Return the group with an assignment as its current target assignment."""
    targets = as_targets(assignment)
    members = {
        name: member._replace(partitions=targets[name])
        for name, member in spec.members.items()
    }
    return GroupSpec(members, spec.topics)


def as_targets(assignment: Assignment) -> dict[str, Target]:
    return {
        name: {topic: frozenset(some) for topic, some in partitions.items()}
        for name, partitions in assignment.items()
    }


def milliseconds(work: Callable[[], object], rounds: Rounds) -> float:
    """Return the CPU time of the fastest round."""
    taken = []
    for _ in range(max(3, rounds.times)):
        began = time.thread_time()
        work()
        taken.append(time.thread_time() - began)
    return min(taken) * 1_000


def _figure(
    name: str,
    spec: GroupSpec,
    rounds: Rounds,
    bar: float | None,
    assign: Callable[[GroupSpec], Assignment] = uniform.assign,
) -> Figure:
    result = quality(spec, assign(spec))
    return Figure(
        name=name,
        value=milliseconds(partial(assign, spec), rounds),
        unit="ms",
        bar=bar,
        side=Bar.AT_MOST,
        detail=f"spread {result.spread}, moved {result.moved} of at least "
        f"{result.moves_needed}, near {result.near_share:.0%}",
    )


def _events(rounds: Rounds) -> Iterable[Figure]:
    """Measure the events of a group that has a target."""
    stable = owned_by(uniform_group(), uniform.assign(uniform_group()))
    names = [*stable.members]
    joining = [f"new-{number:05}" for number in range(MEMBERS // 10)]
    leaving = names[:: len(names) // len(joining)]
    more = {topic: TopicSpec(PARTITIONS * 11 // 10) for topic in stable.topics}
    events = [
        ("STABLE", stable, (), ()),
        ("JOIN_ONE", stable, joining[:1], ()),
        ("JOIN_MANY", stable, joining, ()),
        ("LEAVE_ONE", stable, (), leaving[:1]),
        ("LEAVE_MANY", stable, (), leaving),
        ("PARTITIONS_ADDED", stable._replace(topics=more), (), ()),
    ]
    for name, before, joined, left in events:
        members = {**before.members}
        for member in left:
            del members[member]
        members.update((one, uniform_group_member(one)) for one in joined)
        after = before._replace(members=members)
        yield _figure(f"uniform, {name}", after, rounds, None)


def _target_overhead(rounds: Rounds) -> Figure:
    """Measure `build_target` with an assignor that returns a precomputed result."""
    spec = uniform_group()
    assignment = uniform.assign(spec)
    names = {f"topic-{number}": topic for number, topic in enumerate(topic_ids())}
    given = TargetInput(
        members={
            name: Member(member_id=name, topic_names=tuple(names))
            for name in spec.members
        },
        previous=as_targets(assignment),
        topics={
            name: KnownTopic(topic, spec.topics[topic]) for name, topic in names.items()
        },
    )

    def work() -> NewTarget:
        return build_target(group_spec(given), given.previous, lambda _: assignment)

    assert not work().changed
    return Figure(
        name="overhead of the coordinator around an assignor",
        value=milliseconds(work, rounds),
        unit="ms",
        detail="input of the assignor, and comparison of the targets",
    )
