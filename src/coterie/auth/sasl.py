"""The SASL mechanisms: PLAIN (RFC 4616) and SCRAM (RFC 5802), the server's side.

An exchange takes the client's tokens one by one until it knows who the client is, or
refuses with ApiError SASL_AUTHENTICATION_FAILED. All mechanisms check against the same
credentials: a user is made once and may come by any of them. A refusal never says
whether there is such a user; without a message it is the one that all refusals share.
Nor does the way there: in place of a user there is not, something that looks like one
is checked (in Kafka, SCRAM refuses an unknown name one token earlier than a wrong
password). Names count as the characters they are: Kafka prepares no strings.
"""

from __future__ import annotations

import re
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
"""From a user's name to what is kept of the password; None for nobody. Or to what is
shown in place of that; None where nobody comes by the mechanism."""
Answer: TypeAlias = Callable[[], bytes]
"""Works out the answer to a token, or raises ApiError. It touches nothing shared, so it
may run in any thread."""


Exchanges: TypeAlias = "Callable[[], PlainExchange | ScramExchange]"


def nobody(_user: str, _mechanism: ScramMechanism) -> ScramCredential | None:
    """A lookup that finds nothing."""
    return None


def mechanisms(
    names: Iterable[str], lookup: Lookup, stand_in: Lookup = nobody
) -> dict[str, Exchanges]:
    """What begins an exchange of each of these mechanisms."""
    known: dict[str, Exchanges] = {"PLAIN": partial(PlainExchange, lookup, stand_in)}
    for each in ScramMechanism:
        known[each.sasl_name] = partial(ScramExchange, each, lookup, stand_in)
    return {name: known[name] for name in names}


class PlainExchange:
    """Name and password in one token, in clear text."""

    is_slow: Final = True
    """An answer takes some milliseconds of hashing."""

    def __init__(self, lookup: Lookup, stand_in: Lookup = nobody) -> None:
        self.user: str | None = None
        self._lookup = lookup
        self._stand_in = stand_in

    def respond(self, token: bytes) -> Answer:
        """Look the user up; the answer is empty when the password is right. Raises
        ApiError for a token that is none."""
        acts_as, name, password = _parts(token)
        shown = self._find(name, self._stand_in) or _NOBODY
        found = self._find(name, self._lookup)
        mechanism, credential = found or shown

        def answer() -> bytes:
            is_right = is_password(mechanism, credential, password)
            if found is None or not is_right:
                raise _refused("Authentication failed: Invalid username or password")
            if acts_as not in {"", name}:
                raise _refused(
                    "Authentication failed: Client requested an authorization id that "
                    "is different from username"
                )
            self.user = name
            return b""

        return answer

    @staticmethod
    def _find(
        name: str, lookup: Lookup
    ) -> tuple[ScramMechanism, ScramCredential] | None:
        """The user's credential; of two, the quicker one to check."""
        for mechanism in ScramMechanism:
            found = lookup(name, mechanism)
            if found is not None:
                return mechanism, found
        return None


class ScramExchange:
    """The client shows that it knows the password, and so does the server. `nonce` is
    for tests: the library makes a fresh one."""

    is_slow: Final = False

    def __init__(
        self,
        mechanism: ScramMechanism,
        lookup: Lookup,
        stand_in: Lookup = nobody,
        *,
        nonce: str | None = None,
    ) -> None:
        self.user: str | None = None
        self._mechanism = mechanism
        self._lookup = lookup
        self._stand_in = stand_in
        self._claimed: str | None = None
        self._is_known = False
        self._server = ScrampMechanism(mechanism.sasl_name).make_server(
            self._find, s_nonce=nonce
        )

    def respond(self, token: bytes) -> Answer:
        """The answer to the client's first token or its last."""
        try:
            text = token.decode()
            if self._claimed is None:
                answer = self._begin(text)
            else:
                self._server.set_client_final(text)
                answer = self._server.get_server_final()
                if not self._is_known:
                    raise _refused()
                self.user = self._claimed
        except (ScramException, UnicodeDecodeError):
            raise _refused() from None
        return answer.encode

    def _begin(self, text: str) -> str:
        """The answer to the first token. The library would prepare the name
        (RFC 4013), so it is shown another one."""
        match = _FIRST.fullmatch(text)
        if match is None:
            raise _refused()
        front, name, rest = match.groups()
        self._claimed = name.replace("=2C", ",").replace("=3D", "=")
        self._server.set_client_first(f"{front}n=user{rest}")
        self._server.client_first_bare = f"n={name}{rest}"
        answer: str = self._server.get_server_first()
        return answer

    def _find(self, _: str) -> ScramCredential | None:
        assert self._claimed is not None
        shown = self._stand_in(self._claimed, self._mechanism)
        found = self._lookup(self._claimed, self._mechanism)
        self._is_known = found is not None
        return found or shown


_FIRST: Final = re.compile(r"([^,]*,[^,]*,)n=((?:[^\0,=]|=2C|=3D)+)(,.*)", re.DOTALL)
"""A first token: what it says of channels and roles, the name, and the rest."""
_NOBODY: Final = (
    ScramMechanism.SCRAM_SHA_256,
    make_credential(ScramMechanism.SCRAM_SHA_256, "", bytes(32), ITERATIONS_MIN),
)
"""Checked where there are no users at all, so that a refusal takes as long."""


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
