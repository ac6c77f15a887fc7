"""SaslHandshake, key 17: versions 0-1 (KIP-43, KIP-152). No mechanism is enabled."""

from __future__ import annotations

from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.sasl_handshake import SaslHandshakeResponse


def handle(call: Call) -> None:
    """Refuse whatever mechanism was asked for and name those there are: none."""
    call.answer(SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM))
