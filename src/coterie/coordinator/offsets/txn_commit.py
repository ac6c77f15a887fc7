"""TxnOffsetCommit, key 28: offsets that count when a transaction commits (KIP-98).

v2 has leader epochs, v3 says who commits (KIP-447). v6 names topics by id and has
errors of its own for an unknown group and for a stale member epoch (KIP-1319). The
records are written as part of the producer's transaction and wait, pending, for its
marker (E17-16).

That the producer may write in this transaction is checked before, by whoever keeps
the transactions.
"""

from __future__ import annotations

from typing import Final

from coterie.coordinator.offsets.incoming import (
    Incoming,
    Shape,
    answer_topics,
    check_committer,
    refuse_topics,
)
from coterie.coordinator.offsets.member_check import (
    OlderEpoch,
    Take,
    check_transactional_commit,
)
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_SHAPE: Final = Shape(
    TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition, topic_ids_since=6
)
HONEST_SINCE: Final = 6
_HONEST_ONLY: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH)


def handle(state: State, request: TxnOffsetCommitRequest, context: Context) -> Result:
    """Write the commits that can be, pending until the transaction ends (E17-15).

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID, INVALID_PRODUCER_EPOCH, COORDINATOR_NOT_AVAILABLE,
            STALE_MEMBER_EPOCH. What is wrong with one partition is in the answer.
    """
    older = _check(state, request, context)
    incoming = Incoming(request.group_id, context)
    take: Take = incoming.take
    if older is not None:
        told = older._replace(no=_as_told(older.no, context))
        take = told.guard(take, context.topics)
    response = TxnOffsetCommitResponse(
        topics=answer_topics(request, context, _SHAPE, take)
    )
    return Result(
        response,
        records=tuple(incoming.records),
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
    )


def refuse(
    request: TxnOffsetCommitRequest, code: ErrorCode, context: Context
) -> TxnOffsetCommitResponse:
    """The answer that carries an error for every partition that exists."""
    return TxnOffsetCommitResponse(topics=refuse_topics(request, context, _SHAPE, code))


def _check(
    state: State, request: TxnOffsetCommitRequest, context: Context
) -> OlderEpoch | None:
    transaction = state.offsets.pending.transactions.get(request.producer_id)
    if transaction and request.producer_epoch < transaction.producer_epoch:
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
    group = state.classic_groups.get(request.group_id)
    if group is not None:
        check_committer(group, request, transactional=True)
        return None
    consumer_group = state.consumer_groups.get(request.group_id)
    try:
        if consumer_group is not None:
            return check_transactional_commit(consumer_group, request)
        if request.generation_id_or_member_epoch >= 0:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    except ApiError as error:
        raise ApiError(_as_told(error.code, context), error.message) from None
    return None


def _as_told(code: ErrorCode, context: Context) -> ErrorCode:
    """What a producer is told: below v6 it knows only of generations (E17-15)."""
    if code in _HONEST_ONLY and context.api_version < HONEST_SINCE:
        return ErrorCode.ILLEGAL_GENERATION
    return code
