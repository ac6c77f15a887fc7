"""Commits and fetches of offsets by a group member.

Both requests contain the member epoch (from version 9 on): the coordinator rejects a
fenced member, and returns STALE_MEMBER_EPOCH when the epoch has advanced in a heartbeat
response that is still on its way. The request is then retried once, after the next
heartbeat. Topics are named, and version 9 is the last with names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from coterie.client.admin.group_offsets import (
    CommittedOffset,
    by_topic,
    topics_to_commit,
)
from coterie.client.cluster import COORDINATOR_ELSEWHERE, RETRIED_CODES, Cluster
from coterie.client.membership import Membership
from coterie.client.notifier import Notifier
from coterie.errors import ApiError, RequestTimedOut
from coterie.types import GroupId, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions

_WITH_EPOCHS_AND_NAMES: Final = Versions(9, 9)


Offset: TypeAlias = int | CommittedOffset
"""An offset to commit: the next one to read."""
_Codes: TypeAlias = dict[TopicPartition, ErrorCode]


class MemberOffsets:
    """Offset commits and fetches of a group member.

    `notifier` signals heartbeat responses.
    """

    def __init__(
        self, cluster: Cluster, membership: Membership, notifier: Notifier
    ) -> None:
        self._cluster = cluster
        self._membership = membership
        self._notifier = notifier

    async def commit(self, offsets: Mapping[TopicPartition, Offset]) -> _Codes:
        """Commit offsets, as `GroupMember.commit` does; return the code of each
        partition."""
        codes = await self._commit(offsets, self._epoch())
        if ErrorCode.STALE_MEMBER_EPOCH in codes.values():
            codes = await self._commit(offsets, await self._next_epoch())
        return codes

    async def committed(
        self, wanted: Sequence[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Fetch committed offsets, as `GroupMember.committed` does."""
        try:
            group = await self._fetch(wanted, self._epoch())
        except ApiError as error:
            if error.code is not ErrorCode.STALE_MEMBER_EPOCH:
                raise
            group = await self._fetch(wanted, await self._next_epoch())
        found: dict[TopicPartition, CommittedOffset | None] = dict.fromkeys(wanted)
        for topic in group.topics:
            for each in topic.partitions:
                epoch = each.committed_leader_epoch
                if each.committed_offset >= 0:  # clients may commit -1, -2 or any
                    found[TopicPartition(topic.name, each.partition_index)] = (
                        CommittedOffset(
                            each.committed_offset,
                            epoch if epoch >= 0 else None,
                            each.metadata or "",
                        )
                    )
        return found

    async def _commit(
        self, offsets: Mapping[TopicPartition, Offset], epoch: int
    ) -> _Codes:
        identity = self._membership.identity
        request = m.OffsetCommitRequest(
            group_id=identity.group_id,
            generation_id_or_member_epoch=epoch,
            member_id=self._membership.member_id,
            group_instance_id=identity.instance_id,
            topics=topics_to_commit(offsets),
        )
        return await commit_offsets(self._cluster, request, _WITH_EPOCHS_AND_NAMES)

    async def _fetch(
        self, partitions: Iterable[TopicPartition], epoch: int
    ) -> m.OffsetFetchResponseGroup:
        group_id = self._membership.identity.group_id
        fetch = m.OffsetFetchRequestGroup(
            group_id=group_id,
            member_id=self._membership.member_id,
            member_epoch=epoch,
            topics=[
                m.OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                for name, indexes in by_topic(partitions).items()
            ],
        )
        request = m.OffsetFetchRequest(groups=[fetch], require_stable=True)

        async def once() -> m.OffsetFetchResponseGroup:
            response = await self._cluster.call_coordinator(
                group_id, request, m.OffsetFetchResponse, wanted=_WITH_EPOCHS_AND_NAMES
            )
            group = response.groups[0]
            numbers = [group.error_code]
            numbers += [
                each.error_code for topic in group.topics for each in topic.partitions
            ]
            codes = [ErrorCode.read(number) for number in numbers]
            _raise_retriable(self._cluster, group_id, codes)
            for code in filter(None, codes):
                raise ApiError(code)
            return group

        return await self._cluster.retrying(once)

    def _epoch(self) -> int:
        membership = self._membership
        if membership.epoch <= 0:
            group_id = membership.identity.group_id
            state = membership.state.name
            message = f"the member is not in group {group_id}, its state is {state}"
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return membership.epoch

    async def _next_epoch(self) -> int:
        """Wait for the next heartbeat response; return its member epoch."""
        membership = self._membership
        before = membership.heartbeats_answered
        membership.request_heartbeat()
        self._notifier.notify()
        limit_ms = self._cluster.options.api_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._notifier.wait_until(
                    lambda: (
                        membership.heartbeats_answered > before or membership.is_silent
                    )
                )
        except TimeoutError:
            message = f"no heartbeat response within {limit_ms} ms"
            raise RequestTimedOut(message) from None
        return self._epoch()


async def commit_offsets(
    cluster: Cluster, request: m.OffsetCommitRequest, wanted: Versions
) -> dict[TopicPartition, ErrorCode]:
    """Send a commit to the group's coordinator; return the code of each partition.

    Raises ApiError for a code that stays retriable, and ClientError.
    """

    async def once() -> _Codes:
        response = await cluster.call_coordinator(
            request.group_id, request, m.OffsetCommitResponse, wanted=wanted
        )
        codes = {
            TopicPartition(topic.name, each.partition_index): ErrorCode.read(
                each.error_code
            )
            for topic in response.topics
            for each in topic.partitions
        }
        _raise_retriable(cluster, request.group_id, codes.values())
        return codes

    return await cluster.retrying(once)


def _raise_retriable(
    cluster: Cluster, group_id: GroupId, codes: Iterable[ErrorCode]
) -> None:
    """Raise ApiError for the first retriable code: it applies to the whole request."""
    for code in codes:
        if code in COORDINATOR_ELSEWHERE:
            cluster.forget_coordinator(group_id)
        if code in RETRIED_CODES:
            raise ApiError(code)
