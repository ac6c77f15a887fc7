"""Whether a heartbeat's member epoch is one the member may come with (E7-30 to E7-33).

A member that is fenced here stays in the group: it comes back with epoch 0, or its
session ends (E7-32, decision I-01).
"""

from __future__ import annotations

from collections.abc import Collection

from coterie.coordinator.consumer.member import JOIN_EPOCH, Held, Member
from coterie.coordinator.consumer.reconcile import Owned
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode

_NO_PARTITIONS: Collection[int] = ()


def check_member_epoch(member: Member, epoch: int, owned: Owned | None) -> None:
    """Accept the epoch of a member that is known, dynamic or static, or fence it.

    Accepted are the member's epoch; its previous epoch, if the member owns nothing that
    it is not assigned, as the answer that told it the newer one may be lost (E7-31,
    decision I-04); and 0 at any time, from a member that lost its memory (E7-33).

    Raises:
        ApiError: FENCED_MEMBER_EPOCH.
    """
    assert epoch >= JOIN_EPOCH, "who leaves is not asked for its epoch"
    if epoch in (member.epoch, JOIN_EPOCH):
        return
    if epoch > member.epoch:
        raise _fenced("greater", epoch, member)
    if epoch != member.previous_epoch or not _is_within(owned, member.assigned):
        raise _fenced("smaller", epoch, member)


def _is_within(owned: Owned | None, assigned: Held) -> bool:
    if owned is None:
        return False
    return all(
        partition in assigned.get(topic, _NO_PARTITIONS)
        for topic, partitions in owned.items()
        for partition in partitions
    )


def _fenced(how: str, epoch: int, member: Member) -> ApiError:
    return ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {how} member epoch ({epoch}) than the one "
        f"known by the group coordinator ({member.epoch}). It must abandon all its "
        "partitions and rejoin.",
    )
