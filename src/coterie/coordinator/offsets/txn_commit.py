"""TxnOffsetCommit, key 28: offsets that count when a transaction commits (KIP-98).

v2 has leader epochs, v3 says who commits (KIP-447). v6 names topics by id and has an
error of its own for an unknown group (KIP-1319). The records are written as part of
the producer's transaction and wait, pending, for its marker (E17-16).

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


def handle(state: State, request: TxnOffsetCommitRequest, context: Context) -> Result:
    """Write the commits that can be, pending until the transaction ends (E17-15).

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID, INVALID_PRODUCER_EPOCH, COORDINATOR_NOT_AVAILABLE.
            What is wrong with one partition is in the answer.
    """
    _check(state, request, context)
    incoming = Incoming(request.group_id, context)
    response = TxnOffsetCommitResponse(
        topics=answer_topics(request, context, _SHAPE, incoming.take)
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


def _check(state: State, request: TxnOffsetCommitRequest, context: Context) -> None:
    transaction = state.offsets.pending.transactions.get(request.producer_id)
    if transaction and request.producer_epoch < transaction.producer_epoch:
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
    group = state.classic_groups.get(request.group_id)
    if group is not None:
        check_committer(group, request, transactional=True)
    elif request.generation_id_or_member_epoch >= 0:
        honest = context.api_version >= HONEST_SINCE
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND if honest else ErrorCode.ILLEGAL_GENERATION
        )
