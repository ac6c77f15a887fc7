"""Who a client says it is, and the words of each SASL mechanism for it.

    ClientOptions(sasl=Plain("alice", Secret("...")))
    ClientOptions(sasl=Scram("SCRAM-SHA-512", "alice", Secret("...")))
    ClientOptions(sasl=OAuthBearer(token=provider))

A conversation is a generator: it yields our token, and is sent the broker's answer to
it, until it ends. It raises AuthenticationFailed when the broker's side is not right.

Rules of this file: it knows no connection; `client/authentication.py` carries tokens to
and fro.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

from coterie.client.secret import Secret
from coterie.errors import AuthenticationFailed, ClientError

SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")

Conversation: TypeAlias = Generator[bytes, bytes, None]
TokenProvider: TypeAlias = Callable[[], Awaitable[Secret]]
"""Gets a bearer token that is still good for a while; asked before every
authentication. Raises ClientError."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A name and a password, sent as they are (RFC 4616): only with TLS below."""

    mechanism: ClassVar[str] = "PLAIN"
    username: str
    password: Secret

    async def begin(self) -> Conversation:
        """The words of this mechanism."""
        return _plain(self.username, self.password)


@dataclass(frozen=True, slots=True)
class Scram:
    """A name and a password that is never sent (RFC 5802); the broker proves as well
    that it knows it. `mechanism` is one of SCRAM_MECHANISMS."""

    mechanism: str
    username: str
    password: Secret

    def __post_init__(self) -> None:
        if self.mechanism not in SCRAM_MECHANISMS:
            known = " and ".join(SCRAM_MECHANISMS)
            raise ClientError(f"there is no {self.mechanism}; there are {known}")

    async def begin(self) -> Conversation:
        """The words of this mechanism."""
        return _scram(self.mechanism, self.username, self.password)


@dataclass(frozen=True, slots=True)
class OAuthBearer:
    """A token that somebody else gave out (RFC 7628, KIP-255); `client.oauth` has
    providers of them."""

    mechanism: ClassVar[str] = "OAUTHBEARER"
    token: TokenProvider = field(repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    """More that the broker is told (KIP-342)."""

    async def begin(self) -> Conversation:
        """The words of this mechanism, with a token as fresh as the provider's."""
        return _bearer(await self.token(), self.extensions)


Credentials: TypeAlias = Plain | Scram | OAuthBearer


def _plain(username: str, password: Secret) -> Conversation:
    if "\0" in username + password.reveal():
        raise AuthenticationFailed(
            "PLAIN can send no name or password with a zero byte"
        )
    yield f"\0{username}\0{password.reveal()}".encode()


def _scram(mechanism: str, username: str, password: Secret) -> Conversation:
    from scramp import ScramClient, ScramException

    client = ScramClient([mechanism], "user", "")
    client.username, client.password = _Name(username), _Password(password)
    try:
        said = yield client.get_client_first().encode()
        client.set_server_first(said.decode())
        said = yield client.get_client_final().encode()
        client.set_server_final(said.decode())
    except (ScramException, UnicodeDecodeError) as error:
        raise AuthenticationFailed(
            f"the broker did not keep to {mechanism}, or does not know the password: "
            f"{error}"
        ) from error


class _Name:
    """A name for the library, which would prepare it (RFC 4013). Kafka and its clients
    prepare no strings."""

    def __init__(self, name: str) -> None:
        self._name = name

    def escape(self) -> str:
        """The name as messages have it."""
        return self._name.replace("=", "=3D").replace(",", "=2C")


class _Password:
    """A password for the library: the bytes that were given are hashed."""

    def __init__(self, password: Secret) -> None:
        self._password = password

    def __bytes__(self) -> bytes:
        return self._password.reveal().encode()


def _bearer(token: Secret, extensions: Mapping[str, str]) -> Conversation:
    pairs = {"auth": f"Bearer {token.reveal()}", **extensions}
    said = yield "".join(
        ["n,,\x01", *(f"{key}={value}\x01" for key, value in pairs.items()), "\x01"]
    ).encode()
    if said:
        # It says in JSON what is wrong, and refuses once we have acknowledged that
        # (RFC 7628, 3.2.3).
        yield b"\x01"
        raise AuthenticationFailed(
            f"the token is refused: {said.decode('utf-8', 'replace')}"
        )
