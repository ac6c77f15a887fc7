"""The target assignment of a group, computed by an assignor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from coterie.broker.coordinator.assignors.spec import (
    Assign,
    Assignment,
    GroupSpec,
    TopicSpec,
)
from coterie.broker.coordinator.consumer.member import Member, Target
from coterie.broker.coordinator.consumer.target import (
    KnownTopic,
    TargetInput,
    build_target,
    group_spec,
)
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode

A, B = b"a" * 16, b"b" * 16
TOPICS = {"a": KnownTopic(A, TopicSpec(4)), "b": KnownTopic(B, TopicSpec(2))}
LEFT: Target = {A: frozenset([0, 1])}
RIGHT: Target = {A: frozenset([2, 3])}


def given_members(*member_ids: str, **changed: Any) -> TargetInput:
    """Return an assignor input whose members subscribe to topic a."""
    members = {one: Member(member_id=one, topic_names=("a",)) for one in member_ids}
    return TargetInput(
        **{"members": members, "previous": {}, "topics": TOPICS, **changed}
    )


def answers(assignment: Mapping[str, Mapping[bytes, list[int]]]) -> Assign:
    """Return an assignor with a fixed assignment."""

    def assign(_: GroupSpec) -> Assignment:
        return assignment

    return assign


SPLIT = answers({"m": {A: [0, 1]}, "n": {A: [3, 2]}})


@pytest.mark.fact("H-30")
def test_an_equal_target_changes_no_member() -> None:
    given = given_members("m", "n", previous={"m": LEFT, "n": RIGHT})
    new = build_target(given, SPLIT)
    assert new.changed == {}
    assert new.targets == {"m": LEFT, "n": RIGHT}


@pytest.mark.fact("H-31")
def test_two_swapped_targets_are_two_changes() -> None:
    given = given_members("m", "n", previous={"m": RIGHT, "n": LEFT})
    assert build_target(given, SPLIT).changed == {"m": LEFT, "n": RIGHT}


@pytest.mark.fact("H-30", "H-31")
def test_only_members_with_a_different_target_change() -> None:
    given = given_members("m", "n", previous={"m": LEFT, "n": {}})
    assert build_target(given, SPLIT).changed == {"n": RIGHT}


@pytest.mark.fact("H-32", "E11-05")
def test_a_new_member_without_partitions_has_a_changed_target() -> None:
    given = given_members("m", "new", previous={"m": LEFT})
    new = build_target(given, answers({"m": {A: [0, 1], B: []}}))
    assert new.changed == {"new": {}}


@pytest.mark.fact("H-32")
def test_a_group_without_members_has_no_changes() -> None:
    assert build_target(given_members(), answers({})).targets == {}


@pytest.mark.fact("H-33")
def test_a_removed_member_has_no_changed_target() -> None:
    given = given_members("m", previous={"m": RIGHT, "gone": LEFT})
    new = build_target(given, answers({"m": {A: [0, 1]}, "gone": {A: [2]}}))
    assert new.changed == {"m": LEFT}
    assert new.targets.keys() == {"m"}


@pytest.mark.fact("E11-03")
def test_the_assignor_receives_targets_instead_of_assigned_partitions() -> None:
    member = Member(member_id="m", instance_id="i", rack_id="r", assigned={A: {3: 1}})
    given = given_members(members={"m": member}, previous={"m": LEFT})
    spec = group_spec(given).members["m"]
    assert spec.partitions == LEFT
    assert (spec.instance_id, spec.rack_id) == ("i", "r")


@pytest.mark.fact("E11-04")
def test_an_unknown_topic_name_is_dropped_from_the_subscription() -> None:
    member = Member(member_id="m", topic_names=("nowhere", "a"))
    spec = group_spec(given_members(members={"m": member}))
    assert spec.members["m"].subscribed_topic_ids == {A}
    assert spec.topics == {A: TopicSpec(4)}


@pytest.mark.fact("E11-04")
def test_a_member_subscribed_to_unknown_topics_gets_no_partitions() -> None:
    member = Member(member_id="m", topic_names=("nowhere",))
    spec = group_spec(given_members(members={"m": member}))
    assert spec.members["m"].subscribed_topic_ids == frozenset()


def test_topics_matched_by_a_regular_expression_are_subscribed() -> None:
    member = Member(member_id="m", topic_names=("a",), topic_regex="b.*")
    given = given_members(members={"m": member}, resolved={"b.*": ["b"]})
    spec = group_spec(given)
    assert spec.members["m"].subscribed_topic_ids == {A, B}
    assert spec.topics.keys() == {A, B}


def test_members_with_equal_subscriptions_share_one_topic_set() -> None:
    members = group_spec(given_members("m", "n")).members
    assert members["m"].subscribed_topic_ids is members["n"].subscribed_topic_ids


@pytest.mark.fact("E11-08")
def test_the_order_of_members_in_the_assignor_input_is_independent_of_joins() -> None:
    orders = (given_members("m", "n", "o"), given_members("o", "n", "m"))
    assert len({tuple(group_spec(given).members) for given in orders}) == 1


def test_an_assignor_error_fails_the_request() -> None:
    def broken(spec: GroupSpec) -> Assignment:
        raise ZeroDivisionError(len(spec.members))

    with pytest.raises(ApiError) as refusal:
        build_target(given_members("m"), broken)
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
