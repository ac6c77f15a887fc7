"""Reconcile a member with its target assignment, one step at a time (KIP-848).

The state machine is that of Kafka's `CurrentAssignmentBuilder`. `reconcile` is a pure
function of a member and a `ReconcileInput`. It returns the member after the step, or
the same object when nothing changed; then no record is written.

Revocation comes first: a member receives new partitions only after it has reported the
revocation of all partitions that its target lacks, and a partition is assigned
only when no other member owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.consumer.member import (
    AssignedPartitions,
    Member,
    MemberState,
    Target,
)
from coterie.errors import ApiError
from coterie.types import TopicId
from coterie.wire.error_codes import ErrorCode

FREE: Final = -1
"""The owner epoch of a partition without an owner."""
OwnerEpoch: TypeAlias = Callable[[TopicId, int], int]
"""Topic id, partition -> the epoch of the member that owns it, or `FREE`."""
Owned: TypeAlias = Mapping[TopicId, Collection[int]]
"""The partitions that a member reports as owned; empty when it owns none."""

_NOTHING: Final[AssignedPartitions] = {}
_NO_EPOCHS: Final[Mapping[int, int]] = {}
_NO_TARGET: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileInput:
    """The inputs of a step beside the member.

    `owned` is None when the heartbeat does not report it. `subscribed` holds the ids of
    the topics that the member subscribes to; the member loses all other topics,
    although its target, which may be older, still contains them. If the subscription
    `changed` in this heartbeat, it loses them at once.
    """

    target_epoch: int
    target: Target
    owner_epoch: OwnerEpoch
    subscribed: Collection[TopicId]
    owned: Owned | None = None
    changed: bool = False

    def __post_init__(self) -> None:
        assert self.target_epoch >= 0, self.target_epoch


class _Difference(NamedTuple):
    """The difference between a member's assignment and its target."""

    keep: dict[TopicId, dict[int, int]]
    revoke: dict[TopicId, dict[int, int]]
    add: dict[TopicId, list[int]]
    is_waiting: bool
    """True when another member still owns a partition of the target."""


def reconcile(member: Member, inputs: ReconcileInput) -> Member:
    """Return the member after one step; the same object if nothing changed.

    Raises:
        ApiError: FENCED_MEMBER_EPOCH: the member's state was written by a later
            version, and it has not revoked all its partitions.
    """
    after = _next_member(member, inputs)
    return member if after == member else after


def _next_member(member: Member, inputs: ReconcileInput) -> Member:
    match member.state:
        case MemberState.STABLE:
            if member.epoch != inputs.target_epoch:
                return _next_assignment(member, member.epoch, inputs)
            return _without_lost_topics(member, inputs) if inputs.changed else member
        case MemberState.UNREVOKED_PARTITIONS:
            if not _still_owns(inputs.owned, member.pending_revocation):
                # The epoch stays, although KIP-848 advances it by one.
                return _next_assignment(member, member.epoch, inputs)
            return _without_lost_topics(member, inputs) if inputs.changed else member
        case MemberState.UNRELEASED_PARTITIONS:
            return _next_assignment(member, member.epoch, inputs)
        case _:
            if inputs.owned is None or inputs.owned:
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. The member must "
                    "abandon all its partitions and rejoin.",
                )
            return _next_assignment(member, inputs.target_epoch, inputs)


def _without_lost_topics(member: Member, inputs: ReconcileInput) -> Member:
    """Return the member without the partitions of unsubscribed topics, which it must
    revoke unless it has done so."""
    keep = {t: owned for t, owned in member.assigned.items() if t in inputs.subscribed}
    if len(keep) == len(member.assigned):
        return member
    lost = {t: owned for t, owned in member.assigned.items() if t not in keep}
    pending = _merged(member.pending_revocation, lost)
    if not _still_owns(inputs.owned, pending):
        assert not member.pending_revocation, "the member would be reconciled"
        return _with_assignment(member, member.epoch, member.state, keep)
    return _with_assignment(
        member, member.epoch, MemberState.UNREVOKED_PARTITIONS, keep, pending
    )


def _next_assignment(member: Member, epoch: int, inputs: ReconcileInput) -> Member:
    # Revoke first; then take all free partitions at the target epoch.
    difference = _difference(member, inputs)
    if difference.revoke and _still_owns(inputs.owned, difference.revoke):
        return _with_assignment(
            member,
            epoch,
            MemberState.UNREVOKED_PARTITIONS,
            difference.keep,
            difference.revoke,
        )
    got = {
        topic: dict.fromkeys(partitions, inputs.target_epoch)
        for topic, partitions in difference.add.items()
    }
    # Partitions of the target that another member still owns keep the state Unreleased:
    # the member tries again at each heartbeat.
    state = MemberState.STABLE
    if difference.is_waiting:
        state = MemberState.UNRELEASED_PARTITIONS
    assigned = _merged(difference.keep, got)
    return _with_assignment(member, inputs.target_epoch, state, assigned)


def _with_assignment(
    member: Member,
    epoch: int,
    state: MemberState,
    assigned: AssignedPartitions,
    pending_revocation: AssignedPartitions = _NOTHING,
) -> Member:
    """Return the member with a new current assignment.

    Its epoch becomes its previous epoch, even when both are the same.
    """
    return member._replace(
        epoch=epoch,
        previous_epoch=member.epoch,
        state=state,
        assigned=assigned,
        pending_revocation=pending_revocation,
    )


def _difference(member: Member, inputs: ReconcileInput) -> _Difference:
    keep: dict[TopicId, dict[int, int]] = {}
    revoke: dict[TopicId, dict[int, int]] = {}
    add: dict[TopicId, list[int]] = {}
    is_waiting = False
    for topic in {**member.assigned, **inputs.target}:
        epochs = member.assigned.get(topic, _NO_EPOCHS)
        target = inputs.target.get(topic, _NO_TARGET)
        if topic not in inputs.subscribed:
            target = _NO_TARGET
        if kept := {p: epochs[p] for p in epochs if p in target}:
            keep[topic] = kept
        if surplus := {p: epochs[p] for p in epochs if p not in target}:
            revoke[topic] = surplus
        missing = sorted(target.difference(epochs))
        # The member may get back at once what it has just revoked itself.
        own = member.pending_revocation.get(topic, _NO_EPOCHS)
        free = [p for p in missing if p in own or inputs.owner_epoch(topic, p) == FREE]
        if free:
            add[topic] = free
        is_waiting = is_waiting or len(free) < len(missing)
    return _Difference(keep, revoke, add, is_waiting)


def _still_owns(owned: Owned | None, revoked: AssignedPartitions) -> bool:
    """Return whether the member may still own a revoked partition.

    Return True for a heartbeat that does not report the owned partitions, as it does
    not prove the revocation.
    """
    if owned is None:
        return True
    return any(
        partition in revoked.get(topic, _NO_EPOCHS)
        for topic, partitions in owned.items()
        for partition in partitions
    )


def _merged(
    one: AssignedPartitions, other: AssignedPartitions
) -> dict[TopicId, dict[int, int]]:
    topics = {**one, **other}
    return {
        topic: {**one.get(topic, _NO_EPOCHS), **other.get(topic, _NO_EPOCHS)}
        for topic in topics
    }
