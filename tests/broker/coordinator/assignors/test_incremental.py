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
    Stack,
    plan,
    replan,
)
from coterie.broker.coordinator.assignors.spec import Assignment, GroupSpec
from coterie.testing.assignment_quality import quality
from tests.broker.coordinator.assignors.specs import (
    again,
    check,
    group,
    named,
    topic_id,
)

TOPICS = {"a": 7, "b": 6}
JOINS_AND_LEAVES = st.lists(
    st.tuples(st.sets(st.integers(0, 30), max_size=3), st.integers(0, 3)), max_size=12
)


def group_of(*members: str) -> GroupSpec:
    return group(TOPICS, dict.fromkeys(members, "ab"))


def churned(
    before: GroupSpec, joining: set[str], leaving: set[str]
) -> tuple[GroupSpec, Churn]:
    """Return the group after joins and leaves, and the change since the last plan."""
    stay = {
        member_id: member
        for member_id, member in before.members.items()
        if member_id not in leaving
    }
    new = {one: group_of(one).members[one] for one in sorted(joining - stay.keys())}
    churn = Churn(
        topics=before.topics,
        owned={member_id: member.partitions for member_id, member in stay.items()},
        joined=[*new.values()],
        left={one: before.members[one].partitions for one in sorted(leaving)},
    )
    return GroupSpec({**stay, **new}, before.topics), churn


def after(spec: GroupSpec, made: Plan) -> Assignment:
    owned = {one: member.partitions for one, member in spec.members.items()}
    return {**owned, **made.changed}


def fitting(spec: GroupSpec) -> tuple[GroupSpec, IncrementalState]:
    """Return a group with its planned assignment, and the state for replanning."""
    made = plan(spec)
    assert made.kept is not None
    return again(spec, made.changed), made.kept


@pytest.mark.fact("E11-41")
@given(steps=JOINS_AND_LEAVES)
def test_incremental_assignments_stay_balanced_with_the_fewest_moves(
    steps: list[tuple[set[int], int]],
) -> None:
    spec, kept = fitting(group_of("m1", "m2", "m3"))
    for numbers, leaves in steps:
        joining = {f"m{number}" for number in numbers} - spec.members.keys()
        leaving = {*sorted(spec.members)[:leaves]}
        if leaving == spec.members.keys():
            continue
        grown, churn = churned(spec, joining, leaving)
        made = replan(kept, churn) or plan(grown)
        assert made.kept is not None
        result = after(grown, made)
        check(grown, result)
        found = quality(grown, result)
        assert found.spread <= 1
        assert found.moved == found.moves_needed
        spec, kept = again(grown, result), made.kept


def test_a_join_returns_the_changed_members() -> None:
    spec, kept = fitting(group_of(*(f"m{number}" for number in range(9))))
    grown, churn = churned(spec, {"n"}, set())
    made = replan(kept, churn)
    assert made is not None
    assert len(made.changed) == 2
    assert quality(grown, after(grown, made))[:3] == (1, 1, 1)


@pytest.mark.fact("E11-08")
def test_replanning_is_deterministic_and_does_not_modify_its_input() -> None:
    spec, kept = fitting(group_of("m1", "m2", "m3", "m4"))
    _, churn = churned(spec, {"m7"}, {"m2"})
    asked = copy.deepcopy((kept, churn))
    first = replan(kept, churn)
    assert (kept, churn) == asked
    assert first == replan(kept, churn)
    assert first is not None


def test_replanning_an_unsupported_change_returns_none() -> None:
    spec, kept = fitting(group_of("m1", "m2", "m3"))
    _, churn = churned(spec, {"m4"}, set())
    assert replan(kept, churn) is not None
    other_topics = group({"a": 8, "b": 6}, {}).topics
    assert replan(kept, churn._replace(topics=other_topics)) is None
    other_wish = group(TOPICS, {"m4": "a"}).members["m4"]
    assert replan(kept, churn._replace(joined=[other_wish])) is None
    rejoined = churn.joined[0]._replace(partitions={topic_id("a"): frozenset([1])})
    assert replan(kept, churn._replace(joined=[rejoined])) is None
    assert replan(kept, churn._replace(owned={})) is None
    other_targets = {one: {topic_id("a"): [0]} for one in churn.owned}
    assert replan(kept, churn._replace(owned=other_targets)) is None


def test_many_simultaneous_joins_require_a_full_plan() -> None:
    spec, kept = fitting(group_of("m1"))
    _, churn = churned(spec, {f"n{number}" for number in range(9)}, set())
    assert replan(kept, churn) is None


def test_a_full_plan_equals_uniform_and_has_state_only_for_equal_subscriptions() -> (
    None
):
    spec = group_of("m1", "m2")
    assert named(plan(spec).changed) == named(uniform.assign(spec))
    mixed = group(TOPICS, {"m1": "a", "m2": "ab"})
    assert plan(mixed) == (uniform.assign(mixed), None)


@given(more=st.lists(st.lists(st.text(max_size=2), max_size=400), max_size=6))
def test_a_stack_returns_the_last_element_first(more: list[list[str]]) -> None:
    stack, expected = Stack(), list[str]()
    for some in more:
        stack = stack.with_more(some)
        expected += some
        assert [*stack.downwards()] == expected[::-1]
        stack, expected = (
            stack.without(len(some) // 2),
            expected[: len(expected) - len(some) // 2],
        )
        assert [*stack.downwards()] == expected[::-1]
        assert len(stack) == len(expected)
