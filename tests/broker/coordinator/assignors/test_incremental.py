"""Balance and moves of incremental assignments, compared with full ones."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.coordinator.assignors import uniform
from coterie.broker.coordinator.assignors.incremental import (
    Churn,
    IncrementalState,
    Plan,
    plan,
    replan,
)
from coterie.broker.coordinator.assignors.spec import Assignment, GroupSpec
from coterie.testing.assignment_quality import quality
from coterie.types import TopicId
from tests.broker.coordinator.assignors.specs import (
    again,
    check,
    group,
    named,
    topic_id,
)

TOPICS = {"a": 7, "b": 6}
JOINS_AND_LEAVES = st.lists(
    st.tuples(
        st.sets(st.integers(0, 30), max_size=4), st.sets(st.integers(0, 30), max_size=9)
    ),
    max_size=12,
)


def group_of(*members: str) -> GroupSpec:
    return group(TOPICS, dict.fromkeys(members, "ab"))


def churned(
    before: GroupSpec, joining: set[str], leaving: set[str]
) -> tuple[GroupSpec, Churn]:
    """Return the group after joins and leaves, and the change since the last plan.

    A member of both sets leaves and joins again.
    """
    stay = {
        member_id: member
        for member_id, member in before.members.items()
        if member_id not in leaving
    }
    new = {one: group_of(one).members[one] for one in sorted(joining - stay.keys())}
    churn = Churn(
        topics=sizes(before),
        owned={member_id: member.partitions for member_id, member in stay.items()},
        joined=[*new],
        left={one: before.members[one].partitions for one in sorted(leaving)},
    )
    members = {**stay, **new}
    return GroupSpec(dict(sorted(members.items())), before.topics), churn


def sizes(spec: GroupSpec) -> dict[TopicId, int]:
    return {topic: each.partition_count for topic, each in spec.topics.items()}


def after(spec: GroupSpec, made: Plan) -> Assignment:
    owned = {one: member.partitions for one, member in spec.members.items()}
    return {**owned, **made.changed}


def fitting(spec: GroupSpec) -> tuple[GroupSpec, IncrementalState]:
    """Return a group with its planned assignment, and the state for replanning."""
    made = plan(spec)
    assert made.state is not None
    return again(spec, made.changed), made.state


@pytest.mark.fact("E11-41")
@given(steps=JOINS_AND_LEAVES)
def test_incremental_assignments_equal_full_ones(
    steps: list[tuple[set[int], set[int]]],
) -> None:
    spec, state = fitting(group_of("m1", "m2", "m3"))
    for joins, leaves in steps:
        leaving = {f"m{number}" for number in leaves} & spec.members.keys()
        joining = {f"m{number}" for number in joins}
        grown, churn = churned(spec, joining, leaving)
        full = uniform.assign(grown)
        if not grown.members:
            assert replan(state, churn) is None
            continue
        made = replan(state, churn)
        assert made is not None, "a small group is always replanned"
        result = after(grown, made)
        check(grown, result)
        assert named(result) == named(full)
        assert made.changed.keys() >= {*churn.joined}
        assert made.state == plan(grown).state
        found = quality(grown, result)
        assert found.spread <= 1
        assert found.moved == found.moves_needed
        assert made.state is not None
        spec, state = again(grown, result), made.state


@pytest.mark.slow
@given(
    size=st.integers(150, 200),
    joins=st.sets(st.integers(0, 999), max_size=70),
    leaves=st.sets(st.integers(0, 259), max_size=70),
)
def test_larger_changes_equal_full_ones(
    size: int, joins: set[int], leaves: set[int]
) -> None:
    topics = {"a": 200, "b": 30}
    names = [f"m{number:03}" for number in range(size)]
    spec, state = fitting(group(topics, dict.fromkeys(names, "ab")))
    leaving = {f"m{number:03}" for number in leaves} & spec.members.keys()
    grown, churn = churned(spec, {f"n{number:03}" for number in joins}, leaving)
    made = replan(state, churn)
    if made is not None:
        assert named(after(grown, made)) == named(uniform.assign(grown))
        assert made.state == plan(grown).state


def test_a_join_returns_the_changed_members() -> None:
    spec, state = fitting(group_of(*(f"m{number}" for number in range(9))))
    grown, churn = churned(spec, {"n"}, set())
    made = replan(state, churn)
    assert made is not None
    assert len(made.changed) == 2
    assert quality(grown, after(grown, made))[:3] == (1, 1, 1)


def test_a_member_that_leaves_and_joins_again_is_a_new_one() -> None:
    spec, state = fitting(group_of("m1", "m2", "m3"))
    grown, churn = churned(spec, {"m2"}, {"m2"})
    made = replan(state, churn)
    assert made is not None
    assert named(after(grown, made)) == named(uniform.assign(grown))
    assert "m2" in made.changed


@pytest.mark.fact("E11-08")
def test_replanning_is_deterministic_and_does_not_modify_its_input() -> None:
    spec, state = fitting(group_of("m1", "m2", "m3", "m4"))
    _, churn = churned(spec, {"m7"}, {"m2"})
    asked = copy.deepcopy((state, churn))
    first = replan(state, churn)
    assert (state, churn) == asked
    assert first == replan(state, churn)
    assert first is not None


def test_replanning_an_unsupported_change_returns_none() -> None:
    spec, state = fitting(group_of("m1", "m2", "m3"))
    _, churn = churned(spec, {"m4"}, set())
    assert replan(state, churn) is not None
    other_topics = {**sizes(spec), topic_id("a"): 8}
    assert replan(state, churn._replace(topics=other_topics)) is None
    stranger = {"m5": {topic_id("a"): [0]}}
    assert replan(state, churn._replace(left=stranger)) is None
    assert replan(state, churn._replace(owned={})) is None
    other_targets = {one: {topic_id("a"): [0]} for one in churn.owned}
    assert replan(state, churn._replace(owned=other_targets)) is None
    _, leave = churned(spec, set(), {"m1"})
    assert replan(state, leave) is not None
    for wrong in ({}, {topic_id("a"): [0, 1, 2, 3, 4, 5, 6]}):
        assert replan(state, leave._replace(left={"m1": wrong})) is None


def test_many_simultaneous_joins_require_a_full_plan() -> None:
    topics = {"a": 300}
    names = [f"m{number:03}" for number in range(100)]
    spec, state = fitting(group(topics, dict.fromkeys(names, "a")))
    _, churn = churned(spec, {f"n{number}" for number in range(99)}, set())
    assert replan(state, churn) is None


def test_a_full_plan_equals_uniform_and_has_state_only_for_equal_subscriptions() -> (
    None
):
    spec = group_of("m1", "m2")
    assert named(plan(spec).changed) == named(uniform.assign(spec))
    mixed = group(TOPICS, {"m1": "a", "m2": "ab"})
    assert plan(mixed) == (uniform.assign(mixed), None)
    assert plan(group_of()) == ({}, None)
