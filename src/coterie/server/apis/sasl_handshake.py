"""SaslHandshake, key 17: versions 0-1 (KIP-43, KIP-152), and again later (KIP-368)."""

from __future__ import annotations

from coterie.errors import ApiError
from coterie.protocol.sasl import Authentication, Stage
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


def handle(call: Call) -> None:
    """Begin with the mechanism that was named, or name those there are.

    Where nobody asks who calls, and of a client that is known already, it is
    ILLEGAL_SASL_STATE, and the connection goes on.
    """
    request: SaslHandshakeRequest = call.request
    sasl = call.peer.sasl
    if sasl is None:
        call.answer(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        return
    try:
        now_ms = call.node.broker.clock()
        sasl.handshake(request.mechanism, call.api_version, now_ms)
    except ApiError as error:
        _refuse(call, sasl, error.code)
    else:
        call.answer(SaslHandshakeResponse(mechanisms=sasl.mechanisms))


def _refuse(call: Call, sasl: Authentication, code: ErrorCode) -> None:
    is_other = code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    answer = SaslHandshakeResponse(
        error_code=code, mechanisms=sasl.mechanisms if is_other else []
    )
    if sasl.stage is Stage.REFUSED:
        call.refuse(answer, f"{code.name} for mechanism {call.request.mechanism!r}")
    else:
        call.answer(answer)
