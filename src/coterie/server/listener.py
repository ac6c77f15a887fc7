"""Listens for clients of every node, and keeps the number of connections in bounds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from coterie.server.dispatch import Handler
from coterie.server.node import Node
from coterie.server.security import Security
from coterie.server.session import Limits, Session
from coterie.settings import Settings

_LOGGER = logging.getLogger(__name__)

BACKLOG: Final = 1_024
_SWEEPS_PER_IDLE_LIMIT: Final = 10


class Listener:
    """The sockets of all nodes and the sessions of all clients."""

    def __init__(
        self,
        settings: Settings,
        handlers: Mapping[int, Handler],
        security: Security,
    ) -> None:
        self.security = security
        self._settings = settings
        self._handlers = handlers
        self._limits = Limits(
            frame_bytes_max=settings.socket_request_max_bytes,
            in_flight_max=settings.max_in_flight_requests_per_connection,
            write_buffer_bytes_max=settings.connection_write_buffer_max_bytes,
        )
        self._servers: list[asyncio.Server] = []
        self._sessions: set[Session] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._is_full = False

    async def listen(self, node: Node, host: str, port: int) -> int:
        """Accept clients of a node; the port, which was asked for or free with 0.

        Raises OSError when the address cannot be had.
        """
        loop = asyncio.get_running_loop()

        def session() -> Session:
            return Session(node, self._handlers, self._limits, sessions=self, loop=loop)

        security = self.security
        server = await loop.create_server(
            session,
            host,
            port,
            backlog=BACKLOG,
            ssl=security.tls,
            ssl_handshake_timeout=security.patience_s if security.tls else None,
        )
        self._servers.append(server)
        if self._sweep is None:
            self._schedule_sweep(loop)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._sessions)

    def close(self) -> None:
        """Accept nobody any more."""
        if self._sweep is not None:
            self._sweep.cancel()
        for server in self._servers:
            server.close()

    def close_sessions(self) -> None:
        """Close every connection, once what is ready has been sent."""
        for session in tuple(self._sessions):
            session.close()

    # What sessions call.

    def opened(self, session: Session) -> bool:
        """Keep a session, if `max.connections` has room for it."""
        if len(self._sessions) >= self._settings.max_connections:
            if not self._is_full:
                _LOGGER.warning(
                    "connections are refused: max.connections (%d) are open",
                    self._settings.max_connections,
                )
            self._is_full = True
            return False
        self._sessions.add(session)
        return True

    def closed(self, session: Session) -> None:
        """Forget a session."""
        self._sessions.discard(session)
        self._is_full = False

    # Idle connections.

    def _schedule_sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        idle_s = self._settings.connections_max_idle_ms / 1000
        self._sweep = loop.call_later(
            idle_s / _SWEEPS_PER_IDLE_LIMIT, self._close_idle, loop
        )

    def _close_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close who was silent for `connections.max.idle.ms` and waits for nothing."""
        for session in tuple(self._sessions):
            session.quiet_sweeps += 1
            is_quiet = session.quiet_sweeps > _SWEEPS_PER_IDLE_LIMIT
            if is_quiet and not session.in_flight:
                session.close()
        self._schedule_sweep(loop)
