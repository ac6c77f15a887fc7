"""SaslHandshake, key 17: versions 0-1, never flexible.

v0: tokens follow as raw frames (KIP-43).
v1: tokens follow in SaslAuthenticate requests (KIP-152).
"""

from __future__ import annotations

from coterie.wire.schema import Message, array, int16, string


class SaslHandshakeRequest(Message, key=17, versions="0-1"):
    mechanism: str = string()


class SaslHandshakeResponse(Message, key=17, versions="0-1"):
    error_code: int = int16()
    mechanisms: list[str] = array("string")
