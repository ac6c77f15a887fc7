"""The SASL state of one connection (KIP-43, KIP-152, KIP-368).

    SaslHandshake names the mechanism -> tokens are exchanged -> complete

Rules of this file: this module depends on no mechanism and uses only the interface
`Exchange`; the time is an argument; until authentication is complete, only the requests
of `_ADMITTED` are decoded. States, errors and messages are those of Kafka's
SaslServerAuthenticator, except that ApiVersions may be requested more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, TypeAlias

from coterie.errors import ApiError, MalformedFrame
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode

REAUTHENTICATION_INTERVAL_MS: Final = 1_000
"""The least time between two re-authentications, as in Kafka."""
_SASL_AUTHENTICATE_SINCE: Final = 1
"""The version of SaslHandshake from which on tokens are sent in SaslAuthenticate."""


class Exchange(Protocol):
    """One authentication exchange of a SASL mechanism. `user` is None until the client
    is authenticated; `claimed_user` is the name in its first token, "" before."""

    user: str | None
    claimed_user: str

    @property
    def is_slow(self) -> bool:
        """Whether a response takes milliseconds to compute (password hashing)."""

    def respond(self, token: bytes) -> Callable[[], bytes]:
        """Return a function that computes the response to a token.

        Both raise ApiError SASL_AUTHENTICATION_FAILED.
        """


Mechanisms: TypeAlias = Mapping[str, Callable[[], Exchange]]
"""The enabled mechanisms by name, each with a function that begins an exchange."""


class SaslState(Enum):
    """The state of a connection's authentication, after Kafka's SaslState."""

    HANDSHAKE = auto()
    """The client may request ApiVersions and has to name a mechanism."""
    AUTHENTICATE = auto()
    """Tokens arrive in SaslAuthenticate requests (KIP-152)."""
    RAW_AUTHENTICATE = auto()
    """Tokens arrive as raw frames: the client sent SaslHandshake v0."""
    COMPLETE = auto()
    """The client is authenticated."""
    EXPIRED = auto()
    """The session's lifetime has passed (KIP-368)."""
    FAILED = auto()
    """Authentication failed; the connection is about to be closed."""


TRANSITIONS: Final[Mapping[SaslState, frozenset[SaslState]]] = {
    SaslState.HANDSHAKE: frozenset(
        {SaslState.AUTHENTICATE, SaslState.RAW_AUTHENTICATE, SaslState.FAILED}
    ),
    SaslState.AUTHENTICATE: frozenset({SaslState.COMPLETE, SaslState.FAILED}),
    SaslState.RAW_AUTHENTICATE: frozenset({SaslState.COMPLETE, SaslState.FAILED}),
    SaslState.COMPLETE: frozenset(
        {
            SaslState.EXPIRED,
            SaslState.AUTHENTICATE,
            SaslState.RAW_AUTHENTICATE,
            SaslState.FAILED,
        }
    ),
    SaslState.EXPIRED: frozenset(
        {SaslState.AUTHENTICATE, SaslState.RAW_AUTHENTICATE, SaslState.FAILED}
    ),
    SaslState.FAILED: frozenset(),
}

_ADMITTED: Final[Mapping[SaslState, frozenset[int]]] = {
    SaslState.HANDSHAKE: frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}),
    SaslState.AUTHENTICATE: frozenset(
        {ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}
    ),
    SaslState.EXPIRED: frozenset({ApiKey.SASL_HANDSHAKE}),
}


class TokenResponse(NamedTuple):
    """The response to a valid token. `lifetime_ms` is the session's lifetime; 0 when it
    has no end, and while more tokens are needed."""

    token: bytes
    lifetime_ms: int


class Authentication:
    """The authentication of one connection, and its re-authentications.

    A session lasts `session_ms`; without end when that is 0.
    """

    def __init__(
        self, mechanisms: Mechanisms, *, session_ms: int, frame_bytes_max: int
    ) -> None:
        self.state = SaslState.HANDSHAKE
        self.user: str | None = None
        self.frame_bytes_max = frame_bytes_max
        """The largest frame accepted before authentication is complete."""
        self._mechanisms = mechanisms
        self._session_ms = session_ms
        self._mechanism: str | None = None
        self._requested_mechanism = ""
        self._exchange: Exchange | None = None
        self._session_ends_ms: int | None = None
        self._reauthenticated_ms: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every request may be served."""
        return self.state is SaslState.COMPLETE

    @property
    def mechanisms(self) -> list[str]:
        """The names of the enabled mechanisms."""
        return list(self._mechanisms)

    @property
    def expects_token(self) -> bool:
        """Whether the next request has to carry a token."""
        return self.state in {SaslState.AUTHENTICATE, SaslState.RAW_AUTHENTICATE}

    @property
    def claimed_user(self) -> str:
        """The user that the client claims to be; "" before its first token."""
        return "" if self._exchange is None else self._exchange.claimed_user

    @property
    def is_slow(self) -> bool:
        """Whether the response to a token should be computed in another thread."""
        assert self._exchange is not None
        return self._exchange.is_slow

    def admit(self, key: int) -> None:
        """Raise MalformedFrame unless a request of that key may be decoded in this
        state."""
        if self.is_complete or key in _ADMITTED.get(self.state, ()):
            return
        is_expired = self.state is SaslState.EXPIRED
        when = "after the session expired" if is_expired else "before authentication"
        raise MalformedFrame(f"a request with API key {key} {when}")

    def expire_session(self, now_ms: int) -> None:
        """Move to EXPIRED when the session's lifetime has passed."""
        ends_ms = self._session_ends_ms
        if self.is_complete and ends_ms is not None and now_ms > ends_ms:
            self._move(SaslState.EXPIRED)

    def handshake(self, mechanism: str, version: int, now_ms: int) -> None:
        """Begin an exchange of the mechanism that SaslHandshake of `version` names.

        Raises ApiError UNSUPPORTED_SASL_MECHANISM or ILLEGAL_SASL_STATE; the connection
        must then be closed, unless `is_complete` still holds.
        """
        if self.state in {SaslState.COMPLETE, SaslState.EXPIRED}:
            self._check_reauthentication(now_ms)
        elif self.state is not SaslState.HANDSHAKE:
            self._move(SaslState.FAILED)
            raise ApiError(ErrorCode.ILLEGAL_SASL_STATE)
        if mechanism not in self._mechanisms:
            self._move(SaslState.FAILED)
            raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        if version >= _SASL_AUTHENTICATE_SINCE:
            self._move(SaslState.AUTHENTICATE)
        else:
            self._move(SaslState.RAW_AUTHENTICATE)
        self._requested_mechanism = mechanism
        self._exchange = self._mechanisms[mechanism]()

    def respond(self, token: bytes) -> Callable[[], bytes]:
        """Return a function that computes the response to a token.

        Pass its result to `accept`, or the ApiError that it raises to `refuse`. Raises
        ApiError SASL_AUTHENTICATION_FAILED for another mechanism than before.
        """
        assert self.expects_token
        assert self._exchange is not None
        if self._mechanism not in {None, self._requested_mechanism}:
            raise ApiError(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"SASL mechanism '{self._requested_mechanism}' requested by client is "
                "not supported for re-authentication of mechanism "
                f"'{self._mechanism}'",
            )
        return self._exchange.respond(token)

    def accept(self, token: bytes, now_ms: int) -> TokenResponse:
        """Return the response to a valid token; the last one completes authentication.

        Raises ApiError SASL_AUTHENTICATION_FAILED when a re-authentication names
        another user.
        """
        assert self.expects_token
        assert self._exchange is not None
        user = self._exchange.user
        if user is None:
            return TokenResponse(token, 0)
        if self.user not in {None, user}:
            raise ApiError(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                "Cannot change principals during re-authentication from "
                f"User.{self.user}: User.{user}",
            )
        self.user, self._mechanism = user, self._requested_mechanism
        self._exchange = None
        self._move(SaslState.COMPLETE)
        if self._session_ms:
            self._session_ends_ms = now_ms + self._session_ms
        return TokenResponse(token, self._session_ms)

    def refuse(self, error: ApiError) -> ApiError:
        """Return the error for the response to an invalid token.

        The connection must be closed after that response.
        """
        assert self.expects_token
        self._move(SaslState.FAILED)
        if error.message is not None:
            return error
        what = "authentication" if self.user is None else "re-authentication"
        return ApiError(
            error.code,
            f"Authentication failed during {what} due to invalid credentials with SASL "
            f"mechanism {self._requested_mechanism}",
        )

    def _check_reauthentication(self, now_ms: int) -> None:
        if not self._session_ms:
            raise ApiError(ErrorCode.ILLEGAL_SASL_STATE)
        last_ms = self._reauthenticated_ms
        if last_ms is not None and now_ms - last_ms < REAUTHENTICATION_INTERVAL_MS:
            raise ApiError(ErrorCode.ILLEGAL_SASL_STATE)
        self._reauthenticated_ms = now_ms

    def _move(self, to: SaslState) -> None:
        assert to in TRANSITIONS[self.state], f"{self.state.name} -> {to.name}"
        self.state = to
