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


@pytest.mark.fact("H-32", "E11-05")
def test_a_new_member_without_partitions_has_a_changed_target() -> None:
    given = given_members("m", "new", previous={"m": LEFT})
    assign = answers({"m": {A: [0, 1], B: []}})
    new = build_target(group_spec(given), given.previous, assign)
    assert new.changed == {"new": {}}


@pytest.mark.fact("E11-03")
def test_the_assignor_receives_targets_instead_of_assigned_partitions() -> None:
    member = Member(member_id="m", instance_id="i", rack_id="r", assigned={A: {3: 1}})
    given = given_members(members={"m": member}, previous={"m": LEFT})
    spec = group_spec(given).members["m"]
    assert spec.partitions == LEFT
    assert (spec.instance_id, spec.rack_id) == ("i", "r")


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
        build_target(group_spec(given_members("m")), {}, broken)
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
