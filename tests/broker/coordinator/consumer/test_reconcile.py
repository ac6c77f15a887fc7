"""The rules of KIP-848 for one step of reconciliation."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.coordinator.consumer.member import Member, MemberState
from coterie.broker.coordinator.consumer.reconcile import (
    FREE,
    Owned,
    ReconcileInput,
    reconcile,
)
from coterie.types import TopicId

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS
Plain = Mapping[TopicId, Collection[int]]


def held(partitions: Plain, epoch: int = 5) -> dict[TopicId, dict[int, int]]:
    """Return the partitions, all with this assignment epoch."""
    return {topic: dict.fromkeys(some, epoch) for topic, some in partitions.items()}


def plain(partitions: Mapping[TopicId, Mapping[int, int]]) -> dict[TopicId, set[int]]:
    return {topic: set(some) for topic, some in partitions.items()}


def member_of(
    assigned: Plain, state: MemberState = STABLE, pending: Plain | None = None
) -> Member:
    """Return a member at epoch 10."""
    return Member(
        member_id="m",
        state=state,
        epoch=10,
        previous_epoch=10,
        assigned=held(assigned),
        pending_revocation=held(pending or {}),
    )


def step(
    target: Plain,
    *,
    epoch: int = 11,
    owned: Owned | None = None,
    taken: Collection[tuple[TopicId, int]] = (),
    subscribed: Collection[TopicId] = (A, B, C),
    changed: bool = False,
) -> ReconcileInput:
    """Return a reconciliation input; other members own the partitions of `taken`."""
    return ReconcileInput(
        target_epoch=epoch,
        target={topic: frozenset(some) for topic, some in target.items()},
        owner_epoch=lambda topic, p: 10 if (topic, p) in taken else FREE,
        owned=owned,
        subscribed=subscribed,
        changed=changed,
    )


def outline(member: Member) -> tuple[MemberState, int, int]:
    return member.state, member.epoch, member.previous_epoch


@pytest.mark.fact("E5-01", "E5-14")
def test_a_stable_member_at_the_targets_epoch_does_not_change() -> None:
    member = member_of({A: [1, 2]})
    assert reconcile(member, step({A: [1, 2, 3]}, epoch=10)) is member


@pytest.mark.fact("H-40", "E5-09", "E3-10", "E5-01a")
def test_a_stable_member_with_an_equal_target_advances_to_its_epoch() -> None:
    after = reconcile(member_of({A: [1, 2]}), step({A: [1, 2]}))
    assert outline(after) == (STABLE, 11, 10)
    assert plain(after.assigned) == {A: {1, 2}}


@pytest.mark.fact("E3-10")
def test_a_new_assignment_sets_previous_epoch_to_the_current_epoch() -> None:
    member = member_of({A: [1, 2]})._replace(previous_epoch=9)
    after = reconcile(member, step({A: [1]}))
    assert outline(after) == (UNREVOKED, 10, 10)


@pytest.mark.fact("H-41", "E5-07")
def test_a_stable_member_gets_all_free_partitions_of_its_target() -> None:
    after = reconcile(member_of({A: [1]}), step({A: [1, 2], B: [7]}))
    assert outline(after) == (STABLE, 11, 10)
    assert plain(after.assigned) == {A: {1, 2}, B: {7}}


@pytest.mark.fact("E3-11")
def test_a_kept_partition_keeps_the_epoch_at_which_it_was_assigned() -> None:
    after = reconcile(member_of({A: [1]}), step({A: [1, 2]}))
    assert after.assigned == {A: {1: 5, 2: 11}}


@pytest.mark.fact("H-42", "E5-06", "E5-12", "E3-06", "E1-03")
def test_a_stable_member_that_must_revoke_keeps_its_epoch_and_gains_nothing() -> None:
    after = reconcile(member_of({A: [1, 2], B: [3]}), step({A: [2, 4]}))
    assert outline(after) == (UNREVOKED, 10, 10)
    assert plain(after.assigned) == {A: {2}}
    assert plain(after.pending_revocation) == {A: {1}, B: {3}}


@pytest.mark.fact("H-43", "E5-05", "E5-07", "E3-07", "E5-05a")
def test_a_stable_member_gets_free_partitions_and_waits_for_the_others() -> None:
    after = reconcile(member_of({A: [1]}), step({A: [1, 2, 3]}, taken=[(A, 3)]))
    assert outline(after) == (UNRELEASED, 11, 10)
    assert plain(after.assigned) == {A: {1, 2}}


@pytest.mark.fact("E5-05")
@pytest.mark.parametrize("taken", [[], [(B, 6)], [(C, 8)]])
def test_each_topic_of_the_assignment_and_the_target_is_compared(
    taken: list[tuple[TopicId, int]],
) -> None:
    member = member_of({A: [1, 2], B: [3, 4]})
    target = {B: [4, 5, 6], C: [7, 8]}
    waits = reconcile(member, step(target, owned={B: [3]}, taken=taken))
    assert outline(waits) == (UNREVOKED, 10, 10)
    assert plain(waits.assigned) == {B: {4}}
    assert plain(waits.pending_revocation) == {A: {1, 2}, B: {3}}
    after = reconcile(waits, step(target, owned={B: [4]}, taken=taken))
    assert after.state is (UNRELEASED if taken else STABLE)
    assert plain(after.assigned) == {
        topic: set(partitions) - {p for of, p in taken if of == topic}
        for topic, partitions in target.items()
    }


@pytest.mark.fact("E5-08", "E3-07")
def test_a_member_that_waits_for_all_new_partitions_has_the_target_epoch() -> None:
    after = reconcile(member_of({A: [1]}), step({A: [1, 3]}, taken=[(A, 3)]))
    assert outline(after) == (UNRELEASED, 11, 10)
    assert plain(after.assigned) == {A: {1}}


@pytest.mark.fact("H-44", "E5-06", "E5-10")
def test_a_member_that_does_not_own_the_partitions_skips_the_revocation() -> None:
    member = member_of({A: [1, 2]})
    asked = step({A: [2, 3, 4]}, owned={A: [2]}, taken=[(A, 4)])
    after = reconcile(member, asked)
    assert outline(after) == (UNRELEASED, 11, 10)
    assert plain(after.assigned) == {A: {2, 3}}
    assert after.pending_revocation == {}


@pytest.mark.fact("E5-06")
def test_a_member_that_owns_some_of_the_partitions_must_revoke_them() -> None:
    after = reconcile(member_of({A: [1, 2, 3]}), step({A: [3]}, owned={A: [2, 3]}))
    assert after.state is UNREVOKED


@pytest.mark.fact("H-45a", "H-45b", "E5-02", "E5-14")
@pytest.mark.parametrize("owned", [None, {A: [1, 2]}, {B: [3], A: [9, 1]}])
def test_an_unrevoked_member_does_not_change_before_it_revokes(
    owned: Owned | None,
) -> None:
    member = member_of({A: [2]}, UNREVOKED, {A: [1]})
    assert reconcile(member, step({A: [2]}, epoch=12, owned=owned)) is member


@pytest.mark.fact("H-45c", "E5-02a")
@pytest.mark.parametrize("owned", [{}, {A: [2]}, {B: [1]}])
def test_an_unrevoked_member_is_stable_once_it_has_revoked(owned: Owned) -> None:
    member = member_of({A: [2]}, UNREVOKED, {A: [1]})
    after = reconcile(member, step({A: [2, 5]}, owned=owned))
    assert outline(after) == (STABLE, 11, 10)
    assert plain(after.assigned) == {A: {2, 5}}
    assert after.pending_revocation == {}


@pytest.mark.fact("H-46", "E5-11", "E5-02a")
def test_a_newer_target_can_request_another_revocation() -> None:
    member = member_of({A: [2, 3]}, UNREVOKED, {A: [1]})
    after = reconcile(member, step({A: [3]}, epoch=15, owned={A: [2, 3]}))
    assert outline(after) == (UNREVOKED, 10, 10)
    assert plain(after.assigned) == {A: {3}}
    assert plain(after.pending_revocation) == {A: {2}}


@pytest.mark.fact("H-47", "E5-02a")
def test_after_its_revocation_a_member_may_wait_for_partitions_of_others() -> None:
    member = member_of({A: [2]}, UNREVOKED, {A: [1]})
    asked = step({A: [2, 4]}, epoch=13, owned={A: [2]}, taken=[(A, 4)])
    assert outline(reconcile(member, asked)) == (UNRELEASED, 13, 10)


@pytest.mark.fact("H-48a", "E5-03", "E5-13")
def test_an_unreleased_member_is_stable_once_the_partition_is_free() -> None:
    member = member_of({A: [2]}, UNRELEASED)
    after = reconcile(member, step({A: [2, 4]}, epoch=10))
    assert outline(after) == (STABLE, 10, 10)
    assert after.assigned == {A: {2: 5, 4: 10}}


@pytest.mark.fact("E5-03", "E5-14")
def test_an_unreleased_member_does_not_change_while_it_waits() -> None:
    member = member_of({A: [2]}, UNRELEASED)
    asked = step({A: [2, 4]}, epoch=10, taken=[(A, 4)])
    assert reconcile(member, asked) is member


@pytest.mark.fact("E5-03")
def test_an_unreleased_member_gets_free_partitions_and_waits_for_others() -> None:
    member = member_of({A: [2]}, UNRELEASED)
    asked = step({A: [2, 4, 5]}, epoch=11, taken=[(A, 4)])
    after = reconcile(member, asked)
    assert outline(after) == (UNRELEASED, 11, 10)
    assert plain(after.assigned) == {A: {2, 5}}


@pytest.mark.fact("H-48b", "E5-03")
def test_an_unreleased_member_must_revoke_when_the_target_changes() -> None:
    after = reconcile(member_of({A: [2]}, UNRELEASED), step({A: [4]}))
    assert outline(after) == (UNREVOKED, 10, 10)
    assert plain(after.pending_revocation) == {A: {2}}


@pytest.mark.fact("H-49b", "E5-04a")
def test_a_member_in_unknown_state_without_partitions_advances_to_the_target() -> None:
    member = member_of({A: [1]}, MemberState.UNKNOWN)
    after = reconcile(member, step({A: [1, 2]}, owned={}))
    assert outline(after) == (STABLE, 11, 10)
    assert plain(after.assigned) == {A: {1, 2}}


@pytest.mark.fact("E5-15")
def test_an_unsubscribed_topic_is_revoked_although_the_target_has_it() -> None:
    member = member_of({A: [1], B: [2]})
    asked = step({A: [1], B: [2]}, epoch=10, subscribed=[A], changed=True)
    after = reconcile(member, asked)
    assert outline(after) == (UNREVOKED, 10, 10)
    assert plain(after.assigned) == {A: {1}}
    assert plain(after.pending_revocation) == {B: {2}}


@pytest.mark.fact("E5-15")
def test_a_subscription_that_covers_all_partitions_changes_nothing() -> None:
    member = member_of({A: [1]})
    asked = step({A: [1]}, epoch=10, subscribed=[A, B], changed=True)
    assert reconcile(member, asked) is member


@pytest.mark.fact("E5-15a")
def test_an_unsubscribed_topic_is_added_to_pending_revocations() -> None:
    member = member_of({A: [2], B: [3]}, UNREVOKED, {A: [1]})
    after = reconcile(member, step({A: [2], B: [3]}, subscribed=[A], changed=True))
    assert outline(after) == (UNREVOKED, 10, 10)
    assert plain(after.assigned) == {A: {2}}
    assert plain(after.pending_revocation) == {A: {1}, B: {3}}


@pytest.mark.fact("E5-05c")
def test_a_member_that_revokes_topic_by_topic_stays_below_the_target_epoch() -> None:
    member = member_of({A: [2]}, UNREVOKED, {B: [3]})
    owned = {A: [2]}
    asked = step({A: [2], B: [3]}, epoch=10, owned=owned, subscribed=[])
    after = reconcile(member, asked)
    assert outline(after)[:2] == (UNREVOKED, 10)
    assert plain(after.pending_revocation) == {A: {2}}


def test_a_subscription_to_all_assigned_topics_keeps_an_unrevoked_member() -> None:
    member = member_of({A: [2]}, UNREVOKED, {A: [1]})
    asked = step({A: [2]}, subscribed=[A], changed=True)
    assert reconcile(member, asked) is member


@pytest.mark.fact("E5-15")
def test_an_unsubscribed_topic_without_a_change_waits_for_the_next_target() -> None:
    member = member_of({A: [1], B: [2]})
    assert reconcile(member, step({A: [1]}, epoch=10, subscribed=[A])) is member
    unrevoked = member_of({A: [2], B: [3]}, UNREVOKED, {A: [1]})
    assert reconcile(unrevoked, step({A: [2]}, subscribed=[A])) is unrevoked


@pytest.mark.fact("E5-15", "E5-10")
def test_an_unsubscribed_topic_that_is_not_owned_is_revoked_already() -> None:
    member = member_of({A: [1], B: [2]})
    asked = step({A: [1]}, epoch=10, owned={A: [1]}, subscribed=[A], changed=True)
    after = reconcile(member, asked)
    assert outline(after) == (STABLE, 10, 10)
    assert plain(after.assigned) == {A: {1}}
    assert after.pending_revocation == {}


@pytest.mark.fact("E5-15")
def test_an_unsubscribed_topic_of_the_target_is_not_assigned() -> None:
    after = reconcile(member_of({A: [1]}), step({A: [1], B: [2]}, subscribed=[A]))
    assert outline(after) == (STABLE, 11, 10)
    assert plain(after.assigned) == {A: {1}}


@pytest.mark.fact("E5-05", "E5-13")
@pytest.mark.parametrize("epoch", [10, 11])
def test_a_member_gets_its_own_revoked_partition_back_at_once(epoch: int) -> None:
    member = member_of({A: [2]}, UNREVOKED, {A: [1, 3]})
    taken = [(A, 1), (A, 3), (A, 4)]  # 4 is another member's
    asked = step({A: [1, 2, 4]}, epoch=epoch, owned={A: [2]}, taken=taken)
    after = reconcile(member, asked)
    assert outline(after) == (UNRELEASED, epoch, 10)
    assert after.assigned == {A: {1: epoch, 2: 5}}
    assert after.pending_revocation == {}


partition_sets = st.dictionaries(
    st.sampled_from([A, B]), st.frozensets(st.integers(0, 4), min_size=1)
)


@settings(max_examples=50)
@given(
    assigned=partition_sets,
    target=partition_sets,
    owned=st.none() | partition_sets,
    taken=st.frozensets(st.tuples(st.sampled_from([A, B]), st.integers(0, 4))),
)
def test_a_member_gains_only_free_partitions_of_its_target(
    assigned: Plain,
    target: Plain,
    owned: Owned | None,
    taken: frozenset[tuple[TopicId, int]],
) -> None:
    before = {(t, p) for t, some in assigned.items() for p in some}
    others = taken - before  # a partition has one owner
    asked = step(target, owned=owned, taken=others)
    after = reconcile(member_of(assigned), asked)
    has = {(t, p) for t, some in after.assigned.items() for p in some}
    pending = {(t, p) for t, some in after.pending_revocation.items() for p in some}
    wanted = {(t, p) for t, some in target.items() for p in some}
    assert has <= wanted
    assert not has & others
    assert pending == (before - wanted if after.state is UNREVOKED else set())
    assert after.state is not UNREVOKED or has == before & wanted
    assert after.state is not STABLE or has == wanted
