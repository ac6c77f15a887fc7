"""SaslAuthenticate, key 36: versions 0-2 (KIP-152; 1: session lifetime, KIP-368).

Tokens that come as bare frames, behind a SaslHandshake v0, are handled here too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from coterie.auth.authorizer import Principal
from coterie.errors import ApiError
from coterie.protocol.sasl import Authentication
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


def handle(call: Call) -> None:
    """Take a token; a password is checked in another thread."""
    request: SaslAuthenticateRequest = call.request
    sasl = call.peer.sasl
    if sasl is None or not sasl.takes_tokens:
        call.answer(
            SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                error_message="SaslAuthenticate request received after successful "
                "authentication",
            )
        )
        return
    finish = partial(_finish, call, sasl)
    try:
        work = sasl.respond(request.auth_bytes)
    except ApiError as error:
        _refuse(call, sasl, error)
        return
    if sasl.is_slow:
        call.peer.compute(work, finish)
    else:
        finish(work)


def _finish(call: Call, sasl: Authentication, outcome: Callable[[], bytes]) -> None:
    try:
        accepted = sasl.accept(outcome(), call.node.broker.clock())
    except ApiError as error:
        _refuse(call, sasl, error)
        return
    if sasl.user is not None and sasl.is_open:
        call.peer.become(Principal("User", sasl.user))
    call.answer(
        SaslAuthenticateResponse(
            error_message=None,
            auth_bytes=accepted.token,
            session_lifetime_ms=accepted.lifetime_ms,
        )
    )


def _refuse(call: Call, sasl: Authentication, error: ApiError) -> None:
    refusal = sasl.refuse(error)
    answer = SaslAuthenticateResponse(
        error_code=refusal.code, error_message=refusal.message
    )
    call.refuse(answer, str(refusal))
