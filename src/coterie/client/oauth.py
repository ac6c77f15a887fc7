"""Where bearer tokens come from, for `sasl.OAuthBearer`.

    FixedToken(Secret("..."))              one that somebody else got
    TokenFile(Path("/run/secrets/token"))  one that somebody else keeps fresh
    ClientCredentials(Grant("https://...", "id", Secret("...")))   KIP-768
    UnsecuredToken("alice")                unsigned, for brokers under test

Each is a callable that gives a token (`sasl.TokenProvider`).

Rules of this file: a secret goes to the address that was named and nowhere else, over
TLS, and no redirect is followed; what a server says that is no token is never shown.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Never

from coterie.client.secret import Secret
from coterie.errors import AuthenticationFailed, ClientError, ConnectionLost

if TYPE_CHECKING:
    import ssl

_FRESH_UNTIL: Final = 0.8
"""The part of its life after which a token is fetched anew (Kafka's
sasl.login.refresh.window.factor)."""
_LIFE_S: Final = 300
"""How long a token is kept whose life is not told."""
_ANSWER_BYTES_MAX: Final = 1 << 20
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class FixedToken:
    """Always the same token."""

    value: Secret

    async def __call__(self) -> Secret:
        """The token."""
        return self.value


@dataclass(frozen=True, slots=True)
class TokenFile:
    """The token in a file, read each time: somebody else keeps it fresh."""

    file: Path

    async def __call__(self) -> Secret:
        """The token. Raises AuthenticationFailed when there is none."""
        try:
            text = (await asyncio.to_thread(self.file.read_text, "utf-8")).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise AuthenticationFailed(
                f"no token can be read from {self.file}: {error}"
            ) from error
        if not text:
            raise AuthenticationFailed(f"{self.file} holds no token; it is empty")
        return Secret(text)


@dataclass(frozen=True, slots=True)
class UnsecuredToken:
    """A token that anybody could write, for Kafka's validator of unsecured ones, which
    is for tests (KIP-255)."""

    principal: str
    scopes: tuple[str, ...] = ()
    life_s: int = 3_600
    claims: Mapping[str, object] = field(default_factory=dict)
    now_s: Callable[[], float] = time.time

    async def __call__(self) -> Secret:
        """The token, made now."""
        now_s = self.now_s()
        claims: dict[str, object] = {
            "sub": self.principal,
            "iat": now_s,
            "exp": now_s + self.life_s,
            **self.claims,
        }
        if self.scopes:
            claims["scope"] = list(self.scopes)
        return Secret(f"{_part({'alg': 'none'})}.{_part(claims)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Whom to ask for a token, and as whom (OAuth 2.0, client credentials)."""

    url: str
    client_id: str
    client_secret: Secret
    scope: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """More that the request says, such as an audience."""
    ssl: ssl.SSLContext | None = None
    """Whom to trust; the system's certificates without it."""
    timeout_s: float = 10

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if "@" in parts.netloc:
            raise ClientError(
                f"the address for tokens at {parts.hostname} has a name or a password "
                "in it; they go into client.id and client.secret"
            )
        is_near = parts.scheme == "http" and parts.hostname in _LOOPBACK
        if not parts.hostname or (parts.scheme != "https" and not is_near):
            raise ClientError(
                f"tokens cannot be asked for at {self.url!r}; an https:// address can"
            )


class ClientCredentials:
    """Asks for a token and keeps it for most of its life; all connections share it."""

    def __init__(
        self, grant: Grant, *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._grant = grant
        self._clock_s = clock_s
        self._token: Secret | None = None
        self._fresh_until_s = 0.0
        self._lock = asyncio.Lock()

    async def __call__(self) -> Secret:
        """A token that is fresh.

        Raises AuthenticationFailed when we are refused, and ConnectionLost when nobody
        answers, or not now.
        """
        async with self._lock:
            if self._token is None or self._clock_s() >= self._fresh_until_s:
                asked_s = self._clock_s()
                answer = await asyncio.to_thread(_ask, self._grant)
                self._token, life_s = _read(self._grant.url, answer)
                self._fresh_until_s = asked_s + life_s * _FRESH_UNTIL
            return self._token


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class _NoProxyForHttp(urllib.request.ProxyHandler):
    """A proxy only passes TLS on; what is not encrypted it could read."""

    def __init__(self) -> None:
        proxies = urllib.request.getproxies()
        super().__init__(
            {kind: url for kind, url in proxies.items() if kind == "https"}
        )


def _ask(grant: Grant) -> bytes:
    form = {"grant_type": "client_credentials", **grant.parameters}
    if grant.scope:
        form["scope"] = grant.scope
    who = f"{grant.client_id}:{grant.client_secret.reveal()}".encode()
    request = urllib.request.Request(  # noqa: S310  (Grant checks the scheme)
        grant.url,
        data=urllib.parse.urlencode(form).encode(),
        headers={
            "Authorization": f"Basic {base64.b64encode(who).decode()}",
            "Accept": "application/json",
        },
    )
    opener = urllib.request.build_opener(
        _NoRedirect,
        _NoProxyForHttp,
        urllib.request.HTTPSHandler(context=grant.ssl),
    )
    try:
        with opener.open(request, timeout=grant.timeout_s) as answer:
            return _body(answer)
    except urllib.error.HTTPError as error:
        with error:
            _refuse(grant.url, error)
    except OSError as error:  # URLError and TimeoutError are
        _unreached(grant.url, error)


def _unreached(url: str, error: OSError) -> Never:
    """Raise what it means that nobody was asked. A certificate that is not trusted now
    will not be later."""
    reason = getattr(error, "reason", error)
    verify_message = getattr(reason, "verify_message", None)
    if verify_message is not None:
        raise AuthenticationFailed(
            f"no token from {url}: its certificate is not trusted: {verify_message}"
        ) from error
    raise ConnectionLost(f"no token from {url}: {reason}") from error


def _body(answer: IO[bytes]) -> bytes:
    return answer.read(_ANSWER_BYTES_MAX)


def _refuse(url: str, error: urllib.error.HTTPError) -> Never:
    """Raise what an HTTP status means: 5xx, 408 and 429 may pass."""
    sentence = f"no token from {url}: HTTP {error.code}"
    if error.code >= 500 or error.code in {408, 429}:
        raise ConnectionLost(sentence)
    try:
        said = json.loads(_body(error))
        words = [
            str(said[key]) for key in ("error", "error_description") if key in said
        ]
        sentence += f" ({': '.join(words)})" if words else ""
    except (ValueError, TypeError):
        pass
    raise AuthenticationFailed(sentence)


def _read(url: str, answer: bytes) -> tuple[Secret, float]:
    """The token in an answer, and for how many seconds it is good."""
    try:
        said = json.loads(answer)
        token = said["access_token"]
        life_s = float(said.get("expires_in") or _LIFE_S)
    except (ValueError, KeyError, TypeError, AttributeError):
        token, life_s = None, 0.0
    if not isinstance(token, str) or not token:
        raise AuthenticationFailed(f"{url} answered, but with no access_token")
    return Secret(token), life_s


def _part(value: Mapping[str, object]) -> str:
    text = json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()
