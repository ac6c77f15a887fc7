"""Commits and fetches of offsets by a member of a classic group.

Both name topics, and version 9 is the last with names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from coterie.client.admin.group_offsets import CommittedOffset, list_groups_offsets
from coterie.client.classic_requests import ClassicIdentity
from coterie.client.classic_session import ClassicSession
from coterie.client.cluster import Cluster
from coterie.client.member_offsets import (
    Offset,
    OffsetAndMetadata,
    commit_offsets,
    topics_to_commit,
)
from coterie.errors import ApiError, CommitRefused
from coterie.types import GroupId, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions

_BY_NAME: Final = Versions(2, 9)


async def commit(
    cluster: Cluster,
    identity: ClassicIdentity,
    session: ClassicSession,
    offsets: Mapping[TopicPartition, Offset],
) -> None:
    """Commit offsets, as `ClassicMember.commit` does."""
    group_id = identity.group_id
    if session.generation < 0:
        message = f"the member is not in group {group_id}"
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, message)
    request = m.OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=session.generation,
        member_id=session.member_id,
        group_instance_id=identity.instance_id,
        topics=topics_to_commit(offsets),
    )
    codes = await commit_offsets(cluster, request, _BY_NAME)
    if refused := {each: code for each, code in codes.items() if code}:
        raise CommitRefused(refused)


async def committed(
    cluster: Cluster, group_id: GroupId, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Fetch committed offsets, as `ClassicMember.committed` does."""
    wanted = list(partitions)
    results = await list_groups_offsets(
        cluster, {group_id: wanted}, require_stable=True, progress=None
    )
    offsets = results.one(group_id).all()
    return {each: _with_metadata(offsets.get(each)) for each in wanted}


def _with_metadata(offset: CommittedOffset | None) -> OffsetAndMetadata | None:
    if offset is None:
        return None
    epoch = -1 if offset.leader_epoch is None else offset.leader_epoch
    return OffsetAndMetadata(offset.offset, epoch, offset.metadata)
