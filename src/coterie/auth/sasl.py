"""The server's side of the SASL mechanisms PLAIN (RFC 4616) and SCRAM (RFC 5802).

An exchange takes the client's tokens one by one until the user is authenticated, or
raises ApiError SASL_AUTHENTICATION_FAILED. All mechanisms verify against the same SCRAM
credentials, so a user is created once for all of them.

Errors do not reveal whether a user exists: for an unknown user a mock credential is
verified, so that the time and the failing token are the same. (In Kafka, SCRAM rejects
an unknown user one token earlier than a wrong password.) User names are compared
without SASLprep, as in Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeAlias

from scramp import ScramException
from scramp import ScramMechanism as ScrampMechanism

from coterie.auth.scram import ITERATIONS_MIN, make_credential, password_matches
from coterie.errors import ApiError
from coterie.types import ScramCredential, ScramMechanism
from coterie.wire.error_codes import ErrorCode

Lookup: TypeAlias = Callable[[str, ScramMechanism], ScramCredential | None]
"""A function from a user's name to two values: the user's credential, or None; and a
mock credential, or None when no user has a credential for the mechanism.
"""
Response: TypeAlias = Callable[[], bytes]
"""A function that computes the response to a token, or raises ApiError. It may run in
any thread: it uses no shared state.
"""
ExchangeFactory: TypeAlias = "Callable[[], PlainExchange | ScramExchange]"


def no_credential(_user: str, _mechanism: ScramMechanism) -> ScramCredential | None:
    """Return None for every user: a credential lookup without users."""
    return None


def mechanisms(
    names: Iterable[str], lookup: Lookup, mock_lookup: Lookup = no_credential
) -> dict[str, ExchangeFactory]:
    """Return a factory of exchanges for each of the named mechanisms."""
    factories: dict[str, ExchangeFactory] = {
        "PLAIN": partial(PlainExchange, lookup, mock_lookup)
    }
    for each in ScramMechanism:
        factories[each.sasl_name] = partial(ScramExchange, each, lookup, mock_lookup)
    return {name: factories[name] for name in names}


class PlainExchange:
    """An exchange of PLAIN: user name and password in one token, in clear text."""

    is_slow: Final = True
    """A response takes some milliseconds of hashing."""

    def __init__(self, lookup: Lookup, mock_lookup: Lookup = no_credential) -> None:
        self.user: str | None = None
        self.claimed_user = ""
        self._lookup = lookup
        self._mock_lookup = mock_lookup

    def respond(self, token: bytes) -> Response:
        """Return a function that verifies the password and returns an empty response.

        Raises ApiError when the token is malformed.
        """
        authorization_id, name, password = _parse_plain(token)
        self.claimed_user = name
        mock = self._find(name, self._mock_lookup) or _MOCK
        found = self._find(name, self._lookup)
        mechanism, credential = found or mock

        def response() -> bytes:
            # Verify the password of unknown users, too, so that it takes the same time.
            matches = password_matches(mechanism, credential, password)
            if found is None or not matches:
                raise _failed("Authentication failed: Invalid username or password")
            if authorization_id not in {"", name}:
                raise _failed(
                    "Authentication failed: Client requested an authorization id that "
                    "is different from username"
                )
            self.user = name
            return b""

        return response

    @staticmethod
    def _find(
        name: str, lookup: Lookup
    ) -> tuple[ScramMechanism, ScramCredential] | None:
        # Prefer SCRAM-SHA-256, which is faster to verify.
        for mechanism in ScramMechanism:
            credential = lookup(name, mechanism)
            if credential is not None:
                return mechanism, credential
        return None


class ScramExchange:
    """An exchange of SCRAM, in which client and server prove knowledge of the password.

    `nonce` is for tests; by default the library generates one.
    """

    is_slow: Final = False

    def __init__(
        self,
        mechanism: ScramMechanism,
        lookup: Lookup,
        mock_lookup: Lookup = no_credential,
        *,
        nonce: str | None = None,
    ) -> None:
        self.user: str | None = None
        self._mechanism = mechanism
        self._lookup = lookup
        self._mock_lookup = mock_lookup
        self.claimed_user = ""
        self._user_exists = False
        self._server = ScrampMechanism(mechanism.sasl_name).make_server(
            self._find, s_nonce=nonce
        )

    def respond(self, token: bytes) -> Response:
        """Return a function that responds to the client's first or final token; for the
        final one, it verifies the proof."""
        try:
            text = token.decode()
            if self.claimed_user:
                return partial(self._respond_to_final, text)
            return self._respond_to_first(text).encode
        except (ScramException, UnicodeDecodeError):
            raise _failed() from None

    def _respond_to_final(self, text: str) -> bytes:
        try:
            self._server.set_client_final(text)
        except ScramException:
            raise _failed() from None
        response: str = self._server.get_server_final()
        if not self._user_exists:
            raise _failed()
        self.user = self.claimed_user
        return response.encode()

    def _respond_to_first(self, text: str) -> str:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise _failed()
        front, name, rest = match.groups()
        self.claimed_user = name.replace("=2C", ",").replace("=3D", "=")
        # The library would apply SASLprep to the name (RFC 4013): replace the name by
        # "user", and restore it for the signature.
        self._server.set_client_first(f"{front}n=user{rest}")
        self._server.client_first_bare = f"n={name}{rest}"
        response: str = self._server.get_server_first()
        return response

    def _find(self, _: str) -> ScramCredential | None:
        assert self.claimed_user
        mock = self._mock_lookup(self.claimed_user, self._mechanism)
        credential = self._lookup(self.claimed_user, self._mechanism)
        self._user_exists = credential is not None
        return credential or mock


_CLIENT_FIRST: Final = re.compile(
    r"([^,]*,[^,]*,)n=((?:[^\0,=]|=2C|=3D)+)(,.*)", re.DOTALL
)
"""The client's first message: GS2 header, user name, and the remaining attributes."""
_MOCK: Final = (
    ScramMechanism.SCRAM_SHA_256,
    make_credential(ScramMechanism.SCRAM_SHA_256, "", bytes(32), ITERATIONS_MIN),
)
"""The credential verified when no user exists, so that a failure takes the same time.
"""


def _parse_plain(token: bytes) -> tuple[str, str, str]:
    """Return authorization id, user name and password."""
    parts = token.decode(errors="replace").split("\0")
    if len(parts) != 3:
        raise _failed(
            f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}"
        )
    authorization_id, name, password = parts
    if not name:
        raise _failed("Authentication failed: username not specified")
    if not password:
        raise _failed("Authentication failed: password not specified")
    return authorization_id, name, password


def _failed(message: str | None = None) -> ApiError:
    return ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
