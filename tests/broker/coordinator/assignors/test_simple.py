"""The `simple` assignor of share groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.coordinator.assignors.simple import assign
from coterie.broker.coordinator.assignors.spec import GroupSpec, MemberSpec, TopicSpec

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))
Owned = Mapping[bytes, Sequence[int]]


def member(
    name: str, topics: Sequence[bytes], owned: Owned | None = None
) -> MemberSpec:
    return MemberSpec(name, None, None, frozenset(topics), owned or {})


def group(members: Sequence[MemberSpec], sizes: Mapping[bytes, int]) -> GroupSpec:
    return GroupSpec(
        {each.member_id: each for each in members},
        {topic: TopicSpec(n, assignable=range(n)) for topic, n in sizes.items()},
    )


def shares(spec: GroupSpec) -> list[list[int]]:
    """Return each member's partitions of topic A."""
    assignment = assign(spec)
    return [sorted(assignment[name].get(A, ())) for name in sorted(spec.members)]


def of_one_topic(count: int, *owned: Sequence[int]) -> GroupSpec:
    members = [
        member(f"m{index}", [A], {A: some} if some else {})
        for index, some in enumerate(owned)
    ]
    return group(members, {A: count})


@pytest.mark.fact("SG-127")
@pytest.mark.parametrize(
    ("members", "partitions", "expected"),
    [
        (1, 3, [[0, 1, 2]]),
        (2, 3, [[0, 2], [1]]),
        (3, 2, [[0, 1], [0], [1]]),
        (4, 6, [[0, 4], [1], [2, 5], [3]]),
        (5, 2, [[0, 1], [0], [0], [1], [1]]),
        (3, 1, [[0], [0], [0]]),
    ],
)
def test_partitions_of_a_new_group_are_shared(
    members: int, partitions: int, expected: list[list[int]]
) -> None:
    assert shares(of_one_topic(partitions, *([()] * members))) == expected


@pytest.mark.fact("SG-128")
@pytest.mark.parametrize(
    ("partitions", "owned", "expected"),
    [
        (3, [(0, 1, 2), ()], [[1, 2], [0]]),
        (3, [(0, 1, 2), (), ()], [[2], [0], [1]]),
        (2, [(0,), (1,), ()], [[0, 1], [1], [0]]),
        (4, [(0, 1), (2, 3)], [[0, 1], [2, 3]]),
        (3, [(0,), (1,), (2,), ()], [[0, 2], [1], [0, 2], [1]]),
    ],
)
def test_partitions_stay_with_their_members(
    partitions: int, owned: list[Sequence[int]], expected: list[list[int]]
) -> None:
    assert shares(of_one_topic(partitions, *owned)) == expected


@pytest.mark.fact("SG-126")
def test_a_lone_unfilled_member_may_be_counted_twice() -> None:
    assert shares(of_one_topic(2, (), (0,), (0,))) == [[1], [0], [0]]


@pytest.mark.fact("SG-121")
def test_only_assignable_partitions_are_assigned() -> None:
    spec = GroupSpec({"m": member("m", [A])}, {A: TopicSpec(5, assignable=(1, 3))})
    assert assign(spec) == {"m": {A: {1, 3}}}


@pytest.mark.fact("SG-129", "SG-130")
def test_topics_are_balanced_one_by_one_when_subscriptions_differ() -> None:
    members = [
        member("m0", [A], {A: [0, 1], C: [0]}),
        member("m1", [A, B]),
        member("m2", [B], {A: [0, 1]}),
    ]
    found = assign(group(members, {A: 2, B: 2}))
    assert found == {"m0": {A: {1}, C: {0}}, "m1": {A: {0}, B: {0}}, "m2": {B: {1}}}


@pytest.mark.fact("SG-131")
def test_without_subscriptions_nothing_is_assigned() -> None:
    assert assign(group([member("m", [], {A: [0]})], {})) == {}
    assert assign(GroupSpec({}, {})) == {}


def test_a_topic_without_metadata_is_an_error() -> None:
    with pytest.raises(KeyError):
        assign(group([member("m", [A])], {}))


@st.composite
def specs(draw: st.DrawFn, *, uniform: bool) -> GroupSpec:
    sizes = draw(st.dictionaries(st.sampled_from([A, B, C]), st.integers(1, 6)))
    all_topics = sorted(sizes)
    members = []
    for index in range(draw(st.integers(1, 7))):
        topics = all_topics
        if not uniform and all_topics:
            topics = draw(st.lists(st.sampled_from(all_topics), unique=True))
        owned = {
            topic: draw(st.sets(st.integers(0, sizes[topic] - 1)))
            for topic in all_topics
            if draw(st.booleans())
        }
        members.append(
            member(f"m{index}", topics, {t: sorted(p) for t, p in owned.items() if p})
        )
    return group(members, sizes)


@pytest.mark.slow
@given(specs(uniform=True))
def test_a_uniform_group_is_balanced(spec: GroupSpec) -> None:
    found = assign(spec)
    partitions = {
        (topic, each) for topic, some in spec.topics.items() for each in some.assignable
    }
    if not partitions:
        return
    sharing = -(-len(spec.members) // len(partitions))
    owners: dict[tuple[bytes, int], int] = dict.fromkeys(partitions, 0)
    for topics in found.values():
        for topic, some in topics.items():
            for each in some:
                owners[topic, each] += 1
    assert owners.keys() == partitions
    assert all(1 <= count <= sharing for count in owners.values()), owners
    least = sharing * len(partitions) // len(spec.members)
    counts = [sum(map(len, topics.values())) for topics in found.values()]
    assert max(counts) <= least + 1


@pytest.mark.slow
@given(specs(uniform=False))
def test_every_assignable_partition_has_a_subscriber(spec: GroupSpec) -> None:
    found = assign(spec)
    for topic, size in spec.topics.items():
        subscribers = {
            name
            for name, each in spec.members.items()
            if topic in each.subscribed_topic_ids
        }
        owners = {name for name, topics in found.items() if topics.get(topic)}
        if subscribers:
            assert owners <= subscribers
            shared = {
                each for topics in found.values() for each in topics.get(topic, ())
            }
            assert shared == {*size.assignable}


@pytest.mark.slow
@given(specs(uniform=True))
def test_a_balanced_assignment_is_kept(spec: GroupSpec) -> None:
    first = assign(spec)
    members = {
        name: each._replace(partitions=first.get(name, {}))
        for name, each in spec.members.items()
    }
    second = assign(spec._replace(members=members))
    counts = sum(map(len, (p for t in first.values() for p in t.values())))
    partitions = sum(len(each.assignable) for each in spec.topics.values())
    sharing = -(-len(spec.members) // partitions) if partitions else 0
    if counts == sharing * partitions:
        assert second == first
