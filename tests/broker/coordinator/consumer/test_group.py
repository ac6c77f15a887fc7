"""The state of a consumer group, and the fields derived from its members."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.coordinator.consumer.group import (
    ConsumerGroup,
    ConsumerGroupState,
)
from coterie.broker.coordinator.consumer.member import (
    ClassicMemberInfo,
    Member,
    MemberState,
    unique_names,
)
from coterie.broker.coordinator.consumer.reconcile import FREE
from tests.broker.coordinator.consumer.groups import Unread

A, B = b"a" * 16, b"b" * 16
CLASSIC = ClassicMemberInfo(session_timeout_ms=1, protocols=())


def group_of(*members: Member) -> ConsumerGroup:
    group = ConsumerGroup("group")
    for member in members:
        group.put_member(member)
    return group


@pytest.mark.parametrize(
    "state", [MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS]
)
def test_an_unreconciled_member_makes_the_group_reconciling(state: MemberState) -> None:
    group = group_of(
        Member(member_id="m", epoch=0), Member(member_id="n", epoch=0, state=state)
    )
    assert group.state is ConsumerGroupState.RECONCILING


@pytest.mark.fact("E2-05", "E2-05b", "E2-05c")
def test_derived_counts_are_updated_when_a_member_changes() -> None:
    group = group_of(
        Member(member_id="m", topic_names=("a", "b"), server_assignor="range"),
        Member(member_id="n", topic_names=("b",), classic=CLASSIC),
    )
    assert group.topic_counts == {"a": 1, "b": 2}
    assert group.assignor_counts == {"range": 1}
    assert group.classic_count == 1
    group.put_member(Member(member_id="m", topic_names=("b",)))
    group.put_member(Member(member_id="n", topic_names=("c",)))
    assert group.topic_counts == Counter({"b": 1, "c": 1})
    assert "a" not in group.topic_counts
    assert group.assignor_counts == {}
    assert group.classic_count == 0


@pytest.mark.fact("E2-05a")
def test_an_instance_id_maps_to_the_replacing_member() -> None:
    group = group_of(Member(member_id="old", instance_id="i"))
    group.put_member(Member(member_id="new", instance_id="i"))
    group.remove_member("old")
    assert group.static_members == {"i": "new"}
    group.remove_member("new")
    assert group.static_members == {}


@pytest.mark.fact("E2-06", "E2-06a")
def test_a_partition_is_owned_while_assigned_or_pending_revocation() -> None:
    group = group_of(
        Member(
            member_id="m",
            epoch=7,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned={A: {1: 7}},
            pending_revocation={B: {2: 5}},
        )
    )
    assert group.owner_epoch(A, 1) == 7
    assert group.owner_epoch(B, 2) == 7
    assert group.owner_epoch(A, 2) == FREE == -1
    group.put_member(Member(member_id="m", epoch=8, assigned={A: {1: 7}}))
    assert group.owner_epoch(A, 1) == 8
    assert group.owner_epoch(B, 2) == FREE
    group.remove_member("m")
    assert group.owner_epoch(A, 1) == FREE


@pytest.mark.fact("H-51", "E2-06b")
@pytest.mark.parametrize("epoch", [6, 7, 8])
def test_a_partition_with_two_owners_is_an_error(epoch: int) -> None:
    group = group_of(Member(member_id="m", epoch=7, assigned={A: {1: 7}}))
    with pytest.raises(AssertionError, match="still owned at 7"):
        group.put_member(Member(member_id="n", epoch=epoch, assigned={A: {1: epoch}}))


def test_a_member_without_a_target_has_an_empty_one() -> None:
    group = group_of(Member(member_id="m"))
    assert group.target("m") == {}
    group.targets["m"] = {A: frozenset([1])}
    assert group.target("m") == {A: {1}}


def test_removing_an_unknown_member_does_nothing() -> None:
    group = group_of(Member(member_id="m"))
    group.remove_member("n")
    assert group.members.keys() == {"m"}


@pytest.mark.fact("E12-02", "E12-03", "E12-03a")
@pytest.mark.parametrize(
    ("named", "preferred"),
    [
        ([], "uniform"),
        ([None, None], "uniform"),
        (["range", None, None], "range"),
        (["range", "uniform", "range"], "range"),
    ],
)
def test_the_assignor_that_most_members_request_is_preferred(
    named: list[str | None], preferred: str
) -> None:
    members = [
        Member(member_id=str(number), server_assignor=name)
        for number, name in enumerate(named)
    ]
    assert group_of(*members).preferred_assignor(["uniform", "range"]) == preferred


@pytest.mark.fact("E12-04")
@pytest.mark.parametrize("configured", [["uniform", "range"], ["range", "uniform"]])
def test_a_tie_selects_the_first_configured_assignor(configured: list[str]) -> None:
    group = group_of(
        Member(member_id="m", server_assignor="range"),
        Member(member_id="n", server_assignor="uniform"),
    )
    assert group.preferred_assignor(configured) == configured[0]


members = st.builds(
    partial(Member),  # of the class, all fields would be generated
    member_id=st.sampled_from("mno"),
    instance_id=st.none() | st.sampled_from("ij"),
    topic_names=st.lists(st.sampled_from("ab")).map(unique_names),
    topic_regex=st.none() | st.just("a.*"),
    server_assignor=st.none() | st.just("range"),
    classic=st.none() | st.just(CLASSIC),
)


@pytest.mark.fact("E2-05")
@settings(max_examples=30)
@given(st.lists(members | st.sampled_from("mno"), max_size=12))
def test_derived_state_equals_that_of_a_new_group_with_the_same_members(
    steps: list[Member | str],
) -> None:
    group = ConsumerGroup("group")
    for each in steps:
        if isinstance(each, str):
            group.remove_member(each)
        else:
            group.put_member(each)
    left = group.members.values()
    fresh = group_of(*left)
    assert group.topic_counts == fresh.topic_counts
    assert group.assignor_counts == fresh.assignor_counts
    assert group.classic_count == fresh.classic_count
    assert all(
        group.members[member_id].instance_id == instance
        for instance, member_id in group.static_members.items()
    )


def test_the_state_is_counted_not_read_from_all_members() -> None:
    group = ConsumerGroup("g")
    group.epoch = group.assignment_epoch = 2
    waiting = Member(member_id="n", epoch=2, state=MemberState.UNRELEASED_PARTITIONS)
    for member in (Member(member_id="m", epoch=1), Member(member_id="m", epoch=2)):
        group.put_member(member)
    group.put_member(waiting)
    group.members = Unread(group.members)
    assert group.state is ConsumerGroupState.RECONCILING
    group.put_member(Member(member_id="n", epoch=2))
    assert group.state is ConsumerGroupState.STABLE
    group.put_member(Member(member_id="n", epoch=1))
    assert group.state is ConsumerGroupState.RECONCILING
    group.remove_member("n")
    assert group.state is ConsumerGroupState.STABLE
