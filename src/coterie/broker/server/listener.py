"""The listening sockets, and the periodic checks of the connections they accept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from coterie.broker.server.connections import Connections
from coterie.broker.server.request_memory import PROGRESS_INTERVAL_S
from coterie.portable_os import stop_accepting

_BACKLOG: Final = 1_024
_SWEEPS_PER_IDLE_LIMIT: Final = 10


class Listener:
    """The sockets of a process. `connections` are those of all clients."""

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self._servers: list[asyncio.Server] = []
        self._sweep: asyncio.TimerHandle | None = None
        self._progress: asyncio.TimerHandle | None = None

    async def listen(
        self, accept: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> int:
        """Accept connections; return the bound port (a free one for port 0).

        `accept` returns the protocol of a new connection.

        Raises OSError when the address is unavailable.
        """
        loop = asyncio.get_running_loop()
        security = self.connections.security
        server = await loop.create_server(
            accept,
            host,
            port,
            backlog=_BACKLOG,
            ssl=security.tls,
            ssl_handshake_timeout=security.timeout_s if security.tls else None,
        )
        self._servers.append(server)
        if self._sweep is None:
            self._schedule_sweep(loop)
            self._check_progress(loop)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def stop_accepting(self) -> None:
        """Accept no more sockets."""
        await stop_accepting(self._servers)

    def close(self) -> None:
        """Stop listening."""
        for timer in (self._sweep, self._progress):
            if timer is not None:
                timer.cancel()
        for server in self._servers:
            server.close()

    def _schedule_sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        idle_s = self.connections.settings.connections_max_idle_ms / 1000
        if idle_s < 0:
            return
        self._sweep = loop.call_later(
            idle_s / _SWEEPS_PER_IDLE_LIMIT, self._close_idle, loop
        )

    def _close_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections that were idle for `connections.max.idle.ms`."""
        self.connections.close_idle(_SWEEPS_PER_IDLE_LIMIT)
        self._schedule_sweep(loop)

    def _check_progress(self, loop: asyncio.AbstractEventLoop) -> None:
        self.connections.check_progress()
        self._progress = loop.call_later(
            PROGRESS_INTERVAL_S, self._check_progress, loop
        )
