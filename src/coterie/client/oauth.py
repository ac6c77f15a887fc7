"""Providers of bearer tokens for `sasl.OAuthBearer`.

    FixedToken(Secret("..."))              a given token
    TokenFile(Path("/run/secrets/token"))  a file that another process refreshes
    ClientCredentials(Grant("https://...", "id", Secret("...")))   KIP-768
    UnsecuredToken("alice")                unsigned, for brokers under test

Each is a callable that returns a token (`sasl.TokenProvider`).

Rules of this file: a secret is sent over TLS to the configured address only, and no
redirect is followed. A response that is not a token is never printed.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Never

from coterie.client.secret import Secret
from coterie.errors import AuthenticationFailed, ClientError, ConnectionLost
from coterie.files import decode_text
from coterie.http_endpoint import is_loopback

_FRESH_UNTIL: Final = 0.8
"""The share of its lifetime after which a token is refreshed (Kafka's
sasl.login.refresh.window.factor)."""
_LIFE_S: Final = 300
"""The lifetime of a token whose response has no expires_in."""
_RESPONSE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class FixedToken:
    """A provider of one given token."""

    value: Secret

    async def __call__(self) -> Secret:
        """Return the token."""
        return self.value


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A provider that reads a file each time; another process refreshes the file."""

    file: Path

    async def __call__(self) -> Secret:
        """Return the token. Raises AuthenticationFailed when the file is missing or
        contains no token.
        """
        try:
            text = decode_text(await asyncio.to_thread(self.file.read_bytes)).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise AuthenticationFailed(
                f"cannot read a token from {self.file}: {error}"
            ) from error
        if not text:
            raise AuthenticationFailed(f"{self.file} is empty; it must contain a token")
        return Secret(text)


@dataclass(frozen=True, slots=True)
class UnsecuredToken:
    """A provider of unsigned tokens, for brokers under test with Kafka's unsecured
    validator (KIP-255)."""

    principal: str
    scopes: tuple[str, ...] = ()
    life_s: int = 3_600
    claims: Mapping[str, object] = field(default_factory=dict)
    now_s: Callable[[], float] = time.time

    async def __call__(self) -> Secret:
        """Return a token that is valid from now on."""
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
    """The token endpoint and the client's credentials (OAuth 2.0, client
    credentials)."""

    url: str
    client_id: str
    client_secret: Secret
    scope: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Further parameters of the request, such as an audience."""
    ssl: ssl.SSLContext | None = None
    """The TLS context; None trusts the system's certificates."""
    timeout_s: float = 10

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if "@" in parts.netloc:
            raise ClientError(
                f"the token endpoint at {parts.hostname} has a name or password in its "
                "address; use client.id and client.secret"
            )
        host = parts.hostname
        is_local = parts.scheme == "http" and host and is_loopback(host)
        if not host or (parts.scheme != "https" and not is_local):
            raise ClientError(
                f"{self.url!r} cannot be a token endpoint; use an https:// address"
            )


class ClientCredentials:
    """A provider that requests a token and caches it for most of its lifetime; all
    connections share it."""

    def __init__(
        self, grant: Grant, *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._grant = grant
        self._clock_s = clock_s
        self._token: Secret | None = None
        self._fresh_until_s = 0.0
        self._lock = asyncio.Lock()

    async def __call__(self) -> Secret:
        """Return a token that does not expire soon.

        Raises AuthenticationFailed when the endpoint rejects the client, and
        ConnectionLost when it is unavailable.
        """
        async with self._lock:
            if self._token is None or self._clock_s() >= self._fresh_until_s:
                requested_s = self._clock_s()
                body = await asyncio.to_thread(_request_token, self._grant)
                self._token, life_s = _parse_token(self._grant.url, body)
                self._fresh_until_s = requested_s + life_s * _FRESH_UNTIL
            return self._token


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class _NoProxyForHttp(urllib.request.ProxyHandler):
    """A proxy handler for https only, because a proxy can read requests over http."""

    def __init__(self) -> None:
        proxies = urllib.request.getproxies()
        super().__init__(
            {kind: url for kind, url in proxies.items() if kind == "https"}
        )


def _request_token(grant: Grant) -> bytes:
    form = {"grant_type": "client_credentials", **grant.parameters}
    if grant.scope:
        form["scope"] = grant.scope
    credentials = f"{grant.client_id}:{grant.client_secret.reveal()}".encode()
    request = urllib.request.Request(  # noqa: S310  (Grant checks the scheme)
        grant.url,
        data=urllib.parse.urlencode(form).encode(),
        headers={
            "Authorization": f"Basic {base64.b64encode(credentials).decode()}",
            "Accept": "application/json",
        },
    )
    opener = urllib.request.build_opener(
        _NoRedirect,
        _NoProxyForHttp,
        urllib.request.HTTPSHandler(context=grant.ssl),
    )
    try:
        with opener.open(request, timeout=grant.timeout_s) as response:
            body: bytes = response.read(_RESPONSE_BYTES_MAX)
            return body
    except urllib.error.HTTPError as error:
        with error:
            _raise_for_status(grant.url, error)
    except OSError as error:  # URLError and TimeoutError are subclasses
        _raise_unavailable(grant.url, error)


def _raise_unavailable(url: str, error: OSError) -> Never:
    """Raise the error of a failed connection: final for an untrusted certificate,
    retriable otherwise."""
    reason = getattr(error, "reason", error)
    verify_message = getattr(reason, "verify_message", None)
    if verify_message is not None:
        raise AuthenticationFailed(
            f"no token from {url}: its certificate is not trusted: {verify_message}"
        ) from error
    raise ConnectionLost(f"no token from {url}: {reason}") from error


def _raise_for_status(url: str, error: urllib.error.HTTPError) -> Never:
    """Raise the error of an HTTP status; 5xx, 408 and 429 are retriable."""
    sentence = f"no token from {url}: HTTP {error.code}"
    if error.code >= 500 or error.code in {408, 429}:
        raise ConnectionLost(sentence)
    try:
        details = json.loads(error.read(_RESPONSE_BYTES_MAX))
        words = [
            str(details[key])
            for key in ("error", "error_description")
            if key in details
        ]
        sentence += f" ({': '.join(words)})" if words else ""
    except (ValueError, TypeError):
        pass
    raise AuthenticationFailed(sentence)


def _parse_token(url: str, body: bytes) -> tuple[Secret, float]:
    """Return the token in a response and its lifetime (s)."""
    try:
        fields = json.loads(body)
        token = fields["access_token"]
        life_s = float(fields.get("expires_in") or _LIFE_S)
    except (ValueError, KeyError, TypeError, AttributeError):
        token, life_s = None, 0.0
    if not isinstance(token, str) or not token:
        raise AuthenticationFailed(f"the response of {url} has no access_token")
    return Secret(token), life_s


def _part(value: Mapping[str, object]) -> str:
    text = json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()
