"""Invariants and epochs of `Member`."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import (
    Member,
    MemberState,
    unique_names,
)
from tests.broker.coordinator.consumer.groups import GroupDriver


@pytest.mark.fact("E2-07")
def test_subscribed_topic_names_are_sorted_and_unique() -> None:
    assert unique_names(["b", "a", "b"]) == ("a", "b")
    driver = GroupDriver()
    driver.join("m", ["foo", "bar", "foo"])
    assert driver.member("m").topic_names == ("bar", "foo")


@pytest.mark.parametrize("value", [3, 126, 127, -1])
def test_a_state_of_a_later_version_is_unknown(value: int) -> None:
    assert MemberState(value) is MemberState.UNKNOWN


@pytest.mark.parametrize(
    ("state", "pending"),
    [(MemberState.STABLE, {2: 5}), (MemberState.UNREVOKED_PARTITIONS, {1: 5})],
)
def test_pending_revocations_outside_unrevoked_or_also_assigned_are_invalid(
    state: MemberState, pending: dict[int, int]
) -> None:
    with pytest.raises(AssertionError):
        Member(
            member_id="m",
            state=state,
            assigned={b"a" * 16: {1: 5}},
            pending_revocation={b"a" * 16: pending},
        ).check()


def test_a_member_epoch_below_minus_two_is_invalid() -> None:
    with pytest.raises(AssertionError):
        Member(member_id="m", epoch=-3).check()
    with pytest.raises(AssertionError):
        ConsumerGroup("g").put_member(Member(member_id="m", epoch=-3))
