"""A listener without sockets: an event loop that the test runs, and transports that
hold what is written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from coterie.auth.authorizer import AllowAll
from coterie.broker.catalog.client_quotas import ClientQuotas
from coterie.broker.runtime.quotas import Quotas
from coterie.broker.server.broker import Counts, Node
from coterie.broker.server.call import Handler
from coterie.broker.server.client_connection import ClientConnection
from coterie.broker.server.connections import Connections
from coterie.broker.server.security import Security
from coterie.settings import Settings
from coterie.types import SecurityProtocol
from tests.broker.protocol.test_connection import correlation_ids


class FakeLoop:
    """The part of an event loop that connections use; `now_s` is set by the test."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.ready: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()

    def time(self) -> float:
        return self.now_s

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self.ready.append((callback, args))

    def run_once(self) -> None:
        """Run the callbacks of one iteration."""
        for _ in range(len(self.ready)):
            callback, args = self.ready.popleft()
            callback(*args)

    def run(self) -> None:
        """Run until no callback is left."""
        while self.ready:
            self.run_once()


class FakeTransport(asyncio.Transport):
    """A transport whose peer consumes `window` bytes."""

    def __init__(self, loop: FakeLoop, connection: ClientConnection, host: str) -> None:
        super().__init__({"peername": (host, 1)})
        self._loop = loop
        self._connection = connection
        self._high = 0
        self._is_over = False
        self._is_closed = False
        self.written = b""
        self.unsent = 0
        self.window = 1 << 60
        self.is_reading_now = True

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        self._high = high or 0

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def write(self, data: Any) -> None:
        self.written += data
        self.unsent += len(data)
        self.consume(0)
        if self.unsent > self._high and not self._is_over:
            self._is_over = True
            self._connection.pause_writing()

    def consume(self, more: int) -> None:
        """Let the peer consume more bytes."""
        self.window += more
        taken = min(self.window, self.unsent)
        self.window -= taken
        self.unsent -= taken
        if self._is_over and self.unsent <= self._high // 4:
            self._is_over = False
            self._connection.resume_writing()

    def pause_reading(self) -> None:
        assert self.is_reading_now
        self.is_reading_now = False

    def resume_reading(self) -> None:
        assert not self.is_reading_now
        self.is_reading_now = True

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        if not self.unsent:
            self.abort()

    def abort(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._loop.call_soon(self._connection.connection_lost, None)


class FakeClient:
    """One connection of a listener."""

    def __init__(self, server: FakeServer, host: str) -> None:
        node = cast("Node", server.node)
        loop = cast("asyncio.AbstractEventLoop", server.loop)
        self.connection = ClientConnection(node, server.connections, loop)
        self.transport = FakeTransport(server.loop, self.connection, host)
        self.connection.connection_made(self.transport)

    def send(self, data: bytes) -> None:
        """Let the server read bytes."""
        self.connection.data_received(data)

    @property
    def responses(self) -> list[int]:
        """The correlation ids of the responses."""
        return correlation_ids(self.transport.written)

    @property
    def is_closed(self) -> bool:
        return self.transport.is_closing()

    @property
    def held_bytes(self) -> int:
        return self.connection.share.held_bytes


class FakeServer:
    """A listener with handlers of the test."""

    def __init__(self, handlers: Mapping[int, Handler], **settings: Any) -> None:
        self.loop = FakeLoop()
        none = lambda *_: None  # noqa: E731
        security = Security(SecurityProtocol.PLAINTEXT, Settings(), none, none)
        self.connections = Connections(
            Settings(**settings), handlers, security, seconds=self.loop.time
        )
        quotas = ClientQuotas()
        broker = SimpleNamespace(
            runtime=SimpleNamespace(session_renewal=none),
            authorizer=AllowAll(),
            catalog=SimpleNamespace(
                group_configs=SimpleNamespace(version=0),
                client_quotas=quotas,
            ),
            quotas=Quotas(Settings(), quotas),
            share_sessions=SimpleNamespace(disconnect=none),
            clock=lambda: 0,
            data=SimpleNamespace(clock=lambda: 0),
            counts=Counts(),
        )
        self.node = SimpleNamespace(broker=broker)

    def client(self, host: str = "10.0.0.1") -> FakeClient:
        """Connect a client."""
        return FakeClient(self, host)
