"""Which member computes the assignment, and for how long it may (E13-01, E13-08)."""

from __future__ import annotations

from coterie.coordinator.consumer.changes import ComputationSet
from coterie.coordinator.consumer.client_side.mode import common_assignor
from coterie.coordinator.consumer.client_side.values import Computation
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.member import STATIC_LEAVE_EPOCH, Member
from coterie.coordinator.consumer.timers import cancel_computation, computation_timer


def is_client_side(draft: Draft) -> bool:
    """Whether members compute this group's next target.

    It costs what different lists of assignors there are, not what members.
    """
    if not draft.context.settings.group_consumer_client_assignors_enable:
        return False
    return common_assignor(draft.offers(), draft.size) is not None


def delegate(draft: Draft, sender: Member) -> bool:
    """Have a member compute the target of the group's epoch; whether it is this one,
    whose heartbeat we have, and so the one that is told first (E13-10).

    A group without any target gets an empty one, an epoch below: who joins must not be
    at epoch 0, which means that it is joining (E3-08).
    """
    if draft.assignment_epoch <= 0:
        draft.put_target_epoch()
        draft.bump()
    chosen = draft.group.computation
    if chosen is not None and draft.member(chosen.member_id) is not None:
        return chosen.member_id == sender.member_id
    passed_over = frozenset() if chosen is None else chosen.passed_over
    if sender.member_id in passed_over:
        if _is_another_left(draft, passed_over):
            return False
        passed_over = frozenset()  # everybody has had its time: begin anew
    choose(draft, sender, passed_over)
    return True


def _is_another_left(draft: Draft, passed_over: frozenset[str]) -> bool:
    """Whether a member is still to have its time; one that is away cannot be told."""
    return any(
        member.epoch != STATIC_LEAVE_EPOCH and member_id not in passed_over
        for member_id, member in draft.members().items()
    )


def choose(
    draft: Draft, member: Member, passed_over: frozenset[str] = frozenset()
) -> None:
    """This member computes from now on; it has its own rebalance timeout (E8-09)."""
    assert member.client_assignors, "who computes has something to compute with"
    computation = Computation(member.member_id, passed_over=passed_over)
    draft.make(ComputationSet(draft.group_id, computation))
    draft.set(computation_timer(draft.group_id, member, draft.context.now_ms))


def end(draft: Draft) -> None:
    """Nobody computes any more."""
    draft.make(ComputationSet(draft.group_id, None))
    draft.set(cancel_computation(draft.group_id))


def pass_over(draft: Draft, member_id: str) -> None:
    """The member took too long: whoever is heard of next computes instead of it."""
    chosen = draft.group.computation
    if chosen is None or chosen.member_id != member_id:
        return
    nobody = Computation("", passed_over=chosen.passed_over | {member_id})
    draft.make(ComputationSet(draft.group_id, nobody))
