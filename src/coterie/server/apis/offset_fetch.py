"""OffsetFetch, key 9: versions 1-10 (KIP-88, KIP-447; 8: KIP-709; 10: topic ids).

Shards answer in the shape of v8 and later; here that becomes what older versions say:
an error of the group stands at the top from v2 on (A-30), and in v1 in each partition
that was asked for (A-31).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from coterie.auth.authorizer import Operation
from coterie.coordinator.offsets.fetch import FetchOffsets
from coterie.server.apis.groups import Gathering, ask, may_group
from coterie.server.apis.topic_parts import may_topic_of
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_GROUPS_SINCE: Final = 8
_TOP_LEVEL_ERROR_SINCE: Final = 2


def handle(call: Call) -> None:
    """Answer for every group asked for, in order, a repeated one each time (A-51)."""
    request: OffsetFetchRequest = call.request
    if call.api_version >= _GROUPS_SINCE:
        gathering = Gathering[OffsetFetchResponseGroup](
            len(request.groups),
            lambda groups: call.answer(OffsetFetchResponse(groups=list(groups))),
        )
        for at, group in enumerate(request.groups):
            _fetch(call, group, gathering.part(at))
        return
    asked = _as_group(request)
    _fetch(call, asked, lambda group: call.answer(_as_old(call, asked, group)))


def _fetch(call: Call, group: OffsetFetchRequestGroup, answer: Any) -> None:
    """The offsets of one group, of the topics that may be described (E27)."""
    if not may_group(call, Operation.DESCRIBE, group.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        refused = OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
        answer(refused)
        return
    topics = group.topics
    hidden = [topic for topic in topics or () if not _may(call, topic)]
    if topics is not None and hidden:
        visible = [topic for topic in topics if topic not in hidden]
        asked = OffsetFetchRequestGroup(
            group_id=group.group_id,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
            topics=visible,
        )
    else:
        asked = group

    def restrict(response: OffsetFetchResponseGroup) -> None:
        if not response.error_code:
            response.topics = _restricted(call, topics, hidden, response.topics)
        answer(response)

    require_stable: bool = call.request.require_stable
    ask(call, group.group_id, FetchOffsets(asked, require_stable), restrict)


def _may(
    call: Call, topic: OffsetFetchRequestTopics | OffsetFetchResponseTopics
) -> bool:
    return may_topic_of(call, topic, Operation.DESCRIBE)


def _restricted(
    call: Call,
    asked: Sequence[OffsetFetchRequestTopics] | None,
    hidden: Sequence[OffsetFetchRequestTopics],
    answered: list[OffsetFetchResponseTopics],
) -> list[OffsetFetchResponseTopics]:
    """Leave out what may not be seen when everything was asked for; refuse it where it
    was asked for by name."""
    if asked is None:
        return [topic for topic in answered if _may(call, topic)]
    if not hidden:
        return answered
    rest = iter(answered)
    return [_refused_topic(topic) if topic in hidden else next(rest) for topic in asked]


def _refused_topic(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=-1,
                metadata="",
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
            for index in topic.partition_indexes
        ],
    )


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """A request of v1 to v7 as one group of a later one."""
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(
                name=topic.name, partition_indexes=topic.partition_indexes
            )
            for topic in topics
        ],
    )


def _as_old(
    call: Call, asked: OffsetFetchRequestGroup, group: OffsetFetchResponseGroup
) -> OffsetFetchResponse:
    """The answer for one group as v1 to v7 give it."""
    code = group.error_code
    if code and call.api_version < _TOP_LEVEL_ERROR_SINCE:
        return OffsetFetchResponse(topics=_error_everywhere(asked, code))
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code,
                )
                for partition in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=code)


def _error_everywhere(
    asked: OffsetFetchRequestGroup, code: int
) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index,
                    committed_offset=-1,
                    metadata="",
                    error_code=code,
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in asked.topics or ()
    ]
