"""How long does an assignor take for 10,000 members and 100,000 partitions?

A target is made inside a heartbeat, on the loop's only thread, so everybody waits for
it. Plain Python, processor time, the best of the rounds. Everything at once, when
nobody has anything; one member joining, from kept counts; members of which half want
all topics and half want half of them; and in racks, each partition with replicas in
three of six. Bars: 15 ms, 0.1 ms and 250 ms. What the coordinator adds around an
assignor that has nothing to do, and racks, have no bar.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from benchmarks.figures import Bar, Figure, Rounds
from coterie.coordinator.assignors import rack, uniform
from coterie.coordinator.assignors.kept import Churn, plan, replan
from coterie.coordinator.assignors.quality import quality
from coterie.coordinator.assignors.spec import (
    Assignment,
    GroupSpec,
    MemberSpec,
    TopicSpec,
)
from coterie.coordinator.consumer.member import Member, Target
from coterie.coordinator.consumer.target import KnownTopic, TargetInput, build_target
from coterie.types import TopicId

MEMBERS, TOPICS, PARTITIONS = 10_000, 100, 1_000
RACKS = [f"rack-{number}" for number in range(6)]
FULL_BAR, JOIN_BAR, MIXED_BAR = 15.0, 0.1, 250.0


def measure(rounds: Rounds) -> Iterable[Figure]:
    """All of them; what they give is looked at, too."""
    yield _figure("uniform, everything", alike(), rounds, FULL_BAR)
    yield _join(rounds)
    again = owned_by(alike(), uniform.assign(alike()))
    yield _figure("uniform, everything again", again, rounds, None)
    yield _figure("uniform, half want half", mixed(), rounds, MIXED_BAR)
    yield _figure("rack, everything", racked(), rounds, None, rack.assign)
    churned = owned_by(racked(), rack.assign(racked()))
    yield _figure("rack, everything again", churned, rounds, None, rack.assign)
    yield _around(rounds)


def topic_ids() -> list[TopicId]:
    return [number.to_bytes(16, "big") for number in range(1, TOPICS + 1)]


def alike() -> GroupSpec:
    """All members want all topics, and nobody has anything."""
    everything = frozenset(topic_ids())
    names = [f"member-{number:05}" for number in range(MEMBERS)]
    members = {name: MemberSpec(name, None, None, everything, {}) for name in names}
    return GroupSpec(members, {topic: TopicSpec(PARTITIONS) for topic in everything})


def mixed() -> GroupSpec:
    """Every other member wants half of the topics only."""
    spec = alike()
    half = frozenset(topic_ids()[::2])
    members = {
        name: member._replace(subscribed_topic_ids=half) if number % 2 else member
        for number, (name, member) in enumerate(spec.members.items())
    }
    return GroupSpec(members, spec.topics)


def racked() -> GroupSpec:
    """Members and replicas are spread over six racks."""
    spec = alike()
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
    """The group with an assignment as its target, in sets as a group keeps it."""
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
    """Processor time of the quickest of the rounds."""
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
    found = quality(spec, assign(spec))
    return Figure(
        name=name,
        value=milliseconds(partial(assign, spec), rounds),
        unit="ms",
        bar=bar,
        side=Bar.AT_MOST,
        detail=f"spread {found.spread}, moved {found.moved} of at least "
        f"{found.moves_needed}, near {found.near_share:.0%}",
    )


def _join(rounds: Rounds) -> Figure:
    """The same join a hundred times, as nothing that is given is changed."""
    spec = alike()
    made = plan(spec)
    assert made.kept is not None
    targets: Mapping[str, Target] = as_targets(made.changed)
    joined = spec.members["member-00000"]._replace(member_id="member-new")
    churn = Churn(spec.topics, targets, [joined])
    step = partial(replan, made.kept, churn)
    planned = step()
    assert planned is not None

    def hundred() -> None:
        for _ in range(100):
            step()

    return Figure(
        name="uniform, one joins, kept counts",
        value=milliseconds(hundred, rounds) / 100,
        unit="ms",
        bar=JOIN_BAR,
        side=Bar.AT_MOST,
        detail=f"{len(planned.changed)} members have something else",
    )


def _around(rounds: Rounds) -> Figure:
    """What `build_target` adds when the assignor has the answer already."""
    spec = alike()
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
    work = partial(build_target, given, lambda _: assignment)
    assert not work().changed
    return Figure(
        name="target around an assignor",
        value=milliseconds(work, rounds),
        unit="ms",
        detail="the group as it is seen, and the targets compared",
    )
