"""Check the member of a consumer group that commits or fetches offsets (E17, KIP-848).

A commit with the member's current epoch is valid for every partition. A commit with an
older epoch may have been sent before the member received the newer one, so it is valid
if the member has owned all its partitions ever since that epoch; otherwise it may be a
zombie's (KIP-1251). The epoch of a member of the classic protocol is its
generation. The cost does not depend on the size of the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import Member
from coterie.errors import ApiError
from coterie.types import MemberId, TopicId
from coterie.wire.commit import Commit
from coterie.wire.error_codes import ErrorCode

MEMBER_EPOCHS_SINCE: Final = 9
"""The version of OffsetCommit from which member epochs are possible (E17-01)."""
_NO_EPOCHS: Final[Mapping[int, int]] = {}


class OlderEpoch(NamedTuple):
    """A commit with an older epoch than that of its member.

    `error` is returned unless the member has owned all partitions since that epoch.
    """

    member: Member
    epoch: int
    error: ErrorCode

    def covers(self, topic_id: TopicId, partition: int) -> bool:
        """Return whether the member has owned the partition since the older epoch.

        A partition that the member has yet to revoke counts too (E17-05).
        """
        member = self.member
        return any(
            0 <= assigned.get(topic_id, _NO_EPOCHS).get(partition, -1) <= self.epoch
            for assigned in (member.assigned, member.pending_revocation)
        )


def check_commit(group: ConsumerGroup, request: Commit) -> OlderEpoch | None:
    """Check a commit, with or without a member (E17-02 to E17-05, E17-13).

    Return None when the commit is valid for every partition.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH,
            ILLEGAL_GENERATION.
    """
    if request.generation_id_or_member_epoch < 0 and not group.members:
        return None  # an admin client, or a consumer that assigns partitions itself
    member = _member(group, request.member_id)
    if member.classic is None and request.layout.version < MEMBER_EPOCHS_SINCE:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the "
            "consumer group protocol.",
        )
    return _checked_epoch(member, request.generation_id_or_member_epoch)


def check_transactional_commit(
    group: ConsumerGroup, request: Commit
) -> OlderEpoch | None:
    """Check a transactional commit, of any version, like `check_commit`.

    A commit from a producer older than KIP-447 has no member id and is accepted, as in
    a classic group (E17-12e).

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION.
    """
    epoch = request.generation_id_or_member_epoch
    instance_id = request.group_instance_id
    is_anonymous = epoch == -1 and not request.member_id and instance_id is None
    if is_anonymous or (epoch < 0 and not group.members):
        return None
    return _checked_epoch(_member(group, request.member_id), epoch)


def check_fetch(
    group: ConsumerGroup, member_id: MemberId | None, member_epoch: int
) -> None:
    """Check a fetch; one without a member id, from an admin client, is always accepted
    (A-45).

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION.
    """
    if member_id is None and member_epoch < 0:
        return
    member = _member(group, member_id or "")
    if member_epoch != member.epoch:
        raise _wrong_epoch(member, member_epoch)


def _member(group: ConsumerGroup, member_id: MemberId) -> Member:
    """Return the member with this id.

    The instance id of a commit is not compared, as in Kafka's
    `ConsumerGroup.validateOffsetCommit`.
    """
    member = group.members.get(member_id)
    if member is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {group.group_id}.",
        )
    return member


def _checked_epoch(member: Member, epoch: int) -> OlderEpoch | None:
    if epoch == member.epoch:
        return None
    if epoch > member.epoch:
        raise _wrong_epoch(member, epoch)
    return OlderEpoch(member, epoch, _stale(member))


def _stale(member: Member) -> ErrorCode:
    if member.classic is not None:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH


def _wrong_epoch(member: Member, epoch: int) -> ApiError:
    return ApiError(
        _stale(member),
        f"The received member epoch {epoch} does not match the expected member epoch "
        f"{member.epoch}.",
    )
