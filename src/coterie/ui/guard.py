"""Checks of every HTTP request before a route sees it, and headers of every response.

- The Host header must name this server: a page of another site whose name was made to
  resolve to this address (DNS rebinding) is refused.
- With a token, data needs a session. The token is exchanged for a cookie that scripts
  cannot read and that browsers do not send for other sites.
- A request that is not a GET needs an Origin of this server, the type JSON, which a
  form cannot send, and the CSRF token, which only a page of this server can read.
- Bodies, sessions and connections are bounded. Connections without a session cannot
  keep out those that have one (`connections.py`).

Wrong tokens are logged and not limited: with a limit, anyone who reaches the port could
lock out the holders of the token. The token is too long to be guessed.

Responses may not be stored, framed or interpreted as another type, and the page may
load and connect to this server only. Its scripts cannot turn text into HTML
(`require-trusted-types-for`).
"""

from __future__ import annotations

import hmac
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse

from coterie.ui.connections import Connections

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOGGER = logging.getLogger(__name__)

BODY_BYTES_MAX: Final = 256 * 1024
SESSIONS_MAX: Final = 200
SESSION_S: Final = 12 * 3600
LOG_INTERVAL_S: Final = 60.0
"""The least time between two log lines about wrong tokens."""
TOKEN_LENGTH_MIN: Final = 16

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; "
    "style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Refused(Exception):
    """A request that is refused, with its status and a sentence for the user."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Guard:
    """The state of the checks. `token` is None when no login is needed."""

    token: str | None
    port: int
    hosts: frozenset[str]
    """Names, in lower case, by which browsers may address the server."""
    any_address: bool
    """Whether it listens on all addresses, so that any address of it is a host."""
    now_s: Callable[[], float] = time.monotonic
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    connections: Connections = field(default_factory=Connections)
    _sessions: OrderedDict[str, float] = field(default_factory=OrderedDict)
    _wrong_tokens: int = 0
    """The wrong tokens that have no log line yet."""
    _logged_s: float = -LOG_INTERVAL_S

    @property
    def cookie(self) -> str:
        """The name of the cookie. Cookies are shared by the ports of a host."""
        return f"coterie_ui_{self.port}"

    def check(self, connection: HTTPConnection, method: str) -> None:
        """Check host, session, origin and CSRF token. Raises Refused."""
        headers, path = connection.headers, connection.url.path
        self.check_host(headers)
        if method not in {"GET", "HEAD"}:
            self._check_origin(headers)
        if not path.startswith("/api/") or path == "/api/login":
            return
        if not self.is_logged_in(connection):
            raise Refused(401, "a token is needed: open the address that coterie shows")
        if method != "GET" and not _equal(headers.get("x-csrf-token", ""), self.csrf):
            raise Refused(403, "the CSRF token is missing or old: reload the page")
        if not self.connections.authenticate(connection.scope.get("client")):
            raise Refused(503, "too many connections: close some pages")

    def check_host(self, headers: Headers) -> None:
        """Raise Refused unless the Host header names this server."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_host(hosts[0]):
            raise Refused(
                421, "this Host header is not one of this server (see --allowed-host)"
            )

    def _is_host(self, text: str) -> bool:
        try:
            parts = urlsplit(f"//{text}")
            name = (parts.hostname or "").lower()
            _ = parts.port
        except ValueError:
            return False
        if name in self.hosts:
            return True
        if not self.any_address:
            return False
        try:
            ip_address(name)
        except ValueError:
            return False
        return True  # rebinding needs a name

    def _check_origin(self, headers: Headers) -> None:
        # Browsers send Origin with every request that is not a GET.
        origin = urlsplit(headers.get("origin", ""))
        is_same = origin.scheme in {"http", "https"} and hmac.compare_digest(
            origin.netloc.lower().encode(), headers.get("host", "").lower().encode()
        )
        if not is_same or headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise Refused(403, "the request is from another site")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refused(415, "the body must be application/json")

    def is_logged_in(self, connection: HTTPConnection) -> bool:
        """Return whether a request needs no token, or has a session."""
        if self.token is None:
            return True
        session = connection.cookies.get(self.cookie, "")
        expires_s = self._sessions.get(session)
        return expires_s is not None and self.now_s() < expires_s

    def log_in(self, token: str, address: str) -> str:
        """Return a new session for the right token; `address` is for the log.

        Raises Refused.
        """
        now_s = self.now_s()
        if self.token is None or not _equal(token, self.token):
            self._log_wrong_token(address, now_s)
            raise Refused(401, "this token is wrong")
        session = secrets.token_urlsafe(32)
        self._sessions[session] = now_s + SESSION_S
        while len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return session

    def _log_wrong_token(self, address: str, now_s: float) -> None:
        self._wrong_tokens += 1
        if now_s - self._logged_s >= LOG_INTERVAL_S:
            _LOGGER.warning(
                "wrong tokens since the last such line: %d, the newest from %s",
                self._wrong_tokens,
                address,
            )
            self._wrong_tokens, self._logged_s = 0, now_s


class GuardMiddleware:
    """The checks of a `Guard` around an application."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on, and add the headers to the response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        try:
            self._guard.check(HTTPConnection(scope), scope["method"])
        except Refused as refused:
            response = refusal(refused.status, str(refused))
            await response(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def refusal(status: int, message: str) -> JSONResponse:
    """Return the response of a request that failed."""
    return JSONResponse({"error": message}, status)


async def read_body(request: Request) -> bytes:
    """Read a body of at most `BODY_BYTES_MAX`. Raises Refused."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise Refused(413, f"the body has more than {BODY_BYTES_MAX} bytes")
    return bytes(body)


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
