"""A broker with scripted responses, on a loopback socket, in the test's event loop.

    async with ScriptedBroker() as broker:
        broker.answers[ApiKey.METADATA] = lambda request: MetadataResponse()
        cluster = Cluster(broker.bootstrap, OPTIONS)

A response may be a message, raw bytes, HANG_UP, or SILENCE.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from coterie.broker.protocol import connection as protocol
from coterie.broker.protocol.connection import Connection
from coterie.client.notifier import Notifier
from coterie.client.options import ClientOptions
from coterie.wire import messages as m
from coterie.wire.api import ADVERTISED, CLIENT_ONLY, IMPLEMENTED, ApiKey, api_of
from coterie.wire.commit import Commit
from coterie.wire.releases import Release
from coterie.wire.schema import Versions

from .idle_time import skip_idle_time

HANG_UP: Final = object()
SILENCE: Final = object()
WAIT_S: Final = 120.0
OPTIONS: Final = ClientOptions(retry_backoff_ms=1, retry_backoff_max_ms=2)
BRIEF: Final = ClientOptions(
    retry_backoff_ms=1_000, retry_backoff_max_ms=2_000, api_timeout_ms=20_000
)
"""A few retries."""
IMPATIENT: Final = ClientOptions(
    retry_backoff_ms=100,
    retry_backoff_max_ms=200,
    connect_timeout_ms=500,
    request_timeout_ms=500,
    api_timeout_ms=2_000,
)
"""Time-outs for tests without responses."""


ALL_APIS: Final = frozenset(int(key) for key in ApiKey)
"""APIs whose requests never wait for earlier responses."""
_NEWER: Final = Release("scripted", {**IMPLEMENTED, **CLIENT_ONLY}, {}, {}, True)
"""A broker that has the APIs of Kafka that Coterie's server lacks."""


def _accept_apis_of_the_client(connection: Connection) -> None:
    """Let the connection decode requests that Coterie's server refuses."""
    connection.act_as(_NEWER)
    for key, versions in CLIENT_ONLY.items():
        layout = protocol._RequestLayout(api_of(key).request, True, True, None)
        for version in range(versions.low, versions.high + 1):
            connection._layouts[key, version] = layout


class ScriptedBroker:
    """A broker with scripted responses. `asked` holds the received requests, without
    ApiVersions."""

    def __init__(self, node_id: int = 1) -> None:
        self.node_id = node_id
        self.asked: list[Any] = []
        self.versions: dict[ApiKey, Versions] = dict(ADVERTISED)
        self.connection_count = 0
        self.answers: dict[int, Callable[[Any], Any]] = {
            ApiKey.API_VERSIONS: lambda _: self.api_versions(),
            ApiKey.FIND_COORDINATOR: self.found,
        }
        self._notifier = Notifier()
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[Any] | None] = []

    async def __aenter__(self) -> Self:
        skip_idle_time()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        # asyncio makes the transport of an accepted connection in later iterations of
        # the event loop; without them it would never be closed.
        for _ in range(5):
            await asyncio.sleep(0)
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*filter(None, self._tasks), return_exceptions=True)
        closing = [writer.wait_closed() for writer in self._writers]
        await asyncio.gather(*closing, return_exceptions=True)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def asked_of(self, kind: type[Any]) -> list[Any]:
        """Return the received requests of one type."""
        return [request for request in self.asked if isinstance(request, kind)]

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until the condition holds, checking it after each request."""
        async with asyncio.timeout(WAIT_S):
            await self._notifier.wait_until(is_so)

    async def until_connected(self) -> None:
        """Wait for a connection."""
        await self.until(lambda: self.connection_count > 0)

    def api_versions(self) -> m.ApiVersionsResponse:
        return m.ApiVersionsResponse(
            api_keys=[
                m.ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.versions.items()
            ]
        )

    def found(self, request: m.FindCoordinatorRequest) -> m.FindCoordinatorResponse:
        """Return a response with this broker as the coordinator."""
        where: dict[str, Any] = {
            "node_id": self.node_id,
            "host": "127.0.0.1",
            "port": self.port,
        }
        return m.FindCoordinatorResponse(
            **where,
            coordinators=[
                m.Coordinator(key=key, **where) for key in request.coordinator_keys
            ],
        )

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connection_count += 1
        self._notifier.notify()
        self._writers.append(writer)
        self._tasks.append(asyncio.current_task())
        connection = Connection(1 << 20)
        connection.concurrent = ALL_APIS
        _accept_apis_of_the_client(connection)
        while data := await reader.read(1 << 16):
            connection.receive_data(data)
            while (request := connection.next_request()) is not None:
                body = request.body
                if isinstance(body, Commit):
                    body = body.message()
                if request.api_key != ApiKey.API_VERSIONS:
                    self.asked.append(body)
                    self._notifier.notify()
                said = self.answers[request.api_key](body)
                if said is HANG_UP:
                    writer.close()
                    return
                if isinstance(said, bytes):
                    # The raw bytes replace the response of the connection.
                    connection._pending.remove(request)
                    writer.write(said)
                elif said is not SILENCE:
                    connection.respond(request, said)
            writer.write(connection.data_to_send())
        writer.close()


def in_turn(*said: Any) -> Callable[[Any], Any]:
    """Return a responder with one response for each request; the last one repeats."""
    rest = list(said)
    return lambda _: rest.pop(0) if len(rest) > 1 else rest[0]
