"""`WireClient`, a blocking client on Coterie's own codec, and a server in a thread.

Every wait has a deadline; nothing here sleeps for a fixed time.
tests/support/server_process.py starts servers as processes.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
import struct
import threading
from collections.abc import Coroutine
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from coterie.auth.authorizer import Authorizer
from coterie.broker.log.log import Log
from coterie.broker.log.memory import MemoryLog
from coterie.broker.server.config import make_settings
from coterie.broker.server.server import Server, ServerOptions
from coterie.settings import Settings
from coterie.testing.clock import Clock
from coterie.types import SecurityProtocol
from coterie.wire.api import ApiKey, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.framing import RequestHeaderV0, read_response, write_request
from coterie.wire.releases import load_release
from coterie.wire.schema import Message

WAIT_S = 120.0


class WireClient:
    """A connection to one node. Requests can be pipelined: `send`, then `receive`."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str | None = "test",
        wait_s: float = WAIT_S,
        tls: ssl.SSLContext | None = None,
        source: str = "",
    ) -> None:
        self.socket = socket.create_connection(
            (host, port), timeout=wait_s, source_address=(source, 0)
        )
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        self._client_id = client_id
        self._ids = itertools.count(1)
        self._sent: list[tuple[int, type[Message], int, bool]] = []
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def call(self, request: Message, version: int | None = None) -> Any:
        """Send a request, by default in its newest version; return the response."""
        self.send(request, version)
        return self.receive()

    def send(self, request: Message, version: int | None = None) -> int:
        """Send a request without waiting; return its correlation id."""
        frame, correlation_id = self.frame(request, version)
        self.socket.sendall(frame)
        return correlation_id

    def frame(self, request: Message, version: int | None = None) -> tuple[bytes, int]:
        """Return the bytes and correlation id of a request that becomes pending."""
        api = api_of(ApiKey(request.API_KEY))
        if version is None:
            version = api.served.high
        flexible = version in request.FLEXIBLE
        correlation_id = next(self._ids)
        front = RequestHeaderV0(api.key, version, correlation_id)
        body = encode(request, version)
        tagged = flexible and api.key != ApiKey.API_VERSIONS
        self._sent.append((correlation_id, api.response, version, tagged))
        return write_request(
            front, self._client_id, body, flexible=flexible
        ), correlation_id

    def receive(self) -> Any:
        """Return the response to the oldest pending request."""
        correlation_id, response, version, tagged = self._sent.pop(0)
        frame = self.receive_frame()
        answered, at = read_response(frame, tagged=tagged)
        assert answered == correlation_id, "answers are out of order"
        value, end = decode(response, version, frame, at)
        assert end == len(frame), "bytes are left over"
        return value

    def receive_frame(self) -> bytes:
        """Return the next response frame without its size.

        Raises EOFError when the server has closed the connection.
        """
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def is_closed(self) -> bool:
        """Return whether the server closes the connection without another response."""
        try:
            return self._buffer == b"" and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError("the server closed the connection")
            self._buffer += data
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data


class ThreadServer:
    """A server in a thread of this process; tests can inspect its state."""

    def __init__(
        self,
        *,
        node_count: int = 1,
        authorizer: Authorizer | None = None,
        log: Log | None = None,
        metrics_port: int | None = None,
        protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
        act_as: str | None = None,
        clock: Clock | None = None,
        **settings: Any,
    ) -> None:
        release = load_release(act_as) if act_as else None
        defaults = make_settings(release.settings) if release else Settings()
        options = ServerOptions(
            settings=replace(defaults, **settings),
            host="127.0.0.1",
            port=0,
            node_count=node_count,
            metrics_port=metrics_port,
            protocol=protocol,
            release=release,
        )
        self._clock = clock
        timekeeping = None if clock is None else clock.timekeeping()
        self.server = Server(options, authorizer, timekeeping=timekeeping)
        self._log = log or MemoryLog()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="server")

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.run(self._start())
        except BaseException:
            self._end_thread()
            raise
        self.addresses = [(node.host, node.port) for node in self.server.nodes]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.run(self.server.stop())
        finally:
            self._end_thread()

    async def _start(self) -> None:
        await self.server.start(self._log)
        if self._clock is not None:
            self._clock.attach(self.server.assembly.broker)

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the server's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)

    def client(self, node: int = 0, **options: Any) -> WireClient:
        """Connect to a node, by default to the first."""
        return WireClient(*self.addresses[node], **options)
