"""The member epochs that are accepted in a heartbeat."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.consumer.member import Member
from coterie.broker.coordinator.consumer.members import check_member_epoch
from coterie.broker.coordinator.consumer.reconcile import Owned
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode

A, B = b"a" * 16, b"b" * 16


def member_with(instance_id: str | None = None) -> Member:
    """Return a member at epoch 100 with previous epoch 99."""
    return Member(
        member_id="m",
        instance_id=instance_id,
        epoch=100,
        previous_epoch=99,
        assigned={A: {1: 90, 2: 100}},
    )


both_kinds = pytest.mark.parametrize("instance_id", [None, "i"])


@both_kinds
@pytest.mark.fact("H-06a", "H-06b", "H-06c", "E7-30", "E9-09", "E7-31a", "E7-31b")
@pytest.mark.parametrize(
    ("epoch", "owned"),
    [
        (200, None),
        (101, {A: [1]}),
        (50, {A: [1]}),
        (99, None),
        (99, {A: [1, 3]}),
        (99, {B: [1]}),
        (99, {B: []}),
    ],
)
def test_a_wrong_epoch_is_fenced(
    instance_id: str | None, epoch: int, owned: Owned | None
) -> None:
    with pytest.raises(ApiError) as refusal:
        check_member_epoch(member_with(instance_id), epoch, owned)
    assert refusal.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert f"({epoch})" in str(refusal.value)


@both_kinds
@pytest.mark.parametrize("epoch", [96, 98, 99])
def test_an_epoch_that_the_member_never_had_is_fenced(
    instance_id: str | None, epoch: int
) -> None:
    member = member_with(instance_id)._replace(previous_epoch=97)
    check_member_epoch(member, 97, {A: [1]})
    with pytest.raises(ApiError) as refusal:
        check_member_epoch(member, epoch, {A: [1]})
    assert refusal.value.code is ErrorCode.FENCED_MEMBER_EPOCH


@both_kinds
@pytest.mark.fact("H-06d", "E7-31", "E9-09", "E3-09")
@pytest.mark.parametrize("owned", [{}, {A: [2]}, {A: [2, 1]}, {A: []}])
def test_the_previous_epoch_is_accepted_with_a_subset_of_the_assigned_partitions(
    instance_id: str | None, owned: Owned
) -> None:
    check_member_epoch(member_with(instance_id), 99, owned)


@both_kinds
@pytest.mark.parametrize("owned", [None, {B: [7]}])
def test_the_member_epoch_is_accepted_with_any_owned_partitions(
    instance_id: str | None, owned: Owned | None
) -> None:
    check_member_epoch(member_with(instance_id), 100, owned)
