"""SaslHandshake, key 17: versions 0-1 (KIP-43, KIP-152), and again later (KIP-368)."""

from __future__ import annotations

from coterie.errors import ApiError
from coterie.protocol.sasl import Stage
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
    answer = SaslHandshakeResponse(mechanisms=sasl.mechanisms)
    try:
        now_ms = call.node.broker.clock()
        sasl.handshake(request.mechanism, call.api_version, now_ms)
    except ApiError as error:
        answer.error_code = error.code
        if error.code is ErrorCode.ILLEGAL_SASL_STATE:
            answer.mechanisms = []
    if sasl.stage is Stage.REFUSED:
        call.refuse(answer)
    else:
        call.answer(answer)
