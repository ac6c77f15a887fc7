"""Read who a client is from the SASL frames that upstream answers (KIP-43, KIP-152).

Upstream authenticates. The gateway decodes the same tokens, takes the user from the
client's first one, and accepts it after upstream's last one. A token that upstream
could read in another way is refused: its client would get another user's rights.

| mechanism   | user                                     | upstream's last token       |
| ----------- | ---------------------------------------- | --------------------------- |
| PLAIN       | user name (RFC 4616)                     | the first                   |
| SCRAM-SHA-* | user name, decoded (RFC 5802)            | the second, `v=...`         |
| OAUTHBEARER | claim of the JSON Web Token (RFC 7628)   | empty; any other is a fault |
| others      | unknown: refused if rights depend on it  | empty (GSSAPI) or the first |

A delegation token (KIP-48) belongs to an owner that only upstream knows, and is refused
as well.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Callable
from typing import Final

from coterie.auth.acl import ANONYMOUS, USER, Principal
from coterie.errors import MalformedFrame
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import (
    read_client_id,
    read_header_v0,
    read_response,
    write_response,
)

_LOGGER = logging.getLogger(__name__)

PRINCIPAL_CLAIM: Final = "sub"
"""Kafka's default of `sasl.oauthbearer.sub.claim.name`."""
_GSSAPI: Final = "GSSAPI"
_OAUTHBEARER: Final = "OAUTHBEARER"
_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_SASL_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_SCRAM_FIRST: Final = re.compile(
    rf"n,(?:a=({_SASL_NAME}))?,n=({_SASL_NAME}),r=[\x21-\x2b\x2d-\x7e]+((?:,[^,]+)*)",
    re.DOTALL,
)
"""GS2 header, user name, nonce and extensions; Kafka's `ScramMessages`."""
_OAUTH_FIRST: Final = re.compile(
    rf"n,(?:a=({_SASL_NAME}))?,\x01((?:[A-Za-z]+=[^\x01]+\x01)*)\x01", re.DOTALL
)
"""GS2 header and pairs of key and value; Kafka's `OAuthBearerClientInitialResponse`."""
_BEARER: Final = re.compile(r"bearer +([-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)
_OAUTH_ABORT: Final = b"\1"
"""The client's response to a fault."""
_JWT_PARTS: Final = 3


class SaslExchange:
    """The SASL state of one connection, as its frames show it.

    Frames are passed without their sizes, in the order of the exchange: each request
    before it is forwarded, and then its response before it is sent. A client that sends
    a second SASL request before the first response is refused. `clock` is in ms.

    With `needs_principal` false the mechanisms whose user cannot be read are allowed,
    and their clients are ANONYMOUS.
    """

    def __init__(
        self, clock: Callable[[], int], *, needs_principal: bool = True
    ) -> None:
        self.expects_token = False
        """Whether the next frame of the client is a token without a header, as after
        SaslHandshake v0."""
        self._clock = clock
        self._needs_principal = needs_principal
        self._principal: Principal | None = None
        self._session_ends_ms: int | None = None
        self._pending: tuple[int, int] | None = None
        """API key and version of the request without a response; -1 for a token."""
        self._mechanism = ""
        self._offered = ""  # becomes the mechanism when upstream accepts it
        self._user: str | None = None
        """The user of the client's tokens; None while it is unknown."""
        self._tokens = 0
        """The client's tokens since the handshake."""
        self._is_authenticating = False

    @property
    def principal(self) -> Principal | None:
        """The authenticated principal; None before authentication, while it is
        repeated, and after the session's lifetime (KIP-368)."""
        if self._is_authenticating or self._pending is not None:
            return None
        ends_ms = self._session_ends_ms
        if ends_ms is not None and self._clock() > ends_ms:
            return None
        return self._principal

    @property
    def has_succeeded(self) -> bool:
        """Whether the client has authenticated, now or before a repetition."""
        return self._principal is not None

    def request(self, frame: bytes) -> bytes | None:
        """Read a SaslHandshake or SaslAuthenticate request, or a bare token.

        Return None for one to forward. Otherwise return the response that refuses it, a
        frame with its size; the connection must be closed after it.

        Raises MalformedFrame for frames that no client sends.
        """
        if self._pending is not None:
            raise MalformedFrame("a SASL request before the response to the last one")
        if self.expects_token:
            self._pending = -1, 0
            if (problem := self._read_token(frame)) is not None:
                raise MalformedFrame(problem)
            return None
        key, version, correlation_id = read_header_v0(frame)
        self._pending = key, version
        if key == ApiKey.SASL_HANDSHAKE and version in m.SaslHandshakeRequest.VERSIONS:
            return self._read_handshake(frame, version, correlation_id)
        if key != ApiKey.SASL_AUTHENTICATE:
            raise MalformedFrame(f"a request with API key {key}, version {version}")
        if version not in m.SaslAuthenticateRequest.VERSIONS:
            raise MalformedFrame(f"SaslAuthenticate v{version}")
        flexible = version in m.SaslAuthenticateRequest.FLEXIBLE
        _, at = read_client_id(frame, flexible=flexible)
        body, _ = decode(m.SaslAuthenticateRequest, version, frame, at)
        problem = self._read_token(body.auth_bytes)
        if problem is None:
            return None
        refusal = m.SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=problem
        )
        return write_response(correlation_id, encode(refusal, version), tagged=flexible)

    def answer(self, frame: bytes) -> None:
        """Read upstream's response to the last request.

        Raises MalformedFrame when it authenticates another user than before.
        """
        assert self._pending is not None, "a response to no SASL request"
        (key, version), self._pending = self._pending, None
        if key == ApiKey.SASL_HANDSHAKE:
            _, at = read_response(frame, tagged=False)
            greeted, _ = decode(m.SaslHandshakeResponse, version, frame, at)
            if not greeted.error_code:
                self._mechanism = self._offered
                self._user, self._tokens, self._is_authenticating = None, 0, True
                self.expects_token = version == 0
        elif key == ApiKey.SASL_AUTHENTICATE:
            flexible = version in m.SaslAuthenticateResponse.FLEXIBLE
            _, at = read_response(frame, tagged=flexible)
            body, _ = decode(m.SaslAuthenticateResponse, version, frame, at)
            if body.error_code:
                self._principal = None  # upstream closes the connection
            else:
                self._read_answer(body.auth_bytes, body.session_lifetime_ms)
        else:
            self._read_answer(frame, 0)

    # Requests.

    def _read_handshake(
        self, frame: bytes, version: int, correlation_id: int
    ) -> bytes | None:
        _, at = read_client_id(frame, flexible=False)
        body, _ = decode(m.SaslHandshakeRequest, version, frame, at)
        self._offered = body.mechanism
        if body.mechanism in _USERS or not self._needs_principal:
            return None
        _LOGGER.warning(
            "refused SASL mechanism %r: the gateway cannot read who its clients are, "
            "and the authorizer needs that; use one of %s, or --authorizer none",
            body.mechanism[:32],
            ", ".join(_USERS),
        )
        refusal = m.SaslHandshakeResponse(
            error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(_USERS)
        )
        return write_response(correlation_id, encode(refusal, version), tagged=False)

    def _read_token(self, token: bytes) -> str | None:
        """Read a token of the client; return why it is refused, or None.

        After a fault, an OAUTHBEARER server takes another first token.
        """
        if not self._is_authenticating:
            raise MalformedFrame("a SASL token without a handshake")
        self._tokens += 1
        if self._tokens > 1 and self._mechanism in _SCRAM:
            return None
        self._user = None
        if self._tokens > 1 and token == _OAUTH_ABORT:
            return None
        try:
            if (user_of := _USERS.get(self._mechanism)) is not None:
                self._user = user_of(token)
        except (ValueError, RecursionError) as error:
            if self._needs_principal:
                return f"The gateway cannot read the {self._mechanism} token: {error}"
        return None

    # Responses.

    def _read_answer(self, token: bytes, lifetime_ms: int) -> None:
        assert self._is_authenticating, "a token of upstream without a handshake"
        if not self._is_last(token):
            return
        self._is_authenticating = self.expects_token = False
        user = self._user
        principal = ANONYMOUS if user is None else Principal(USER, user)
        if self._principal not in {None, principal}:
            raise MalformedFrame(
                f"re-authentication changes {self._principal} to {principal}"
            )
        if user is None and self._needs_principal:
            raise MalformedFrame(f"{self._mechanism} ended without a user")
        self._principal = principal
        self._session_ends_ms = self._clock() + lifetime_ms if lifetime_ms > 0 else None

    def _is_last(self, answer: bytes) -> bool:
        """Return whether a token of upstream, without an error, ends the exchange."""
        if self._mechanism in _SCRAM:
            return self._tokens > 1 and answer.startswith(b"v=")
        if self._mechanism in {_OAUTHBEARER, _GSSAPI}:
            return not answer
        return True


def _plain_user(token: bytes) -> str:
    parts = token.decode().split("\0")
    if len(parts) != 3:
        raise ValueError(f"it has {len(parts)} parts instead of 3")
    authorization_id, name, _ = parts
    return _agreed(authorization_id, name)


def _scram_user(token: bytes) -> str:
    match = _SCRAM_FIRST.fullmatch(token.decode())
    if match is None:
        raise ValueError("it is not a client-first-message")
    authorization_id, name, extensions = match.groups()
    if "tokenauth=" in extensions:
        raise ValueError("it authenticates by a delegation token, whose owner it omits")
    return _agreed(_unescaped(authorization_id or ""), _unescaped(name))


def _oauth_user(token: bytes) -> str:
    match = _OAUTH_FIRST.fullmatch(token.decode())
    if match is None:
        raise ValueError("it is not a client's first response")
    pairs = [pair.partition("=") for pair in match[2].split("\1") if pair]
    bearers = [value for key, _, value in pairs if key.lower() == "auth"]
    bearer = _BEARER.fullmatch(bearers[0]) if len(bearers) == 1 else None
    if bearer is None:
        raise ValueError("it has no single bearer token")
    parts = bearer[1].split(".")
    if len(parts) != _JWT_PARTS:
        raise ValueError("the bearer token is not a JSON Web Token that is signed only")
    claims = json.loads(_decode_base64(parts[1]))
    name = claims.get(PRINCIPAL_CLAIM) if isinstance(claims, dict) else None
    # Kafka trims the claim, except of a token without a signature.
    if not isinstance(name, str) or name != name.strip():
        raise ValueError(
            f"the JSON Web Token has no text as its claim {PRINCIPAL_CLAIM!r}"
        )
    return _agreed(_unescaped(match[1] or ""), name)


_USERS: Final[dict[str, Callable[[bytes], str]]] = {
    "PLAIN": _plain_user,
    **dict.fromkeys(_SCRAM, _scram_user),
    _OAUTHBEARER: _oauth_user,
}
"""For each mechanism that can be read the function from the client's first token to the
user. They raise ValueError, and RecursionError for a deeply nested JSON Web Token."""


def _agreed(authorization_id: str, name: str) -> str:
    """Return the user. Kafka refuses an authorization id that is another name; other
    servers may accept it and let the client act as that user."""
    if not name or authorization_id not in {"", name}:
        raise ValueError("its authorization id is different from its user name")
    return name


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decode_base64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
