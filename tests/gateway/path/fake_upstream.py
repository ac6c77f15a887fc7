"""An upstream broker that answers only what a test tells it to."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Final, NamedTuple, Self

from coterie.gateway.path.addresses import UpstreamBroker
from tests.broker.server.harness import WAIT_S

BROKER_ID: Final = 1


class Received(NamedTuple):
    """A request as it arrived, without its size."""

    key: int
    version: int
    correlation_id: int
    frame: bytes


class UpstreamConnection:
    """A connection that the gateway opened."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.socket.settimeout(WAIT_S)

    def receive(self) -> Received:
        """Return the next request. Raises EOFError when the gateway closed."""
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(size)
        key, version, correlation_id = struct.unpack_from(">hhi", frame)
        return Received(key, version, correlation_id, frame)

    def answer(self, correlation_id: int, body: bytes = b"") -> None:
        """Send a response."""
        self.socket.sendall(struct.pack(">ii", len(body) + 4, correlation_id) + body)

    def is_closed(self) -> bool:
        """Return whether the gateway closes the connection without another byte."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise EOFError("the gateway closed the connection")
            data += chunk
        return bytes(data)


class FakeUpstream:
    """The listening socket of a broker."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(WAIT_S)
        self._accepted: list[UpstreamConnection] = []
        self.broker = UpstreamBroker(BROKER_ID, *self._listening.getsockname())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listening.close()
        for connection in self._accepted:
            connection.socket.close()

    def accept(self) -> UpstreamConnection:
        """Return the next connection that the gateway opens."""
        self._accepted.append(UpstreamConnection(self._listening.accept()[0]))
        return self._accepted[-1]
