"""One step of a member towards its target: the heart of KIP-848 (E5.2).

Pure: a member and the world around it in, the member after the step out. The very same
object comes back when nothing changed, and then no record is written (E5-14). What must
be given up comes first: nothing new is handed out before the member said that it let go
(E5-12), and a partition is handed out only once nobody else holds it (E5-13).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from coterie.coordinator.consumer.member import Held, Member, MemberState, Target
from coterie.errors import ApiError
from coterie.types import TopicId
from coterie.wire.error_codes import ErrorCode

FREE: Final = -1
"""The owner epoch of a partition that nobody holds (E2-06)."""
OwnerEpoch: TypeAlias = Callable[[TopicId, int], int]
"""Topic id, partition -> the epoch of the member that holds it, or `FREE`."""
Owned: TypeAlias = Mapping[TopicId, Collection[int]]
"""What a member says it owns; an empty one owns nothing."""

_NOTHING: Final[Mapping[int, int]] = {}
_NO_TARGET: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a step depends on beside the member.

    `owned` is None when the heartbeat did not tell. `subscribed` is None unless the
    member's subscription changed in this heartbeat; then it holds the ids of the topics
    it is subscribed to, and it loses all others at once, even if the target, which may
    be older, still has them (E5-15).
    """

    target_epoch: int
    target: Target
    owner_epoch: OwnerEpoch
    owned: Owned | None = None
    subscribed: Collection[TopicId] | None = None

    def __post_init__(self) -> None:
        """A member only ever goes to the target of an epoch (E3-04)."""
        assert self.target_epoch >= 0, self.target_epoch


class _Difference(NamedTuple):
    """What stands between what a member holds and its target (E5-05)."""

    keep: dict[TopicId, dict[int, int]]
    revoke: dict[TopicId, dict[int, int]]
    add: dict[TopicId, list[int]]
    is_waiting: bool
    """Something of the target is still held by somebody else."""


def reconcile(member: Member, step: Step) -> Member:
    """The member after the step; the same object if nothing changed (E5-01 to E5-16).

    Raises:
        ApiError: FENCED_MEMBER_EPOCH: the member's state is one that a later version
            wrote, and it has not given up all its partitions (E5-04).
    """
    after = _next_member(member, step)
    return member if after == member else after


def _next_member(member: Member, step: Step) -> Member:
    match member.state:
        case MemberState.STABLE:
            if member.epoch == step.target_epoch and not _lost_topic(member, step):
                return member
            return _next_assignment(member, member.epoch, step)
        case MemberState.UNREVOKED_PARTITIONS:
            return _await_revocation(member, step)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next_assignment(member, member.epoch, step)
        case _:
            if step.owned is None or step.owned:
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in an unknown state. It must abandon "
                    "all its partitions and rejoin.",
                )
            return _next_assignment(member, step.target_epoch, step)


def _await_revocation(member: Member, step: Step) -> Member:
    """E5-02: stay while the member holds on; then one epoch on, and look again."""
    if not _still_owns(step.owned, member.pending_revocation):
        # Who revoked for its own wish alone may be at the target's epoch already.
        return _next_assignment(member, min(member.epoch + 1, step.target_epoch), step)
    if not _lost_topic(member, step):
        return member
    keep, lost = _split_by_subscription(member, step)
    return member.at(
        member.epoch,
        member.state,
        assigned=keep,
        pending_revocation=_merged(member.pending_revocation, lost),
    )


def _next_assignment(member: Member, epoch: int, step: Step) -> Member:
    """E5-06 to E5-09: revoke first; then all that is free, at the target's epoch."""
    difference = _difference(member.assigned, step)
    if difference.revoke and _still_owns(step.owned, difference.revoke):
        return member.at(
            epoch,
            MemberState.UNREVOKED_PARTITIONS,
            assigned=difference.keep,
            pending_revocation=difference.revoke,
        )
    got = {
        topic: dict.fromkeys(partitions, step.target_epoch)
        for topic, partitions in difference.add.items()
    }
    waiting = MemberState.UNRELEASED_PARTITIONS
    return member.at(
        step.target_epoch,
        waiting if difference.is_waiting else MemberState.STABLE,
        assigned=_merged(difference.keep, got),
    )


def _difference(assigned: Held, step: Step) -> _Difference:
    keep: dict[TopicId, dict[int, int]] = {}
    revoke: dict[TopicId, dict[int, int]] = {}
    add: dict[TopicId, list[int]] = {}
    is_waiting = False
    for topic in {**assigned, **step.target}:
        target, held = _target_of(topic, step), assigned.get(topic, _NOTHING)
        _put(keep, topic, {p: held[p] for p in held if p in target})
        _put(revoke, topic, {p: held[p] for p in held if p not in target})
        missing = sorted(target - held.keys())
        free = [p for p in missing if step.owner_epoch(topic, p) == FREE]
        if free:
            add[topic] = free
        is_waiting = is_waiting or len(free) < len(missing)
    return _Difference(keep, revoke, add, is_waiting)


def _target_of(topic: TopicId, step: Step) -> frozenset[int]:
    if step.subscribed is not None and topic not in step.subscribed:
        return _NO_TARGET
    return step.target.get(topic, _NO_TARGET)


def _lost_topic(member: Member, step: Step) -> bool:
    """Whether the member holds partitions of a topic it has just unsubscribed from."""
    if step.subscribed is None:
        return False
    return any(topic not in step.subscribed for topic in member.assigned)


def _split_by_subscription(member: Member, step: Step) -> tuple[Held, Held]:
    assert step.subscribed is not None
    keep = {t: held for t, held in member.assigned.items() if t in step.subscribed}
    lost = {t: held for t, held in member.assigned.items() if t not in keep}
    return keep, lost


def _still_owns(owned: Owned | None, revoked: Held) -> bool:
    """Whether the member may still hold some of it: yes, if it does not say."""
    if owned is None:
        return True
    return any(
        partition in revoked.get(topic, _NOTHING)
        for topic, partitions in owned.items()
        for partition in partitions
    )


def _merged(one: Held, other: Held) -> dict[TopicId, dict[int, int]]:
    topics = {**one, **other}
    return {
        topic: {**one.get(topic, _NOTHING), **other.get(topic, _NOTHING)}
        for topic in topics
    }


def _put(
    into: dict[TopicId, dict[int, int]], topic: TopicId, partitions: dict[int, int]
) -> None:
    if partitions:
        into[topic] = partitions
