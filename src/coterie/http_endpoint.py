"""An HTTP endpoint of metrics and health, in the event loop of its process.

The size of a request, the number of connections and the time of each one have fixed
bounds, and a client that does not read holds one piece of a response, not a copy of it.
When all connections are in use, a new one replaces the oldest, so that idle connections
cannot keep a scraper out.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

_LOGGER = logging.getLogger(__name__)

REQUEST_TIMEOUT_S: Final = 10.0
"""The time from a connection to the end of its response."""
REQUEST_BYTES_MAX: Final = 8_192
CONNECTIONS_MAX: Final = 64
BACKLOG: Final = 64
_PIECE_BYTES: Final = 262_144


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


class Endpoint:
    """An HTTP server of GET requests, with a function for each path."""

    def __init__(
        self, routes: Mapping[bytes, Route], timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        self._routes = routes
        self._timeout_s = timeout_s
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.StreamWriter, None] = {}
        """The open connections, the oldest first."""

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
        for connection in self._connections:
            connection.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.transport.abort()
        self._connections[writer] = None
        try:
            async with asyncio.timeout(self._timeout_s):
                head = await reader.readuntil(b"\r\n\r\n")
                for piece in _pieces(await self._reply(head)):
                    writer.write(piece)
                    await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # the client sent no HTTP request, was too slow or has disconnected
        finally:
            self._connections.pop(writer, None)
            writer.transport.abort()

    async def _reply(self, head: bytes) -> Reply:
        method, path, *_ = (*head.split(b"\r\n", 1)[0].split(), b"", b"")
        if method != b"GET":
            return Reply("405 Method Not Allowed", b"only GET\n")
        route = self._routes.get(path.partition(b"?")[0])
        if route is None:
            paths = b", ".join(self._routes)
            return Reply("404 Not Found", b"the paths are " + paths + b"\n")
        try:
            return await route(_headers(head))
        except Exception:
            _LOGGER.exception("a bug in serving %r", path)
            return Reply("500 Internal Server Error", b"see the server's log\n")


def _headers(head: bytes) -> Headers:
    """Return the headers of a request; a repeated one has its values joined."""
    headers: dict[str, str] = {}
    for line in head.decode("latin-1").split("\r\n")[1:]:
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
        f"HTTP/1.0 {reply.status}",
        f"Content-Type: {reply.content_type}",
        f"Content-Length: {body.size}",
        *(f"{name}: {value}" for name, value in reply.headers.items()),
        "Connection: close",
    ]
    yield "\r\n".join((*lines, "", "")).encode()
    for part in body.parts():
        view = memoryview(part)
        for at in range(0, len(view), _PIECE_BYTES):
            yield view[at : at + _PIECE_BYTES]
