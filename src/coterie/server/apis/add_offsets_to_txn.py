"""AddOffsetsToTxn, key 25: versions 0-4 (KIP-98). 2: PRODUCER_FENCED."""

from __future__ import annotations

from typing import Final

from coterie.auth.authorizer import Operation, ResourceType
from coterie.catalog.topics import OFFSETS_TOPIC
from coterie.catalog.transactions import Claim
from coterie.errors import ApiError
from coterie.server.apis.support import may
from coterie.server.apis.transactional import (
    answer_when_durable,
    check_coordinator,
    told,
)
from coterie.server.call import Call
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

_FENCED_SINCE: Final = 2


def handle(call: Call) -> None:
    """Let a transaction commit offsets of a group; answer when that is durable."""
    try:
        _add(call)
    except ApiError as error:
        code = told(error, call.api_version, _FENCED_SINCE)
        call.answer(AddOffsetsToTxnResponse(error_code=code))
        return

    def durable(error: ErrorCode) -> None:
        call.answer(AddOffsetsToTxnResponse(error_code=error))

    answer_when_durable(call, durable)


def _add(call: Call) -> None:
    request: AddOffsetsToTxnRequest = call.request
    broker = call.node.broker
    if not may(
        call,
        Operation.WRITE,
        ResourceType.TRANSACTIONAL_ID,
        request.transactional_id,
    ):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not may(call, Operation.READ, ResourceType.GROUP, request.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    check_coordinator(call, request.transactional_id)
    claim = Claim(request.transactional_id, request.producer_id, request.producer_epoch)
    shard = broker.shard_of(request.group_id)
    broker.transactions.add_partitions(claim, [TopicPartition(OFFSETS_TOPIC, shard)])
