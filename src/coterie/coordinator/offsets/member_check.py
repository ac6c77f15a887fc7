"""Whether a member of a consumer group may commit or fetch offsets (E17, KIP-848).

A commit with the member's own epoch is good for every partition. One with an older
epoch may be on its way since before the member was told the newer one, so it is good
for the partitions that the member has had all the time since then, and no zombie's
(KIP-1251). A member that speaks the classic protocol has its epoch for its generation.
Everything here costs the same whatever the size of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.offsets.incoming import CommitPartition, CommitRequest, Topic
from coterie.coordinator.result import TopicView
from coterie.errors import ApiError
from coterie.types import MemberId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_fetch import OffsetFetchRequestGroup
from coterie.wire.schema import ZERO_UUID

MEMBER_EPOCHS_SINCE: Final = 9
"""The OffsetCommit from which a generation may be a member epoch (E17-01)."""
_NO_EPOCHS: Final[Mapping[int, int]] = {}

Take = Callable[[Topic, CommitPartition], ErrorCode]
"""Takes in the commit of a partition, or says why not."""


class OlderEpoch(NamedTuple):
    """A commit that comes with an epoch its member has left behind. `no` is what a
    partition is told that the member has not had since then."""

    member: Member
    epoch: int
    no: ErrorCode

    def guard(self, take: Take, topics: TopicView) -> Take:
        """Take the partitions that the member had at that epoch and still has, be it
        to revoke them (E17-05, F6-05)."""

        def guarded(topic: Topic, asked: CommitPartition) -> ErrorCode:
            index = asked.partition_index
            if topic.error(index) or self._has(topic, index, topics):
                return take(topic, asked)
            return self.no

        return guarded

    def _has(self, topic: Topic, partition: int, topics: TopicView) -> bool:
        topic_id = topic.topic_id
        if topic_id == ZERO_UUID:
            topic_id = topics.topic_id(topic.name) or ZERO_UUID
        member = self.member
        return any(
            0 <= held.get(topic_id, _NO_EPOCHS).get(partition, -1) <= self.epoch
            for held in (member.assigned, member.pending_revocation)
        )


def check_commit(
    group: ConsumerGroup, request: CommitRequest, api_version: int
) -> OlderEpoch | None:
    """Whether this member, or nobody in particular, may commit now; for all partitions
    (None), or for some (E17-02 to E17-05, E17-13).

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, UNSUPPORTED_VERSION,
            STALE_MEMBER_EPOCH, ILLEGAL_GENERATION.
    """
    if request.generation_id_or_member_epoch < 0 and not group.members:
        return None  # an admin, or a consumer that assigns partitions to itself
    member = _member(group, request.member_id, request.group_instance_id)
    if member.classic is None and api_version < MEMBER_EPOCHS_SINCE:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the "
            "consumer group protocol.",
        )
    return _checked_epoch(member, request.generation_id_or_member_epoch)


def check_transactional_commit(
    group: ConsumerGroup, request: CommitRequest
) -> OlderEpoch | None:
    """Like `check_commit`, in any version; a producer that does not say who commits is
    no member and is let through, as in a classic group (E17-12, E17-15).

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, STALE_MEMBER_EPOCH,
            ILLEGAL_GENERATION.
    """
    epoch = request.generation_id_or_member_epoch
    instance_id = request.group_instance_id
    is_anonymous = epoch < 0 and not request.member_id and instance_id is None
    if is_anonymous or (epoch < 0 and not group.members):
        return None
    return _checked_epoch(_member(group, request.member_id, instance_id), epoch)


def check_fetch(group: ConsumerGroup, asked: OffsetFetchRequestGroup) -> None:
    """Whether this member may fetch; an admin, who names no member, always may (A-45).

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION.
    """
    if asked.member_id is None and asked.member_epoch < 0:
        return
    member = _member(group, asked.member_id or "")
    if asked.member_epoch != member.epoch:
        raise _wrong_epoch(member, asked.member_epoch)


def _member(
    group: ConsumerGroup, member_id: MemberId, instance_id: str | None = None
) -> Member:
    if instance_id is not None:
        holder = group.static_members.get(instance_id)
        if holder is not None and holder != member_id:
            raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
    member = group.members.get(member_id)
    if member is None or (instance_id is not None and holder is None):
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {group.group_id}.",
        )
    return member


def _checked_epoch(member: Member, epoch: int) -> OlderEpoch | None:
    if 0 <= epoch == member.epoch:
        return None
    if not 0 <= epoch < member.epoch:
        raise _wrong_epoch(member, epoch)
    return OlderEpoch(member, epoch, _no(member))


def _no(member: Member) -> ErrorCode:
    if member.classic is not None:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH


def _wrong_epoch(member: Member, epoch: int) -> ApiError:
    return ApiError(
        _no(member),
        f"The received member epoch {epoch} does not match the expected member epoch "
        f"{member.epoch}.",
    )
