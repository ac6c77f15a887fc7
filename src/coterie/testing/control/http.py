"""A small HTTP server of JSON for one process's tests: routes, bounds and checks.

It refuses what a web page in a developer's browser could send: requests with another
Host (DNS rebinding), with an Origin, from another site, or with a body that is not
application/json. With a token, each request needs `Authorization: Bearer TOKEN`.

Connections whose request did not pass these checks yet cannot block others: when there
are too many of them, a new one replaces the oldest.
"""

from __future__ import annotations

import hmac
import json
import logging
import socket
import sys
import threading
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

BODY_BYTES_MAX: Final = 8 * 1024 * 1024
_DISCARDED_BYTES_MAX: Final = 64 * 1024 * 1024
CONNECTIONS_MAX: Final = 64
"""The connections that may be open before their checks, and as many after them."""
READ_S: Final = 30.0
"""The longest wait for the bytes of a request."""
_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})

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
    """An HTTP server in threads of its own, from `start` to `close`.

    Port 0 is a free port; `address` is the bound one, as HOST:PORT. Without `token`
    requests must be addressed to this machine.
    """

    def __init__(
        self, routes: Sequence[Route], host: str, port: int, token: str | None = None
    ) -> None:
        self.routes = routes
        self.token = token
        self._host = host
        self._port = port
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """The address of a started server."""
        assert self._server is not None
        port = self._server.server_address[1]
        return f"[{self._host}]:{port}" if ":" in self._host else f"{self._host}:{port}"

    def start(self) -> None:
        """Bind and serve. Raises OSError when the address is unavailable."""
        server = self._server = _Server(self._host, self._port, self)
        self._thread = threading.Thread(
            target=server.serve_forever,
            args=(0.05,),
            name="coterie-control",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Close the socket and all connections. May be repeated."""
        server, thread, self._server = self._server, self._thread, None
        if server is not None and thread is not None:
            server.shutdown()
            thread.join()
            server.abort()
            server.server_close()

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """Return the route of a request. Raises Refused with 404 or 405."""
        parts = [urllib.parse.unquote(part) for part in path.rstrip("/").split("/")]
        methods = []
        for route in self.routes:
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


class _Server(ThreadingHTTPServer):
    """The sockets of a `ControlServer`."""

    # On Windows the option lets another process listen on the same port.
    allow_reuse_address = sys.platform != "win32"
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, control: ControlServer) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.control = control
        self._unchecked: dict[socket.socket, None] = {}
        """The connections whose request is not checked yet, the oldest first."""
        self._admitted: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._unchecked) >= CONNECTIONS_MAX:
                oldest = next(iter(self._unchecked))
                del self._unchecked[oldest]
                _end(oldest)
            self._unchecked[request] = None
        super().process_request(request, client_address)

    def admit(self, request: socket.socket) -> None:
        """Keep the connection of a request that passed the checks. Raises Refused."""
        with self._lock:
            if len(self._admitted) >= CONNECTIONS_MAX:
                raise Refused(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"{CONNECTIONS_MAX} requests are in progress",
                    "send the request again when one of them has ended",
                )
            self._unchecked.pop(request, None)
            self._admitted.add(request)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._unchecked.pop(request, None)
            self._admitted.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a connection that failed, as one that the client has reset."""
        _LOGGER.debug("a connection of the control API failed", exc_info=True)

    def abort(self) -> None:
        """Close the connections whose requests are not answered yet."""
        with self._lock:
            for each in (*self._unchecked, *self._admitted):
                _end(each)


def _end(connection: socket.socket) -> None:
    """Make a connection's thread see its end."""
    with suppress(OSError):  # the client has closed it
        connection.shutdown(socket.SHUT_RDWR)


@dataclass
class _Reply:
    status: HTTPStatus
    content: Any
    headers: dict[str, str] = field(default_factory=dict)


class _Handler(BaseHTTPRequestHandler):
    """One connection, which carries one request."""

    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "coterie"
    sys_version = ""
    timeout = READ_S

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        _LOGGER.debug("%s %s", self.address_string(), format % args)

    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:
        """Respond to a request that the standard library refuses."""
        status = HTTPStatus(code)
        fix = explain or "send GET, POST, PUT or DELETE by HTTP/1.1"
        self.request_version = self.protocol_version  # it may not be parsed
        self._send(_Reply(status, _error(message or status.phrase, fix)))

    def _serve(self) -> None:
        try:
            reply = self._reply()
        except Refused as refused:
            reply = _Reply(refused.status, _error(str(refused), refused.fix))
            if refused.status is HTTPStatus.UNAUTHORIZED:
                reply.headers["WWW-Authenticate"] = "Bearer"
        except Exception:
            _LOGGER.exception("a bug in %s %s", self.command, self.path)
            content = _error("internal error", "the server's log has the stack trace")
            reply = _Reply(HTTPStatus.INTERNAL_SERVER_ERROR, content)
        self._send(reply)

    def _reply(self) -> _Reply:
        control = self.server.control
        self._check_site(control)
        self._check_token(control)
        self.server.admit(self.connection)
        path, _, query = self.path.partition("?")
        route, names = control.find(self.command, path)
        body = self._body()
        pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
        content = route.handle(ControlRequest(names, dict(pairs), body))
        return _Reply(route.status, content)

    def _check_site(self, control: ControlServer) -> None:
        """Refuse requests that a web page of another site makes in a browser."""
        site = self.headers.get("Sec-Fetch-Site", "none")
        host = urllib.parse.urlsplit(f"//{self.headers.get('Host', '')}").hostname
        if "Origin" in self.headers or site not in {"none", "same-origin"}:
            raise Refused(
                HTTPStatus.FORBIDDEN,
                "requests of web pages are refused",
                "send the request from a program, without the header Origin",
            )
        if control.token is None and host not in _LOCAL_HOSTS:
            raise Refused(
                HTTPStatus.FORBIDDEN,
                f"the host {host!r} is not this machine",
                "use http://127.0.0.1, or start the server with a control token",
            )

    def _check_token(self, control: ControlServer) -> None:
        if control.token is None:
            return
        wanted = f"Bearer {control.token}".encode()
        sent = self.headers.get("Authorization", "")
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

    def _body(self) -> Mapping[str, Any]:
        """Read the body, a JSON object; an absent one is empty."""
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not length.isdecimal():
            raise Refused(
                HTTPStatus.LENGTH_REQUIRED,
                "the body has no Content-Length",
                "send the body in one piece, with its length",
            )
        if int(length) > BODY_BYTES_MAX:
            self._discard(min(int(length), _DISCARDED_BYTES_MAX))
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body has {length} bytes, more than {BODY_BYTES_MAX}",
                "send several requests",
            )
        if int(length) == 0:
            return {}
        if self.headers.get_content_type() != "application/json":
            raise Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "the body is not application/json",
                "send the header Content-Type: application/json",
            )
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            raise bad_request(f"the body is not JSON: {error}", "correct it") from None
        if not isinstance(body, dict):
            raise bad_request("the body is not a JSON object", 'send {"name": value}')
        return body

    def _discard(self, size: int) -> None:
        """Read a part of the body: clients read the response after they have sent."""
        while size > 0 and (data := self.rfile.read(min(size, 65_536))):
            size -= len(data)

    def _send(self, reply: _Reply) -> None:
        """Send a response and close the connection: a client that keeps it open could
        send its next request just when the server closes it."""
        data = json.dumps(reply.content).encode() + b"\n"
        self.close_connection = True
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":  # which is refused without a body
            self.wfile.write(data)


def _error(message: str, fix: str) -> dict[str, Any]:
    return {"error": message, "fix": fix}
