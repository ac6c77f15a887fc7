"""A small HTTP server of metrics, health and the control API, in an event loop.

The size of a request's head, the number of connections and the time of each one have
fixed bounds, and a client that does not read holds one piece of a response, not a copy
of it. When all connections are in use, a new one replaces the oldest, so that idle
connections cannot keep a scraper out. A connection carries one request: a client that
keeps it open could send its next request just when the server closes it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

_LOGGER = logging.getLogger(__name__)

REQUEST_TIMEOUT_S: Final = 10.0
"""The time from a connection to the end of its response."""
REQUEST_BYTES_MAX: Final = 8_192
CONNECTIONS_MAX: Final = 64
"""The connections that a new one may replace, and as many that were admitted."""
BACKLOG: Final = 64
_PIECE_BYTES: Final = 262_144
FETCH_TIMEOUT_S: Final = 5.0
FETCHED_BYTES_MAX: Final = 16_777_216


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a host.

    A name other than localhost may resolve to any address.
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def fetch_json(host: str, port: int, path: str) -> dict[str, Any]:
    """Return the JSON object that another process serves at a path; it blocks.

    Raises OSError, HTTPException, and ValueError for another content.
    """
    from http.client import HTTPConnection

    connection = HTTPConnection(host, port, timeout=FETCH_TIMEOUT_S)
    try:
        connection.request("GET", path)
        content = json.loads(connection.getresponse().read(FETCHED_BYTES_MAX))
    finally:
        connection.close()
    if not isinstance(content, dict):
        raise ValueError(f"the response of {path} is not a JSON object")  # noqa: TRY004
    return content


class Body(NamedTuple):
    """A body of parts that are made as they are sent."""

    size: int
    """The number of bytes of all parts."""
    parts: Callable[[], Iterable[bytes]]

    @classmethod
    def of(cls, *parts: bytes) -> Body:
        """Return a body of known parts."""
        return cls(sum(map(len, parts)), lambda: parts)


class Reply(NamedTuple):
    """The status line, the body and its type of an HTTP response."""

    status: str
    body: bytes | Body
    content_type: str = "text/plain"
    headers: Mapping[str, str] = MappingProxyType({})
    """Further headers by name."""


Headers: TypeAlias = Mapping[str, str]
"""The headers of a request, by name in lower case."""
Route: TypeAlias = Callable[[Headers], Awaitable[Reply]]


def json_reply(content: Mapping[str, Any], *, is_ok: bool) -> Reply:
    """Return a response of status 200 or 503 with a JSON body."""
    status = "200 OK" if is_ok else "503 Service Unavailable"
    return Reply(status, json.dumps(content).encode() + b"\n", "application/json")


class Request(NamedTuple):
    """The head of a request, and the connection on which its body follows."""

    method: str
    path: str
    query: str
    headers: Headers
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    deadline: asyncio.Timeout
    """The end of the time for the request and its response."""


class Endpoint:
    """An HTTP server of GET requests, with a function for each path.

    A subclass may answer other requests in `respond`.
    """

    def __init__(
        self, routes: Mapping[bytes, Route], timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        self._routes = routes
        self._timeout_s = timeout_s
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.StreamWriter, None] = {}
        """The open connections that a new one may replace, the oldest first."""
        self._admitted: set[asyncio.StreamWriter] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError when the address is unavailable."""
        self._server = await asyncio.start_server(
            self._serve, host, port, limit=REQUEST_BYTES_MAX, backlog=BACKLOG
        )
        listening: int = self._server.sockets[0].getsockname()[1]
        return listening

    def close(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        for connection in (*self._connections, *self._admitted):
            connection.close()

    def admit(self, request: Request) -> bool:
        """Keep the connection of a request until it is answered, whatever connections
        follow; return False when there are too many such requests."""
        if len(self._admitted) >= CONNECTIONS_MAX:
            return False
        self._connections.pop(request.writer, None)
        self._admitted.add(request.writer)
        return True

    async def respond(self, request: Request) -> Reply:
        """Return the response to a request."""
        if request.method != "GET":
            return Reply("405 Method Not Allowed", b"only GET\n")
        route = self._routes.get(request.path.encode("latin-1"))
        if route is None:
            paths = b", ".join(self._routes)
            return Reply("404 Not Found", b"the paths are " + paths + b"\n")
        try:
            return await route(request.headers)
        except Exception:
            _LOGGER.exception("a bug in serving %r", request.path)
            return Reply("500 Internal Server Error", b"see the server's log\n")

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.transport.abort()
        self._connections[writer] = None
        try:
            async with asyncio.timeout(self._timeout_s) as deadline:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *lines = head.split("\r\n")
                words = first.split(" ")
                reply = Reply("400 Bad Request", b"this is not HTTP\n")
                if len(words) == 3 and words[2].startswith("HTTP/1."):
                    path, _, query = words[1].partition("?")
                    headers = _headers(lines)
                    reply = await self.respond(
                        Request(
                            words[0], path, query, headers, reader, writer, deadline
                        )
                    )
                for piece in _pieces(reply):
                    writer.write(piece)
                    await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # the client sent no HTTP request, was too slow or has disconnected
        finally:
            self._connections.pop(writer, None)
            self._admitted.discard(writer)
            writer.transport.abort()


def _headers(lines: Iterable[str]) -> Headers:
    """Return the headers of a request; a repeated one has its values joined."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            name, value = name.strip().lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _pieces(reply: Reply) -> Iterator[bytes | memoryview]:
    """Yield the response in pieces. A body is shared by all clients: it is never copied
    as a whole."""
    body = Body.of(reply.body) if isinstance(reply.body, bytes) else reply.body
    lines = [
        f"HTTP/1.1 {reply.status}",
        f"Content-Type: {reply.content_type}",
        f"Content-Length: {body.size}",
        *(f"{name}: {value}" for name, value in reply.headers.items()),
        "Connection: close",
    ]
    yield "\r\n".join((*lines, "", "")).encode()
    for part in body.parts():
        view = memoryview(part)
        for start in range(0, len(view), _PIECE_BYTES):
            yield view[start : start + _PIECE_BYTES]
