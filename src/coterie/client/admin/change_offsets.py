"""Setting and deleting what a group committed, from outside of the group.

A commit with no member and the epoch -1 is an operator's: the coordinator takes it
while the group has no members, and else says UNKNOWN_MEMBER_ID for each partition
(E29-08). Topics go by name, in versions up to 9 (group_offsets.py says why).

Rules of this file: an error of the whole group raises; one of a partition is told of
that partition, and the others are done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from coterie.client.admin.driver import Ask, GroupDriver, Outcomes
from coterie.client.admin.group_offsets import by_topic
from coterie.client.admin.group_values import Node
from coterie.client.admin.offset_values import CommittedOffset
from coterie.client.admin.refusals import refusal
from coterie.client.admin.results import Results
from coterie.client.cluster import TRIED_AGAIN, Cluster
from coterie.errors import ApiError, CoterieError, MalformedFrame
from coterie.types import GroupId, TopicPartition
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from coterie.wire.schema import Versions

_BY_NAME: Final = Versions(2, 9)
_NO_EPOCH: Final = -1
_OF_THE_GROUP: Final = TRIED_AGAIN | {
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
}
"""Codes that stand beside each partition and are about the group."""
_Changed = Results[TopicPartition, None]


async def alter_group_offsets(
    cluster: Cluster,
    group_id: GroupId,
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> _Changed:
    """Commit for a group that has no members.

    Raises ApiError for what is wrong with the group, ClientError when its coordinator
    cannot be asked.
    """
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=_NO_EPOCH,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    _to_commit(each, offsets[TopicPartition(name, each)])
                    for each in indexes
                ],
            )
            for name, indexes in by_topic(offsets).items()
        ],
    )

    async def ask(node: Node, group_ids: Sequence[GroupId]) -> Outcomes[_Changed]:
        answer = await cluster.call(
            request, OffsetCommitResponse, node_id=node.node_id, wanted=_BY_NAME
        )
        told = (
            (TopicPartition(topic.name, each.partition_index), each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        )
        return {group_id: _changed(group_id, offsets, told)}

    return await _one(cluster, group_id, ask)


async def delete_group_offsets(
    cluster: Cluster, group_id: GroupId, partitions: Collection[TopicPartition]
) -> _Changed:
    """Delete what a group committed for partitions of topics that no member reads.

    Raises ApiError for what is wrong with the group, ClientError when its coordinator
    cannot be asked, or is older than 2.4 and has no OffsetDelete.
    """
    topics = []
    for name, indexes in by_topic(partitions).items():
        asked = [OffsetDeleteRequestPartition(partition_index=each) for each in indexes]
        topics.append(OffsetDeleteRequestTopic(name=name, partitions=asked))
    request = OffsetDeleteRequest(group_id=group_id, topics=topics)

    async def ask(node: Node, group_ids: Sequence[GroupId]) -> Outcomes[_Changed]:
        answer = await cluster.call(request, OffsetDeleteResponse, node_id=node.node_id)
        if answer.error_code:  # comes before anything that is told of partitions (D-50)
            code = ErrorCode.read(answer.error_code)
            return {group_id: _group_error(group_id, code)}
        told = (
            (TopicPartition(topic.name, each.partition_index), each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        )
        return {group_id: _changed(group_id, partitions, told)}

    return await _one(cluster, group_id, ask)


async def _one(cluster: Cluster, group_id: GroupId, ask: Ask[_Changed]) -> _Changed:
    return (await GroupDriver(cluster, ask).run([group_id])).one(group_id)


def _to_commit(index: int, offset: CommittedOffset) -> OffsetCommitRequestPartition:
    epoch = offset.leader_epoch
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=_NO_EPOCH if epoch is None else epoch,
        committed_metadata=offset.metadata,
    )


def _changed(
    group_id: GroupId,
    wanted: Collection[TopicPartition],
    told: Iterable[tuple[TopicPartition, int]],
) -> _Changed | CoterieError:
    codes = {partition: ErrorCode.read(number) for partition, number in told}
    for code in codes.values():
        if code in _OF_THE_GROUP:
            return _group_error(group_id, code)
    done: dict[TopicPartition, None] = {}
    errors: dict[TopicPartition, CoterieError] = {}
    for each in dict.fromkeys(wanted):
        if each not in codes:
            errors[each] = MalformedFrame(f"nothing was answered about {_name(each)}")
        elif codes[each]:
            errors[each] = _refusal(codes[each], _name(each))
        else:
            done[each] = None
    return Results(done, errors)


def _name(partition: TopicPartition) -> str:
    return f"partition {partition.topic}-{partition.partition}"


def _group_error(group_id: GroupId, code: ErrorCode) -> ApiError:
    return refusal(code, f"group {group_id}")


def _refusal(code: ErrorCode, what: str) -> ApiError:
    """Who commits for a group from outside is no member of it, which the coordinator
    says like this when there are any."""
    if code is ErrorCode.UNKNOWN_MEMBER_ID:
        return ApiError(code, f"{what}: the group has members; stop them first")
    return refusal(code, what)
