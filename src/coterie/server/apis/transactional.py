"""What the modules of transactions share."""

from __future__ import annotations

from collections.abc import Callable

from coterie.errors import ApiError
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode


def told(error: ApiError, api_version: int, fenced_since: int) -> ErrorCode:
    """The code a client of that version understands: PRODUCER_FENCED came later than
    transactions, and INVALID_PRODUCER_EPOCH stood for it before (KIP-588)."""
    if error.code is ErrorCode.PRODUCER_FENCED and api_version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code


def check_coordinator(call: Call, transactional_id: str) -> None:
    """Raise ApiError NOT_COORDINATOR unless the called node coordinates it."""
    broker = call.node.broker
    if broker.transaction_coordinator(transactional_id) is not call.node:
        raise ApiError(ErrorCode.NOT_COORDINATOR)


def answer_when_durable(call: Call, answer: Callable[[ErrorCode], None]) -> None:
    """Call `answer` with NONE once all that is staged is durable, else with what lets
    a client look for its coordinator and ask again (NOT_COORDINATOR, E23-13)."""

    def durable(error: ErrorCode) -> None:
        failed = error is not ErrorCode.NONE
        answer(ErrorCode.NOT_COORDINATOR if failed else ErrorCode.NONE)

    call.node.broker.data.when_durable(durable)
