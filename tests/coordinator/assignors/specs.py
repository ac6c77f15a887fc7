"""What assignors are given, in the words of a test, and what their result is worth."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from hypothesis import strategies as st

from coterie.coordinator.assignors.spec import (
    Assignment,
    GroupSpec,
    MemberSpec,
    TopicSpec,
)
from coterie.types import TopicId

Wanted = Mapping[str, Collection[str]]
Owned = Mapping[str, Mapping[str, Collection[int]]]


def topic_id(name: str) -> TopicId:
    return name.encode().ljust(16, b"\0")


def group(
    topics: Mapping[str, int],
    wanted: Wanted,
    owned: Owned | None = None,
    instances: Mapping[str, str] | None = None,
) -> GroupSpec:
    """Members by the topics they want, and what they have so far."""
    members = {
        member: MemberSpec(
            member,
            (instances or {}).get(member),
            None,
            frozenset(map(topic_id, names)),
            {
                topic_id(topic): frozenset(some)
                for topic, some in (owned or {}).get(member, {}).items()
            },
        )
        for member, names in wanted.items()
    }
    sizes = {topic_id(name): TopicSpec(count) for name, count in topics.items()}
    return GroupSpec(members, sizes)


def again(spec: GroupSpec, assignment: Assignment) -> GroupSpec:
    """The same group, with an assignment as its target."""
    members = {
        member_id: member._replace(partitions=assignment.get(member_id, {}))
        for member_id, member in spec.members.items()
    }
    return GroupSpec(members, spec.topics)


def named(assignment: Assignment) -> dict[str, dict[str, list[int]]]:
    """An assignment with topics by name, sorted; members without any are left out."""
    return {
        member: {
            topic.rstrip(b"\0").decode(): sorted(some)
            for topic, some in sorted(partitions.items())
        }
        for member, partitions in assignment.items()
        if partitions
    }


class Quality(NamedTuple):
    """The largest size less the smallest; how many partitions changed their owner."""

    spread: int
    moved: int


def quality(spec: GroupSpec, assignment: Assignment) -> Quality:
    """What a result is worth. A partition that nobody had before does not move."""
    sizes = [
        sum(map(len, assignment.get(member, {}).values())) for member in spec.members
    ]
    moved = sum(
        len({*some} - {*assignment.get(member_id, {}).get(topic, ())})
        for member_id, member in spec.members.items()
        for topic, some in member.partitions.items()
    )
    return Quality(max(sizes) - min(sizes) if sizes else 0, moved)


def check(spec: GroupSpec, assignment: Assignment) -> None:
    """Every partition that somebody wants has one owner, who wants it."""
    owners: dict[tuple[TopicId, int], str] = {}
    for member_id, partitions in assignment.items():
        for topic, some in partitions.items():
            assert topic in spec.members[member_id].subscribed_topic_ids
            for partition in some:
                assert (topic, partition) not in owners
                owners[topic, partition] = member_id
    wanted = {t for each in spec.members.values() for t in each.subscribed_topic_ids}
    everything = {(t, p) for t in wanted for p in range(spec.topics[t].partition_count)}
    assert owners.keys() == everything


@st.composite
def groups(draw: st.DrawFn, *, alike: bool) -> GroupSpec:
    """A small group with any target before that gives each partition at most once."""
    topics = {
        name: draw(st.integers(1, 5)) for name in "abc"[: draw(st.integers(1, 3))]
    }
    names = [f"m{number}" for number in range(draw(st.integers(1, 5)))]
    subscriptions = st.sets(st.sampled_from(sorted(topics)), min_size=0 if alike else 1)
    same = draw(subscriptions)
    wanted = {name: same if alike else draw(subscriptions) for name in names}
    owned: dict[str, dict[str, set[int]]] = {name: {} for name in names}
    for topic, count in topics.items():
        for partition in range(count):
            owner = draw(st.sampled_from([*names, None]))
            if owner is not None:
                owned[owner].setdefault(topic, set()).add(partition)
    return group(topics, wanted, owned)
