"""The APIs of SASL authentication.

================  ===  =========================================
API               key  versions
================  ===  =========================================
SaslHandshake     17   0-1 (KIP-43, KIP-152)
SaslAuthenticate  36   0-2 (KIP-152; 1: session lifetime, KIP-368)
================  ===  =========================================

A client may authenticate again on the same connection (KIP-368). Tokens without a
request header, which follow a SaslHandshake v0, are served as SaslAuthenticate too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from coterie.auth.acl import Principal
from coterie.broker.protocol.sasl import Authentication, SaslState
from coterie.broker.server.call import Call
from coterie.errors import ApiError
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode


def sasl_handshake(call: Call) -> None:
    """Select a mechanism, or respond with the enabled ones.

    On a listener without SASL, and for a re-authentication before the minimum interval,
    the response is ILLEGAL_SASL_STATE and the connection stays open.
    """
    request: m.SaslHandshakeRequest = call.request
    sasl = call.peer.sasl
    if sasl is None:
        call.respond(m.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        return
    try:
        now_ms = call.node.broker.clock()
        sasl.handshake(request.mechanism, call.api_version, now_ms)
    except ApiError as error:
        _fail_handshake(call, sasl, error.code)
    else:
        call.respond(m.SaslHandshakeResponse(mechanisms=sasl.mechanisms))


def _fail_handshake(call: Call, sasl: Authentication, code: ErrorCode) -> None:
    is_unsupported = code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    response = m.SaslHandshakeResponse(
        error_code=code, mechanisms=sasl.mechanisms if is_unsupported else []
    )
    if sasl.state is SaslState.FAILED:
        reason = f"{code.name} for mechanism {call.request.mechanism!r}"
        call.fail_authentication(response, reason)
    else:
        call.respond(response)


def sasl_authenticate(call: Call) -> None:
    """Process a token of the client; a password is checked in a worker thread, and
    later after failed attempts."""
    request: m.SaslAuthenticateRequest = call.request
    sasl = call.peer.sasl
    if sasl is None or not sasl.expects_token:
        call.respond(
            m.SaslAuthenticateResponse(
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
        _fail(call, sasl, error)
        return
    call.peer.check_password(work, finish)


def _finish(call: Call, sasl: Authentication, outcome: Callable[[], bytes]) -> None:
    try:
        accepted = sasl.accept(outcome(), call.node.broker.clock())
    except ApiError as error:
        _fail(call, sasl, error)
        return
    if sasl.user is not None and sasl.is_complete:
        call.peer.set_principal(Principal("User", sasl.user))
    call.respond(
        m.SaslAuthenticateResponse(
            error_message=None,
            auth_bytes=accepted.token,
            session_lifetime_ms=accepted.lifetime_ms,
        )
    )


def _fail(call: Call, sasl: Authentication, error: ApiError) -> None:
    refusal = sasl.refuse(error)
    response = m.SaslAuthenticateResponse(
        error_code=refusal.code, error_message=refusal.message
    )
    call.fail_authentication(response, str(refusal))
