"""Apache Kafka and Coterie with the same settings, and connections to them."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from coterie.wire import messages as m
from coterie.wire.api import ApiKey, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.framing import RequestHeaderV0, read_response, write_request
from coterie.wire.schema import Message
from tests.broker.server.harness import WireClient
from tests.interop.node import open_node
from tests.interop.sasl_listener import SaslListener, start_with_sasl
from tests.support.server_process import ServerProcess
from tests.support.waiting import eventually
from tests.wire.judges import KioJudge, plain

SHARDS: Final = 3
ADMIN: Final = "admin"
SETTINGS: Final = {
    "offsets.topic.num.partitions": str(SHARDS),
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "4000",
    "group.consumer.min.session.timeout.ms": "300",
    "group.consumer.session.timeout.ms": "60000",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignors": "range,uniform",
    "group.consumer.max.size": "4",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "4000",
    "group.share.min.session.timeout.ms": "300",
    "group.share.session.timeout.ms": "60000",
    "group.share.assignment.interval.ms": "0",
    "group.share.max.size": "4",
    "group.max.size": "4",
}
"""Those of both servers: no delays, so that an answer depends on requests alone."""
_POLICY: Final = "group.consumer.migration.policy"
POLICIES: Final = ("bidirectional", "upgrade", "downgrade", "disabled")
_KAFKA_ONLY: Final = {
    "group.coordinator.append.linger.ms": "0",
    "auto.create.topics.enable": "false",
}
_COTERIE_ONLY: Final = {
    "log.flush.sync": "false",
    "group.consumer.migration.drop.user.data": "false",
}
_LOADING: Final = {14, 15, 16}
_LOAD_S: Final = 60.0


class Received(NamedTuple):
    """A response, as Coterie's codec decodes it, or None when the connection was
    closed; and why another codec disagrees."""

    message: Message | None
    disagreement: str = ""


class Connection:
    """A connection of one actor, with at most one request in flight."""

    def __init__(self, server: Server, user: str) -> None:
        self.socket = client_of(server, user).socket
        self._ids = itertools.count(1)
        self._buffer = b""
        self._sent: tuple[ApiKey, int] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a request has no response yet."""
        return self._sent is not None

    def send(self, request: Message, version: int, client_id: str) -> None:
        """Send a request."""
        assert self._sent is None, "a request is in flight"
        header = RequestHeaderV0(request.API_KEY, version, next(self._ids))
        flexible = version in request.FLEXIBLE
        body = encode(request, version)
        frame = write_request(header, client_id, body, flexible=flexible)
        self._sent = ApiKey(request.API_KEY), version
        self.socket.sendall(frame)

    def receive(self) -> Received | None:
        """Read what has arrived; return the response when it is complete."""
        assert self._sent is not None
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            return Received(None)
        self._buffer += data
        if len(self._buffer) < 4:
            return None
        (size,) = struct.unpack_from(">i", self._buffer)
        if len(self._buffer) < 4 + size:
            return None
        frame, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
        key, version = self._sent
        self._sent = None
        return _decoded(frame, key, version)

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


def _decoded(frame: bytes, key: ApiKey, version: int) -> Received:
    """Decode a response with Coterie's codec and with kio's, which must agree."""
    api = api_of(key)
    tagged = version in api.request.FLEXIBLE and key != ApiKey.API_VERSIONS
    _, at = read_response(frame, tagged=tagged)
    message, end = decode(api.response, version, frame, at)
    if end != len(frame):
        return Received(message, f"{len(frame) - end} bytes after the response")
    try:
        judge = KioJudge(api.response, version)
    except Exception:  # kio does not know the newest versions
        return Received(message)
    other = judge.plain(judge.read(frame[at:]))
    ours = plain(message, version)
    return Received(message, "" if other == ours else f"kio decodes {other}")


class Server(Protocol):
    """One of the two servers under comparison."""

    name: str

    @property
    def address(self) -> str:
        """HOST:PORT."""

    def restart(self) -> None:
        """Stop the server in order and start it on the same data."""

    def stop(self) -> None:
        """Stop the server."""


class Kafka:
    """Apache Kafka."""

    name = "Kafka"

    def __init__(self, jars: Path, directory: Path, policy: str = POLICIES[0]) -> None:
        settings = {**SETTINGS, **_KAFKA_ONLY, _POLICY: policy}
        self._node = open_node(jars, directory, settings)

    @property
    def address(self) -> str:
        """HOST:PORT of the listener with SASL."""
        return self._node.addresses["SASL"]

    def restart(self) -> None:
        """Stop the node and start it on the same data."""
        self._node.restart()

    def stop(self) -> None:
        """Stop the node."""
        self._node.stop()


class Coterie:
    """`coterie serve` with a data directory."""

    name = "Coterie"

    def __init__(self, directory: Path, policy: str = POLICIES[0]) -> None:
        self._directory = directory
        self._policy = policy
        self._process = self._start()

    def _start(self) -> ServerProcess:
        settings = {**SETTINGS, **_COTERIE_ONLY, _POLICY: self._policy}
        words = [f"{name}={value}" for name, value in settings.items()]
        return start_with_sasl(self._directory, *words, data=self._directory / "data")

    @property
    def address(self) -> str:
        """HOST:PORT of the listener with SASL, another one after a restart."""
        return self._process.bootstrap

    def restart(self) -> None:
        """Stop the process and start it on the same data."""
        self._process.stop()
        self._process = self._start()

    def stop(self) -> None:
        """Stop the process."""
        self._process.stop()


def client_of(server: Server, user: str = ADMIN) -> WireClient:
    """Open a connection as a user."""
    return SaslListener(server.name, server.address).client(user)


@contextmanager
def both(jars: Path, directory: Path, policy: str) -> Iterator[tuple[Server, Server]]:
    """Start Kafka and Coterie with a migration policy; stop both at the end."""
    coterie = Coterie(directory / "coterie", policy)
    try:
        kafka = Kafka(jars, directory / "kafka", policy)
    except BaseException:
        coterie.stop()
        raise
    servers: tuple[Server, Server] = (kafka, coterie)
    try:
        for server in servers:
            wait_until_loaded(server)
        yield servers
    finally:
        for server in servers:
            server.stop()


def wait_until_loaded(server: Server) -> None:
    """Wait until all shards of both coordinators serve requests."""
    groups = [f"loaded-{number}" for number in range(8 * SHARDS)]
    with client_of(server) as client:
        for key_type in (0, 1):
            client.call(
                m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=groups), 4
            )
        for group in groups:
            requests = (
                m.HeartbeatRequest(group_id=group, generation_id=1, member_id="m"),
                m.InitProducerIdRequest(
                    transactional_id=group, transaction_timeout_ms=60_000
                ),
            )
            for request in requests:
                eventually(
                    partial(_is_served, client, request),
                    within_s=_LOAD_S,
                    expected=f"{server.name} serves {group}",
                )


def _is_served(client: WireClient, request: Message) -> bool:
    return client.call(request, 4).error_code not in _LOADING
