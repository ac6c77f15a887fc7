"""What the classic requests of a member of a consumer group have in common (E20.3)."""

from __future__ import annotations

from typing import Final

from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.member import ClassicFace, Member, MemberState
from coterie.coordinator.consumer.members import static_member, unknown_member
from coterie.coordinator.consumer.reconcile import FREE
from coterie.errors import ApiError
from coterie.types import MemberId
from coterie.wire.error_codes import ErrorCode

_UNREVOKED: Final = MemberState.UNREVOKED_PARTITIONS
_UNRELEASED: Final = MemberState.UNRELEASED_PARTITIONS


def any_member(draft: Draft, member_id: MemberId, instance_id: str | None) -> Member:
    """The member of that id, which is the instance's if one is named.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if instance_id is not None:
        return static_member(draft, member_id, instance_id)
    member = draft.member(member_id)
    if member is None:
        raise unknown_member(draft, member_id)
    return member


def classic_member(
    draft: Draft, member_id: MemberId, instance_id: str | None, *, generation: int
) -> tuple[Member, ClassicFace]:
    """The member that says its epoch is this generation, and its classic side.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, also if it speaks the consumer protocol;
            FENCED_INSTANCE_ID; ILLEGAL_GENERATION.
    """
    member = any_member(draft, member_id, instance_id)
    if member.classic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} does not use the classic protocol.",
        )
    if generation != member.epoch:
        raise ApiError(
            ErrorCode.ILLEGAL_GENERATION,
            f"Generation {generation} is not the epoch {member.epoch} of {member_id}.",
        )
    return member, member.classic


def is_behind(draft: Draft, member: Member) -> bool:
    """Whether there is a newer target for the member (E20-32)."""
    assert member.epoch <= draft.assignment_epoch, member.member_id
    return member.epoch < draft.assignment_epoch


def has_to_join(draft: Draft, member: Member) -> bool:
    """Whether the member is to join again: to learn of a newer target, to say that it
    has let something go, or to get what has become free (E20-28)."""
    if is_behind(draft, member) or member.state is _UNREVOKED:
        return True
    return member.state is _UNRELEASED and _is_any_free(draft, member)


def _is_any_free(draft: Draft, member: Member) -> bool:
    return any(
        partition not in member.assigned.get(topic, ())
        and draft.group.owner_epoch(topic, partition) == FREE
        for topic, partitions in draft.target(member.member_id).items()
        for partition in partitions
    )
