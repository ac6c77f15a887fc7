"""The SASL mechanisms: PLAIN (RFC 4616) and SCRAM (RFC 5802), the server's side.

An exchange takes the client's tokens one by one until it knows who the client is, or
refuses with ApiError SASL_AUTHENTICATION_FAILED. All mechanisms check against the same
credentials: a user is made once and may come by any of them. A refusal never says
whether there is such a user; without a message it is the one that all refusals share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeAlias

from scramp import ScramException
from scramp import ScramMechanism as ScrampMechanism

from coterie.auth.scram import ITERATIONS_MIN, is_password, make_credential
from coterie.errors import ApiError
from coterie.types import ScramCredential, ScramMechanism
from coterie.wire.error_codes import ErrorCode

Lookup: TypeAlias = Callable[[str, ScramMechanism], ScramCredential | None]
"""From a user's name to what is kept of the password; None for nobody."""
Answer: TypeAlias = Callable[[], bytes]
"""Works out the answer to a token, or raises ApiError. It touches nothing shared, so it
may run in any thread."""


Exchanges: TypeAlias = "Callable[[], PlainExchange | ScramExchange]"


def mechanisms(names: Iterable[str], lookup: Lookup) -> dict[str, Exchanges]:
    """What begins an exchange of each of these mechanisms."""
    known: dict[str, Exchanges] = {"PLAIN": partial(PlainExchange, lookup)}
    for each in ScramMechanism:
        known[each.sasl_name] = partial(ScramExchange, each, lookup)
    return {name: known[name] for name in names}


class PlainExchange:
    """Name and password in one token, in clear text."""

    is_slow: Final = True
    """An answer takes some milliseconds of hashing."""

    def __init__(self, lookup: Lookup) -> None:
        self.user: str | None = None
        self._lookup = lookup

    def respond(self, token: bytes) -> Answer:
        """Look the user up; the answer is empty when the password is right. Raises
        ApiError for a token that is none."""
        acts_as, name, password = _parts(token)
        mechanism, credential = self._find(name)

        def answer() -> bytes:
            is_right = is_password(mechanism, credential or _NOBODY, password)
            if credential is None or not is_right:
                raise _refused("Authentication failed: Invalid username or password")
            if acts_as not in {"", name}:
                raise _refused(
                    "Authentication failed: Client requested an authorization id that "
                    "is different from username"
                )
            self.user = name
            return b""

        return answer

    def _find(self, name: str) -> tuple[ScramMechanism, ScramCredential | None]:
        """The user's credential; of two, the quicker one to check."""
        for mechanism in ScramMechanism:
            found = self._lookup(name, mechanism)
            if found is not None:
                return mechanism, found
        return ScramMechanism.SCRAM_SHA_256, None


class ScramExchange:
    """The client shows that it knows the password, and so does the server. `nonce` is
    for tests: the library makes a fresh one."""

    is_slow: Final = False

    def __init__(
        self, mechanism: ScramMechanism, lookup: Lookup, nonce: str | None = None
    ) -> None:
        self.user: str | None = None
        self._mechanism = mechanism
        self._lookup = lookup
        self._claimed: str | None = None
        self._server = ScrampMechanism(mechanism.sasl_name).make_server(
            self._find, s_nonce=nonce
        )

    def respond(self, token: bytes) -> Answer:
        """The answer to the client's first token or its last."""
        try:
            text = token.decode()
            if self._claimed is None:
                self._server.set_client_first(text)
                answer: str = self._server.get_server_first()
            else:
                self._server.set_client_final(text)
                answer = self._server.get_server_final()
                self.user = self._claimed
        except (ScramException, UnicodeDecodeError):
            raise _refused() from None
        return answer.encode

    def _find(self, name: str) -> ScramCredential | None:
        found = self._lookup(name, self._mechanism)
        if found is None:
            return None
        self._claimed = name
        return found


_NOBODY: Final = make_credential(
    ScramMechanism.SCRAM_SHA_256, "", bytes(32), ITERATIONS_MIN
)
"""Checked in place of a user there is not, so that a refusal takes as long."""


def _parts(token: bytes) -> tuple[str, str, str]:
    """Whom the client wants to act as, its name and its password."""
    parts = token.decode(errors="replace").split("\0")
    if len(parts) != 3:
        raise _refused(
            f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}"
        )
    acts_as, name, password = parts
    if not name:
        raise _refused("Authentication failed: username not specified")
    if not password:
        raise _refused("Authentication failed: password not specified")
    return acts_as, name, password


def _refused(message: str | None = None) -> ApiError:
    return ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
