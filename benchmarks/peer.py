"""A blocking client for setting a scene: one connection, one request at a time or many.

It speaks through coterie.wire, so its requests are as right as the codec, and to any
server of the protocol.
"""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import TypeVar

from coterie.wire.codec import decode, encode
from coterie.wire.headers import RequestFront, read_response, write_request
from coterie.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coterie.wire.schema import Message

CLIENT_ID = "bench"
TIMEOUT_S = 120.0
TOPIC_ALREADY_EXISTS = 36
API_VERSIONS = 18  # whose answer never has tags in its header

Answer = TypeVar("Answer", bound=Message)


def frame(request: Message, version: int, correlation_id: int = 0) -> bytes:
    """A whole request frame, size first."""
    front = RequestFront(request.API_KEY, version, correlation_id)
    body = encode(request, version)
    flexible = version in request.FLEXIBLE
    return write_request(front, CLIENT_ID, body, flexible=flexible)


class Peer:
    """One connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def send(self, request: Message, version: int) -> None:
        """Send without waiting for the answer."""
        self._correlation_id += 1
        self._socket.sendall(frame(request, version, self._correlation_id))

    def receive(self, response: type[Answer], version: int) -> Answer:
        """The answer to the request that was sent last."""
        (size,) = struct.unpack(">i", self._exactly(4))
        answer = self._exactly(size)
        tagged = version in response.FLEXIBLE and response.API_KEY != API_VERSIONS
        correlation_id, at = read_response(answer, tagged=tagged)
        assert correlation_id == self._correlation_id
        return decode(response, version, answer, at)[0]

    def skip(self, count: int) -> None:
        """Read over so many answers."""
        for _ in range(count):
            (size,) = struct.unpack(">i", self._exactly(4))
            self._exactly(size)

    def call(self, request: Message, response: type[Answer], version: int) -> Answer:
        """Send and wait for the answer."""
        self.send(request, version)
        return self.receive(response, version)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _exactly(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count:
            part = self._socket.recv(count)
            if not part:
                raise ConnectionError("closed by the server")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def create_topic(address: str, topic: str, partitions: int) -> None:
    """Create a topic; one that is there already is fine."""
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
    with Peer(address) as peer:
        (answer,) = peer.call(request, CreateTopicsResponse, 5).topics
    assert answer.error_code in (0, TOPIC_ALREADY_EXISTS), answer
