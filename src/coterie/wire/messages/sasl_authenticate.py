"""SaslAuthenticate, key 36: versions 0-2, flexible from 2 (KIP-152).

v1: the session's lifetime (KIP-368).
v2: flexible (KIP-482).
"""

from __future__ import annotations

from coterie.wire.schema import Message, binary, int16, int64, string


class SaslAuthenticateRequest(Message, key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = binary(is_secret=True)


class SaslAuthenticateResponse(Message, key=36, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = binary()
    session_lifetime_ms: int = int64("1+")
