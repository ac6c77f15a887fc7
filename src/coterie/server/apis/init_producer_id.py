"""InitProducerId, key 22: versions 0-5 (3: KIP-360; 4: PRODUCER_FENCED)."""

from __future__ import annotations

from typing import Final

from coterie.auth.authorizer import Operation, ResourceType
from coterie.catalog.transactions import Claim
from coterie.errors import ApiError
from coterie.server.apis.support import may, may_cluster
from coterie.server.apis.transactional import (
    answer_when_durable,
    check_coordinator,
    told,
)
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

_FENCED_SINCE: Final = 4


def handle(call: Call) -> None:
    """Give a producer id and epoch; answer when they are durable."""
    response = InitProducerIdResponse(producer_epoch=-1)
    try:
        _initialise(call, response)
    except ApiError as error:
        response.error_code = told(error, call.api_version, _FENCED_SINCE)
        call.answer(response)
        return

    def durable(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            call.answer(InitProducerIdResponse(error_code=error, producer_epoch=-1))
        else:
            call.answer(response)

    answer_when_durable(call, durable)


def _initialise(call: Call, response: InitProducerIdResponse) -> None:
    request: InitProducerIdRequest = call.request
    transactions = call.node.broker.transactions
    transactional_id = request.transactional_id
    if transactional_id is None:
        # KIP-679: whoever may write to some topic may be idempotent, too.
        if not (
            may_cluster(call, Operation.IDEMPOTENT_WRITE)
            or call.may_some(Operation.WRITE, ResourceType.TOPIC)
        ):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        response.producer_id = transactions.fresh_producer_id()
        response.producer_epoch = 0
        return
    if not may(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    check_coordinator(call, transactional_id)
    claim = Claim(transactional_id, request.producer_id, request.producer_epoch)
    found = transactions.initialise(claim, request.transaction_timeout_ms)
    response.producer_id = found.producer_id
    response.producer_epoch = found.producer_epoch
