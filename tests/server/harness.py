"""A server to talk to, and a client that speaks with our own codec.

`start_server` starts `coterie serve` as a process of its own and waits until it is
ready; `WireClient` is a blocking connection:

    with start_server("--memory") as server, server.client() as client:
        response = client.call(HeartbeatRequest(group_id="g"), 4)

Every wait has a limit; nothing here sleeps for a fixed time.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from coterie.auth.authorizer import Authorizer
from coterie.log.log import Log
from coterie.log.memory import MemoryLog
from coterie.server.server import Server, ServerPlan
from coterie.settings import Settings
from coterie.types import SecurityProtocol
from coterie.wire.api import ApiKey, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.headers import RequestFront, read_response, write_request
from coterie.wire.schema import Message

READY = "coterie ready on "
WAIT_S = 30.0


class WireClient:
    """One connection to one node. Requests may be pipelined: `send`, then `receive`."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str | None = "test",
        wait_s: float = WAIT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.socket = socket.create_connection((host, port), timeout=wait_s)
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
        """Send a request, in its newest version by default; its answer."""
        self.send(request, version)
        return self.receive()

    def send(self, request: Message, version: int | None = None) -> int:
        """Send a request and do not wait; its correlation id."""
        frame, correlation_id = self.frame(request, version)
        self.socket.sendall(frame)
        return correlation_id

    def frame(self, request: Message, version: int | None = None) -> tuple[bytes, int]:
        """The bytes of a request, whose answer `receive` will expect."""
        api = api_of(ApiKey(request.API_KEY))
        if version is None:
            version = api.served.high
        flexible = version in request.FLEXIBLE
        correlation_id = next(self._ids)
        front = RequestFront(api.key, version, correlation_id)
        body = encode(request, version)
        tagged = flexible and api.key != ApiKey.API_VERSIONS
        self._sent.append((correlation_id, api.response, version, tagged))
        return write_request(
            front, self._client_id, body, flexible=flexible
        ), correlation_id

    def receive(self) -> Any:
        """The answer to the oldest request that has none yet."""
        correlation_id, response, version, tagged = self._sent.pop(0)
        frame = self.receive_frame()
        answered, at = read_response(frame, tagged=tagged)
        assert answered == correlation_id, "answers are out of order"
        value, end = decode(response, version, frame, at)
        assert end == len(frame), "bytes are left over"
        return value

    def receive_frame(self) -> bytes:
        """One frame of an answer, without its size. Raises EOFError at the end."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def is_closed(self) -> bool:
        """Whether the server closes the connection, without another answer."""
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


class ServerProcess:
    """`coterie serve` as a process. `addresses` has HOST, PORT of each node."""

    def __init__(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by __exit__)
        command = [sys.executable, "-m", "coterie.cli.main", "serve"]
        command += ["--listen", "127.0.0.1:0", *arguments]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **(environment or {})},
        )
        try:
            self.ready_line = self._read_ready_line()
        except BaseException:
            self.kill()
            raise
        listed = self.ready_line.removeprefix(READY).strip().split(",")
        pairs = [address.rpartition(":") for address in listed]
        self.addresses = [(host, int(port)) for host, _, port in pairs]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.kill() if kind else self.stop()
        self._close()

    @property
    def log(self) -> str:
        """What the server wrote to stderr so far."""
        self._log.seek(0)
        return self._log.read().decode()

    @property
    def bootstrap(self) -> str:
        """The addresses as clients are configured with them."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    def client(self, node: int = 0, **options: Any) -> WireClient:
        """A connection to a node, the first by default."""
        return WireClient(*self.addresses[node], **options)

    def stop(self, number: int = signal.SIGTERM) -> str:
        """Ask the server to stop and see that it does; what it printed after the ready
        line."""
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == 0, self.log
        return str(rest.decode())

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(WAIT_S)

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()

    def _read_ready_line(self) -> str:
        assert self.process.stdout is not None
        line: str = self.process.stdout.readline().decode()
        assert line.startswith(READY), f"not ready: {line!r}\n{self.log}"
        return line


def start_server(
    *arguments: str,
    data: Path | None = None,
    settings: Mapping[str, object] | None = None,
) -> ServerProcess:
    """Start a server on free ports and wait until it is ready.

    `data` is its directory; without one, and without "--memory" among the arguments,
    it is in memory. `settings` are by Kafka's names.
    """
    given = list(arguments)
    if data is not None:
        given += ["--data", str(data)]
    elif "--memory" not in given:
        given.append("--memory")
    for name, value in (settings or {}).items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        given += ["--set", f"{name}={text}"]
    return ServerProcess(*given)


class ThreadServer:
    """A server in a thread of this process: quick to start, open to look into."""

    def __init__(
        self,
        *,
        node_count: int = 1,
        authorizer: Authorizer | None = None,
        log: Log | None = None,
        metrics_port: int | None = None,
        protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
        **settings: Any,
    ) -> None:
        plan = ServerPlan(
            settings=Settings(**settings),
            host="127.0.0.1",
            port=0,
            node_count=node_count,
            metrics_port=metrics_port,
            protocol=protocol,
        )
        self.server = Server(plan, authorizer)
        self._log = log or MemoryLog()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="server")

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self.server.start(self._log))
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
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(WAIT_S)
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the server's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)

    def client(self, node: int = 0, **options: Any) -> WireClient:
        """A connection to a node, the first by default."""
        return WireClient(*self.addresses[node], **options)
