"""Short forms for inputs of assignors, and properties that every result must have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product

from hypothesis import strategies as st

from coterie.broker.coordinator.assignors.spec import (
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
    """Return a group from the subscribed topics and previous target of each member."""
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


def in_racks(
    spec: GroupSpec,
    members: Mapping[str, str | None],
    partitions: Mapping[str, Sequence[Collection[str]]],
) -> GroupSpec:
    """Return the group with racks for its members and partitions."""
    placed = {
        member_id: member._replace(rack_id=members.get(member_id))
        for member_id, member in spec.members.items()
    }
    racks = {topic_id(name): each for name, each in partitions.items()}
    topics = {
        topic: each._replace(racks=[*map(frozenset, racks.get(topic, ()))])
        for topic, each in spec.topics.items()
    }
    return GroupSpec(placed, topics)


def again(spec: GroupSpec, assignment: Assignment) -> GroupSpec:
    """Return the group with an assignment as its previous target."""
    members = {
        member_id: member._replace(partitions=assignment.get(member_id, {}))
        for member_id, member in spec.members.items()
    }
    return GroupSpec(members, spec.topics)


def named(assignment: Assignment) -> dict[str, dict[str, list[int]]]:
    """Return an assignment by topic name, without members that have no partitions."""
    return {
        member: {
            topic.rstrip(b"\0").decode(): sorted(some)
            for topic, some in sorted(partitions.items())
        }
        for member, partitions in assignment.items()
        if partitions
    }


def check(spec: GroupSpec, assignment: Assignment) -> None:
    """Assert that each subscribed partition has one owner, which subscribes to it."""
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
def groups(
    draw: st.DrawFn,
    *,
    alike: bool,
    members_max: int = 5,
    partitions_max: int = 5,
    topics_max: int = 3,
) -> GroupSpec:
    """Draw a small group with valid previous targets."""
    topics = {
        name: draw(st.integers(1, partitions_max))
        for name in "abc"[: draw(st.integers(1, topics_max))]
    }
    names = [f"m{number}" for number in range(draw(st.integers(1, members_max)))]
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


@st.composite
def racked_groups(draw: st.DrawFn, *, alike: bool = True) -> GroupSpec:
    """Draw a group in up to three racks, small enough to try all its assignments."""
    spec = draw(groups(alike=alike, members_max=3, partitions_max=3, topics_max=2))
    rack = st.sampled_from(["r", "s", "t", None])
    placed = {member_id: draw(rack) for member_id in spec.members}
    some = st.sets(st.sampled_from("rst"), max_size=2)
    racks = {
        topic.rstrip(b"\0").decode(): [draw(some) for _ in range(each.partition_count)]
        for topic, each in spec.topics.items()
    }
    return in_racks(spec, placed, racks)


def every_assignment(spec: GroupSpec) -> Iterator[dict[str, dict[TopicId, list[int]]]]:
    """Yield all assignments of the subscribed partitions to subscribers."""
    wanting = {
        (topic, partition): [
            member_id
            for member_id, member in spec.members.items()
            if topic in member.subscribed_topic_ids
        ]
        for topic, each in spec.topics.items()
        for partition in range(each.partition_count)
    }
    wanting = {partition: members for partition, members in wanting.items() if members}
    for owners in product(*wanting.values()):
        owned: dict[str, dict[TopicId, list[int]]] = {one: {} for one in spec.members}
        for (topic, partition), owner in zip(wanting, owners, strict=True):
            owned[owner].setdefault(topic, []).append(partition)
        yield owned
