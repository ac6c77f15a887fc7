"""Credentials of a client, and the client side of each SASL mechanism.

    ClientOptions(sasl=Plain("alice", Secret("...")))
    ClientOptions(sasl=Scram("SCRAM-SHA-512", "alice", Secret("...")))
    ClientOptions(sasl=OAuthBearer(token=provider))

A conversation is a generator: it yields a client token, receives the broker's token by
`send`, and ends when the exchange is complete. It raises AuthenticationFailed when the
broker's token is invalid.

Rules of this file: no I/O; `client/connection.py` sends the tokens.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

from coterie.client.secret import Secret
from coterie.errors import AuthenticationFailed, ClientError

SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")

Conversation: TypeAlias = Generator[bytes, bytes, None]
"""The tokens of the client, which gets those of the broker."""
TokenProvider: TypeAlias = Callable[[], Awaitable[Secret]]
"""A function that returns a bearer token that does not expire soon; called before every
authentication. Raises ClientError.
"""


@dataclass(frozen=True, slots=True)
class Plain:
    """A name and a password, sent in plain text (RFC 4616): use TLS."""

    mechanism: ClassVar[str] = "PLAIN"
    username: str
    password: Secret

    async def begin(self) -> Conversation:
        """Start the exchange."""
        return _plain(self.username, self.password)


@dataclass(frozen=True, slots=True)
class Scram:
    """A name and a password that is never sent (RFC 5802); the broker has to prove that
    it has the credential. `mechanism` is one of SCRAM_MECHANISMS."""

    mechanism: str
    username: str
    password: Secret

    def __post_init__(self) -> None:
        if self.mechanism not in SCRAM_MECHANISMS:
            known = " or ".join(SCRAM_MECHANISMS)
            raise ClientError(f"{self.mechanism} is not supported; use {known}")

    async def begin(self) -> Conversation:
        """Start the exchange."""
        return _scram(self.mechanism, self.username, self.password)


@dataclass(frozen=True, slots=True)
class OAuthBearer:
    """A bearer token (RFC 7628, KIP-255); `client.oauth` has providers of tokens."""

    mechanism: ClassVar[str] = "OAUTHBEARER"
    token: TokenProvider = field(repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    """SASL extensions for the broker (KIP-342)."""

    async def begin(self) -> Conversation:
        """Start the exchange with a token from the provider."""
        return _bearer(await self.token(), self.extensions)


Credentials: TypeAlias = Plain | Scram | OAuthBearer
"""The credentials of `ClientOptions.sasl`."""


def _plain(username: str, password: Secret) -> Conversation:
    if "\0" in username + password.reveal():
        raise AuthenticationFailed(
            "PLAIN cannot send a name or password with a zero byte"
        )
    yield f"\0{username}\0{password.reveal()}".encode()


def _scram(mechanism: str, username: str, password: Secret) -> Conversation:
    from scramp import ScramClient, ScramException

    client = ScramClient([mechanism], "user", "")
    client.username, client.password = _Name(username), _Password(password)
    try:
        reply = yield client.get_client_first().encode()
        client.set_server_first(reply.decode())
        reply = yield client.get_client_final().encode()
        client.set_server_final(reply.decode())
    except (ScramException, UnicodeDecodeError) as error:
        raise AuthenticationFailed(
            f"the broker violates {mechanism}, or lacks this user's credential: {error}"
        ) from error


class _Name:
    """A user name that scramp sends unchanged. It would apply SASLprep (RFC 4013),
    which Kafka and its clients do not."""

    def __init__(self, name: str) -> None:
        self._name = name

    def escape(self) -> str:
        """Return the name as escaped in messages."""
        return self._name.replace("=", "=3D").replace(",", "=2C")


class _Password:
    """A password that scramp hashes unchanged."""

    def __init__(self, password: Secret) -> None:
        self._password = password

    def __bytes__(self) -> bytes:
        return self._password.reveal().encode()


def _bearer(token: Secret, extensions: Mapping[str, str]) -> Conversation:
    pairs = {"auth": f"Bearer {token.reveal()}", **extensions}
    reply = yield "".join(
        ["n,,\x01", *(f"{key}={value}\x01" for key, value in pairs.items()), "\x01"]
    ).encode()
    if reply:
        # The broker sends its error as JSON and fails the exchange after an
        # acknowledgement (RFC 7628, 3.2.3).
        yield b"\x01"
        raise AuthenticationFailed(
            f"the broker rejects the token: {reply.decode('utf-8', 'replace')}"
        )
