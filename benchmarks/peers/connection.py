"""A blocking connection to a Kafka server, for the preparation of benchmarks.

`coterie.wire` encodes the requests; responses are read in order.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from types import TracebackType
from typing import TypeVar

from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.framing import RequestHeaderV0, read_response, write_request
from coterie.wire.schema import Message

CLIENT_ID = "bench"
TIMEOUT_S = 120.0
TOPIC_ALREADY_EXISTS = 36
API_VERSIONS = 18  # no tagged fields in its response header

Response = TypeVar("Response", bound=Message)


def frame(request: Message, version: int, correlation_id: int = 0) -> bytes:
    """Return a request frame with its size."""
    front = RequestHeaderV0(request.API_KEY, version, correlation_id)
    body = encode(request, version)
    flexible = version in request.FLEXIBLE
    return write_request(front, CLIENT_ID, body, flexible=flexible)


class Connection:
    """A connection to one server."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0
        self._last_received = 0

    def send(self, request: Message, version: int) -> None:
        """Send a request without waiting for the response."""
        self._correlation_id += 1
        self._socket.sendall(frame(request, version, self._correlation_id))

    def receive(self, response: type[Response], version: int) -> Response:
        """Read and return the response to the oldest request without one."""
        (size,) = struct.unpack(">i", self._exactly(4))
        body = self._exactly(size)
        tagged = version in response.FLEXIBLE and response.API_KEY != API_VERSIONS
        correlation_id, at = read_response(body, tagged=tagged)
        self._last_received += 1
        assert correlation_id == self._last_received
        return decode(response, version, body, at)[0]

    def skip(self, count: int) -> None:
        """Read and discard a number of responses."""
        for _ in range(count):
            (size,) = struct.unpack(">i", self._exactly(4))
            self._exactly(size)
        self._last_received += count

    def call(
        self, request: Message, response: type[Response], version: int
    ) -> Response:
        """Send a request and return its response."""
        self.send(request, version)
        return self.receive(response, version)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __enter__(self) -> Connection:
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
    """Create a topic if it does not exist."""
    create_topics(address, [topic], partitions)


def create_topics(address: str, topics: Iterable[str], partitions: int) -> None:
    """Create the topics that do not exist, with the same number of partitions."""
    wanted = [
        m.CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        for topic in topics
    ]
    request = m.CreateTopicsRequest(topics=wanted, timeout_ms=60_000)
    with Connection(address) as connection:
        results = connection.call(request, m.CreateTopicsResponse, 5).topics
    errors = {result.error_code for result in results}
    assert errors <= {0, TOPIC_ALREADY_EXISTS}, errors
