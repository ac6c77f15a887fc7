"""Who is at the other end: how far a connection has got with saying so (KIP-43).

    handshake names the mechanism -> tokens go back and forth -> open

Rules of this file: it knows no mechanism, only exchanges that take tokens; the time
comes by argument; until a connection is open, nobody decodes more of it than these
requests. Kafka's SaslServerAuthenticator is followed, refusals and messages too, but
that ApiVersions may be asked more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, TypeAlias

from coterie.errors import ApiError, MalformedFrame
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode

REAUTHENTICATION_INTERVAL_MS: Final = 1_000
"""A client that comes again sooner is refused."""
_TOKENS_BY_REQUEST_SINCE: Final = 1


class Exchange(Protocol):
    """One run of a mechanism. `user` is None until it knows who the client is;
    `is_slow` says that working an answer out takes milliseconds."""

    user: str | None

    @property
    def is_slow(self) -> bool:
        """Whether answers are better worked out in another thread."""

    def respond(self, token: bytes) -> Callable[[], bytes]:
        """What works out the answer to a token. Both raise ApiError to refuse."""


Mechanisms: TypeAlias = Mapping[str, Callable[[], Exchange]]
"""The mechanisms that are enabled, each with what begins an exchange."""


class Stage(Enum):
    """How far a connection has got."""

    HANDSHAKE = auto()
    """It may ask for versions, and is to name a mechanism."""
    TOKENS = auto()
    """Its tokens come in SaslAuthenticate (KIP-152)."""
    BARE_TOKENS = auto()
    """Its tokens come as frames of their own, as of clients before that."""
    OPEN = auto()
    """It is known who calls."""
    EXPIRED = auto()
    """It was known, for as long as a session lasts (KIP-368)."""
    REFUSED = auto()
    """It is about to be closed."""


MOVES: Final[Mapping[Stage, frozenset[Stage]]] = {
    Stage.HANDSHAKE: frozenset({Stage.TOKENS, Stage.BARE_TOKENS, Stage.REFUSED}),
    Stage.TOKENS: frozenset({Stage.OPEN, Stage.REFUSED}),
    Stage.BARE_TOKENS: frozenset({Stage.OPEN, Stage.REFUSED}),
    Stage.OPEN: frozenset(
        {Stage.EXPIRED, Stage.TOKENS, Stage.BARE_TOKENS, Stage.REFUSED}
    ),
    Stage.EXPIRED: frozenset({Stage.TOKENS, Stage.BARE_TOKENS, Stage.REFUSED}),
    Stage.REFUSED: frozenset(),
}

_ADMITTED: Final[Mapping[Stage, frozenset[int]]] = {
    Stage.HANDSHAKE: frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}),
    Stage.TOKENS: frozenset(
        {ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}
    ),
    Stage.EXPIRED: frozenset({ApiKey.SASL_HANDSHAKE}),
}


class Accepted(NamedTuple):
    """A token that was right. `lifetime_ms` is 0 for a session that never ends, and
    while more tokens are needed."""

    token: bytes
    lifetime_ms: int


class Authentication:
    """The authentication of one connection, the first and those after it.

    A session lasts `session_ms`, or for ever when that is 0.
    """

    def __init__(
        self, mechanisms: Mechanisms, *, session_ms: int, frame_bytes_max: int
    ) -> None:
        self.stage = Stage.HANDSHAKE
        self.user: str | None = None
        self.frame_bytes_max = frame_bytes_max
        """What a frame may have before the connection is open."""
        self._mechanisms = mechanisms
        self._session_ms = session_ms
        self._mechanism: str | None = None
        self._wanted = ""
        self._exchange: Exchange | None = None
        self._session_ends_ms: int | None = None
        self._begun_again_ms: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether every request may be served."""
        return self.stage is Stage.OPEN

    @property
    def mechanisms(self) -> list[str]:
        """The names of the mechanisms that are enabled."""
        return list(self._mechanisms)

    @property
    def takes_tokens(self) -> bool:
        """Whether it is the turn of a token."""
        return self.stage in {Stage.TOKENS, Stage.BARE_TOKENS}

    @property
    def is_slow(self) -> bool:
        """Whether the answer to a token is better worked out in another thread."""
        assert self._exchange is not None
        return self._exchange.is_slow

    def admit(self, key: int) -> None:
        """Raise MalformedFrame unless a request of that key may be read now."""
        if self.stage is not Stage.OPEN and key not in _ADMITTED.get(self.stage, ()):
            raise MalformedFrame(
                f"a request of key {key} "
                + (
                    "after its session had ended"
                    if self.stage is Stage.EXPIRED
                    else "before it said who it is"
                )
            )

    def at(self, now_ms: int) -> None:
        """Take note of the time: a session may be over."""
        ends_ms = self._session_ends_ms
        if self.is_open and ends_ms is not None and now_ms > ends_ms:
            self._move(Stage.EXPIRED)

    def handshake(self, mechanism: str, version: int, now_ms: int) -> None:
        """Begin with a mechanism.

        Raises ApiError UNSUPPORTED_SASL_MECHANISM or ILLEGAL_SASL_STATE; the connection
        is to be closed then, unless it is open still.
        """
        if self.stage in {Stage.OPEN, Stage.EXPIRED}:
            self._check_again(now_ms)
        elif self.stage is not Stage.HANDSHAKE:
            self._move(Stage.REFUSED)
            raise ApiError(ErrorCode.ILLEGAL_SASL_STATE)
        if mechanism not in self._mechanisms:
            self._move(Stage.REFUSED)
            raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        by_request = version >= _TOKENS_BY_REQUEST_SINCE
        self._move(Stage.TOKENS if by_request else Stage.BARE_TOKENS)
        self._wanted = mechanism
        self._exchange = self._mechanisms[mechanism]()

    def respond(self, token: bytes) -> Callable[[], bytes]:
        """What works out the answer to a token; hand it to `accept`, or what it raises
        to `refuse`. Raises ApiError SASL_AUTHENTICATION_FAILED itself."""
        assert self.takes_tokens
        assert self._exchange is not None
        if self._mechanism not in {None, self._wanted}:
            raise ApiError(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"SASL mechanism '{self._wanted}' requested by client is not supported "
                f"for re-authentication of mechanism '{self._mechanism}'",
            )
        return self._exchange.respond(token)

    def accept(self, token: bytes, now_ms: int) -> Accepted:
        """Send this answer to a token; when it was the last one, it is known who calls.

        Raises ApiError SASL_AUTHENTICATION_FAILED for another user than before.
        """
        assert self.takes_tokens
        assert self._exchange is not None
        user = self._exchange.user
        if user is None:
            return Accepted(token, 0)
        if self.user not in {None, user}:
            raise ApiError(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                "Cannot change principals during re-authentication from "
                f"User.{self.user}: User.{user}",
            )
        self.user, self._mechanism, self._exchange = user, self._wanted, None
        self._move(Stage.OPEN)
        if self._session_ms:
            self._session_ends_ms = now_ms + self._session_ms
        return Accepted(token, self._session_ms)

    def refuse(self, error: ApiError) -> ApiError:
        """The refusal to answer a token with; the connection is to be closed after."""
        assert self.takes_tokens
        self._move(Stage.REFUSED)
        if error.message is not None:
            return error
        what = "authentication" if self.user is None else "re-authentication"
        return ApiError(
            error.code,
            f"Authentication failed during {what} due to invalid credentials with SASL "
            f"mechanism {self._wanted}",
        )

    def _check_again(self, now_ms: int) -> None:
        """Raise ApiError ILLEGAL_SASL_STATE unless a client may say again who it is."""
        if not self._session_ms:
            raise ApiError(ErrorCode.ILLEGAL_SASL_STATE)
        last_ms = self._begun_again_ms
        if last_ms is not None and now_ms - last_ms < REAUTHENTICATION_INTERVAL_MS:
            raise ApiError(ErrorCode.ILLEGAL_SASL_STATE)
        self._begun_again_ms = now_ms

    def _move(self, to: Stage) -> None:
        assert to in MOVES[self.stage], f"{self.stage.name} -> {to.name}"
        self.stage = to
