"""The HTTP of the control API: routes, and the checks of each request.

It refuses what a web page in a developer's browser could send: requests with another
Host (DNS rebinding), with an Origin, from another site, or with a body that is not
application/json. With a token, each request needs `Authorization: Bearer TOKEN`. A
connection whose request did not pass these checks yet cannot block others
(`http_endpoint.py`).
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import threading
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from coterie.http_endpoint import Endpoint, Reply, Request, is_loopback
from coterie.loop_thread import LoopThread

BODY_BYTES_MAX: Final = 8 * 1024 * 1024
_DISCARDED_BYTES_MAX: Final = 64 * 1024 * 1024
READ_S: Final = 30.0
"""The longest time for the bytes of a request, and for those of its response."""

_LOGGER = logging.getLogger(__name__)


class Refused(Exception):
    """A request that gets an error response: what is wrong, and what to do."""

    def __init__(self, status: HTTPStatus, message: str, fix: str) -> None:
        super().__init__(message)
        self.status = status
        self.fix = fix


def bad_request(message: str, fix: str) -> Refused:
    """Return a refusal with status 400."""
    return Refused(HTTPStatus.BAD_REQUEST, message, fix)


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """A request that matched a route: names from the path, the query and the body."""

    names: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]

    def known(self, *keys: str) -> None:
        """Raise Refused if the query or the body has another key."""
        for key in (*self.query, *self.body):
            if key not in keys:
                allowed = ", ".join(keys) or "no parameters"
                raise bad_request(
                    f"{key!r} is not a parameter", f"this route takes {allowed}"
                )


@dataclass(frozen=True, slots=True)
class Route:
    """A route: `path` has names in braces. `handle` returns a value for JSON."""

    method: str
    path: str
    summary: str
    handle: Callable[[ControlRequest], Any]
    status: HTTPStatus = HTTPStatus.OK

    def match(self, parts: Sequence[str]) -> dict[str, str] | None:
        """Return the names in a path; None when it is another path."""
        own = self.path.split("/")
        if len(own) != len(parts):
            return None
        names = {}
        for pattern, part in zip(own, parts, strict=True):
            if pattern.startswith("{"):
                names[pattern.strip("{}")] = part
            elif pattern != part:
                return None
        return names


class ControlServer:
    """An HTTP server in a thread of its own, from `start` to `close`.

    Port 0 is a free port; `address` is the bound one, as HOST:PORT. Without `token`
    requests must be addressed to this machine.
    """

    def __init__(
        self, routes: Sequence[Route], host: str, port: int, token: str | None = None
    ) -> None:
        self._endpoint = _ControlEndpoint(routes, token)
        self._host = host
        self._port = port
        self._thread: LoopThread | None = None

    @property
    def address(self) -> str:
        """The address of a started server."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    def start(self) -> None:
        """Bind and serve. Raises OSError when the address is unavailable."""
        self._thread = LoopThread("coterie-control")
        try:
            starting = self._endpoint.start(self._host, self._port)
            self._port = self._thread.wait(starting)
        except BaseException:
            self._thread.close()
            raise

    def close(self) -> None:
        """Close the socket and all connections. May be repeated."""

        async def close() -> None:
            self._endpoint.close()

        if self._thread is not None and not self._thread.is_closed:
            self._thread.wait(close())
            self._thread.close()


class _ControlEndpoint(Endpoint):
    """The routes of the control API. Each runs in a thread of its own, as it may wait
    for minutes; the threads do not keep the process alive."""

    def __init__(self, routes: Sequence[Route], token: str | None) -> None:
        super().__init__({}, READ_S)
        self._all_routes = routes
        self._token = token

    async def respond(self, request: Request) -> Reply:
        """Return the response of a route, or why the request is refused."""
        try:
            self._check_site(request)
            self._check_token(request)
            if not self.admit(request):
                raise Refused(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    "too many requests are in progress",
                    "send the request again when one of them has ended",
                )
            route, names = self._find(request.method, request.path)
            body = await _read_body(request)
            query = dict(urllib.parse.parse_qsl(request.query, keep_blank_values=True))
            control_request = ControlRequest(names, query, body)
            request.deadline.reschedule(None)
            content = await _in_thread(lambda: route.handle(control_request))
            status = route.status
        except Refused as refused:
            status, content = refused.status, _error(str(refused), refused.fix)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise  # the client has disconnected
        except Exception:
            _LOGGER.exception("a bug in %s %s", request.method, request.path)
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            content = _error("internal error", "the server's log has the stack trace")
        request.deadline.reschedule(asyncio.get_running_loop().time() + READ_S)
        headers = {"Cache-Control": "no-store"}
        if status is HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        data = json.dumps(content).encode() + b"\n"
        line = f"{status.value} {status.phrase}"
        return Reply(line, data, "application/json", headers)

    def _find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """Return the route of a request. Raises Refused with 404 or 405."""
        parts = [urllib.parse.unquote(part) for part in path.rstrip("/").split("/")]
        methods = []
        for route in self._all_routes:
            names = route.match(parts)
            if names is not None:
                if route.method == method:
                    return route, names
                methods.append(route.method)
        if methods:
            raise Refused(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"{path} has no method {method}",
                f"use {' or '.join(methods)}",
            )
        raise Refused(
            HTTPStatus.NOT_FOUND,
            f"there is no route {path}",
            "GET /v1 lists the routes",
        )

    def _check_site(self, request: Request) -> None:
        """Refuse requests that a web page of another site makes in a browser."""
        site = request.headers.get("sec-fetch-site", "none")
        try:
            host = urllib.parse.urlsplit(
                f"//{request.headers.get('host', '')}"
            ).hostname
        except ValueError:  # as of "["
            host = None
        if "origin" in request.headers or site not in {"none", "same-origin"}:
            raise Refused(
                HTTPStatus.FORBIDDEN,
                "requests of web pages are refused",
                "send the request from a program, without the header Origin",
            )
        if self._token is None and not (host and is_loopback(host)):
            raise Refused(
                HTTPStatus.FORBIDDEN,
                f"the host {host!r} is not this machine",
                "use http://127.0.0.1, or start the server with a control token",
            )

    def _check_token(self, request: Request) -> None:
        if self._token is None:
            return
        wanted = f"Bearer {self._token}".encode()
        sent = request.headers.get("authorization", "")
        # Headers are read as ISO 8859-1; most clients send a token as UTF-8.
        if not any(
            hmac.compare_digest(sent.encode(encoding), wanted)
            for encoding in ("utf-8", "latin-1")
        ):
            raise Refused(
                HTTPStatus.UNAUTHORIZED,
                "the control token is missing or wrong",
                "send the header Authorization: Bearer TOKEN",
            )


async def _read_body(request: Request) -> Mapping[str, Any]:
    """Read the body, a JSON object; an absent one is empty."""
    headers = request.headers
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not (length.isascii() and length.isdecimal()):
        raise Refused(
            HTTPStatus.LENGTH_REQUIRED,
            "the body has no Content-Length",
            "send the body in one piece, with its length",
        )
    size = int(length)
    if size > BODY_BYTES_MAX:
        await _discard(request, min(size, _DISCARDED_BYTES_MAX))
        raise Refused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the body has {size} bytes, more than {BODY_BYTES_MAX}",
            "send several requests",
        )
    if size == 0:
        return {}
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "the body is not application/json",
            "send the header Content-Type: application/json",
        )
    if headers.get("expect", "").lower() == "100-continue":
        request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    data = await request.reader.readexactly(size)
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"the body is not JSON: {error}", "correct it") from None
    if not isinstance(body, dict):
        raise bad_request("the body is not a JSON object", 'send {"name": value}')
    return body


async def _discard(request: Request, size: int) -> None:
    """Read a part of the body: clients read the response after they have sent."""
    while size > 0 and (data := await request.reader.read(min(size, 65_536))):
        size -= len(data)


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Return the result of `work` in a new thread."""
    done: Future[Any] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="coterie-control", daemon=True).start()
    return await asyncio.wrap_future(done)


def _error(message: str, fix: str) -> dict[str, Any]:
    return {"error": message, "fix": fix}
