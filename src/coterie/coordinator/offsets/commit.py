"""OffsetCommit, key 8: a group remembers how far it has read.

v2-4 have a retention of their own. v5 leaves it to the server (KIP-211). v6 has leader
epochs, v7 static members. v9 is the first that a member of the consumer protocol may
use, and says GROUP_ID_NOT_FOUND where older ones say ILLEGAL_GENERATION. v10 names
topics by id. A commit costs what its partitions cost; nothing of the group is walked.
"""

from __future__ import annotations

from typing import Final

from coterie.coordinator.classic.timers import commit_timers
from coterie.coordinator.offsets.incoming import (
    Incoming,
    Shape,
    answer_topics,
    check_committer,
    refuse_topics,
)
from coterie.coordinator.offsets.member_check import OlderEpoch, Take, check_commit
from coterie.coordinator.result import Context, Result, Timer
from coterie.coordinator.state import State
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_SHAPE: Final = Shape(
    OffsetCommitResponseTopic, OffsetCommitResponsePartition, topic_ids_since=10
)
HONEST_SINCE: Final = 9
DEFAULT_RETENTION: Final = -1


def handle(state: State, request: OffsetCommitRequest, context: Context) -> Result:
    """Write the commits that can be; in a classic group the member's session is
    refreshed, in a consumer group only a heartbeat does that (E17-10).

    A commit to an unknown group without a generation makes a simple group (E17-06).

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
            STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION. What is wrong with one partition
            is in the answer.
    """
    timers: tuple[Timer, ...] = ()
    older: OlderEpoch | None = None
    group = state.classic_groups.get(request.group_id)
    if group is not None:
        check_committer(group, request, transactional=False)
        timers = commit_timers(group, request.member_id, context.now_ms)
    else:
        older = _check_other(state, request, context)
    incoming = Incoming(
        request.group_id, context, _expire_timestamp_ms(request, context)
    )
    take: Take = incoming.take
    if older is not None:
        take = older.guard(take, context.topics)
    response = OffsetCommitResponse(
        topics=answer_topics(request, context, _SHAPE, take)
    )
    return Result(response, records=tuple(incoming.records), timers=timers)


def refuse(
    request: OffsetCommitRequest, code: ErrorCode, context: Context
) -> OffsetCommitResponse:
    """The answer that carries an error for every partition that exists."""
    return OffsetCommitResponse(topics=refuse_topics(request, context, _SHAPE, code))


def _check_other(
    state: State, request: OffsetCommitRequest, context: Context
) -> OlderEpoch | None:
    """Check a commit to a consumer group, or to a group nobody knows."""
    group = state.consumer_groups.get(request.group_id)
    if group is not None:
        return check_commit(group, request, context.api_version)
    if request.generation_id_or_member_epoch < 0:
        return None
    if context.api_version >= HONEST_SINCE:
        message = f"Group {request.group_id} not found."
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)
    raise ApiError(ErrorCode.ILLEGAL_GENERATION)


def _expire_timestamp_ms(request: OffsetCommitRequest, context: Context) -> int:
    """When the commit expires whatever the group does; -1 when it does not (E17-09)."""
    if request.retention_time_ms == DEFAULT_RETENTION:
        return -1
    return context.now_ms + request.retention_time_ms
