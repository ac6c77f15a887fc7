"""EndTxn, key 26: versions 0-5 (2: PRODUCER_FENCED; 5: transactions v2, KIP-890)."""

from __future__ import annotations

from typing import Final

from coterie.auth.authorizer import Operation, ResourceType
from coterie.catalog.transactions import Claim
from coterie.errors import ApiError
from coterie.server.apis.support import may
from coterie.server.apis.transactional import (
    answer_when_durable,
    check_coordinator,
    told,
)
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

_FENCED_SINCE: Final = 2
_BUMPS_EPOCH_SINCE: Final = 5


def handle(call: Call) -> None:
    """Commit or abort; answer when the state and every marker are durable."""
    try:
        response = _end(call)
    except ApiError as error:
        code = told(error, call.api_version, _FENCED_SINCE)
        call.answer(EndTxnResponse(error_code=code))
        return

    def durable(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            call.answer(EndTxnResponse(error_code=error))
        else:
            call.answer(response)

    answer_when_durable(call, durable)


def _end(call: Call) -> EndTxnResponse:
    request: EndTxnRequest = call.request
    if not may(
        call,
        Operation.WRITE,
        ResourceType.TRANSACTIONAL_ID,
        request.transactional_id,
    ):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    check_coordinator(call, request.transactional_id)
    claim = Claim(request.transactional_id, request.producer_id, request.producer_epoch)
    bumps_epoch = call.api_version >= _BUMPS_EPOCH_SINCE
    found = call.node.broker.transactions.end(
        claim, committed=request.committed, bumps_epoch=bumps_epoch
    )
    return EndTxnResponse(
        producer_id=found.producer_id, producer_epoch=found.producer_epoch
    )
