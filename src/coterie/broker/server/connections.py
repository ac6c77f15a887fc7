"""What the client connections of a server share: their limits, memory and turns."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from coterie.broker.server.call import Handler
from coterie.broker.server.connection_limits import ConnectionLimits
from coterie.broker.server.log_limit import LimitedLog
from coterie.broker.server.request_memory import MemoryShare, RequestMemory
from coterie.broker.server.security import Security
from coterie.broker.server.turns import Turns
from coterie.settings import Settings
from coterie.wire.releases import Release

_LOGGER = logging.getLogger(__name__)


class OpenConnection(Protocol):
    """A client's connection, as far as the limits of all connections concern it."""

    idle_sweeps: int
    """The calls of `Connections.close_idle` since the last request."""
    share: MemoryShare

    @property
    def address(self) -> str:
        """The client's address."""

    def close(self) -> None:
        """Close the connection after the pending responses are sent."""

    def abort(self) -> None:
        """Close the connection at once."""

    def close_idle(self) -> None:
        """Close the connection, unless a request has no response or will be handled."""

    def check_progress(self) -> None:
        """Close the connection if it makes no progress; it is called every
        `PROGRESS_INTERVAL_S`."""


class Connections:
    """The open connections of a server, and the limits that they share.

    Without `has_fast_paths`, a handler gets every request, even those whose response is
    stored. `seconds` is the clock of the turns.
    """

    def __init__(
        self,
        settings: Settings,
        handlers: Mapping[int, Handler],
        security: Security,
        *,
        has_fast_paths: bool = True,
        release: Release | None = None,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.has_fast_paths = has_fast_paths
        self.settings = settings
        self.release = release
        self.handlers = handlers
        self.security = security
        self.memory = RequestMemory(settings.queued_max_request_bytes)
        self.limits = ConnectionLimits(settings)
        self.turns = Turns(seconds)
        self.disconnect_logs = defaultdict[str, LimitedLog](lambda: LimitedLog(_LOGGER))
        """The log of connections that are closed, by the kind of error."""
        self._open: set[OpenConnection] = set()
        self._unwritten: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[OpenConnection]:
        """Iterate over the connections that are open now."""
        return iter(tuple(self._open))

    def add(self, connection: OpenConnection) -> bool:
        """Register a connection; return False when it has to be refused."""
        if not self.limits.add(connection.address):
            return False
        self._open.add(connection)
        return True

    def remove(self, connection: OpenConnection) -> None:
        """Unregister a connection and return its memory."""
        if connection in self._open:
            self._open.discard(connection)
            self.limits.remove(connection.address)
            self.memory.release(connection.share)

    def close(self) -> None:
        """Close every connection after its pending responses are sent."""
        for connection in self:
            connection.close()

    def abort(self) -> None:
        """Close every connection at once."""
        for connection in self:
            connection.abort()

    def close_idle(self, sweeps_max: int) -> None:
        """Close connections without a request for more than `sweeps_max` calls."""
        for connection in self:
            connection.idle_sweeps += 1
            if connection.idle_sweeps > sweeps_max:
                connection.close_idle()

    def schedule(
        self,
        write: Callable[[], None],
        abort: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Call `write`, which writes the responses of a connection, in the next
        iteration of the loop, and `abort` if it raises.

        One callback does it for all connections: a flush completes requests of many.
        """
        self._unwritten.append((write, abort))
        if len(self._unwritten) == 1:
            loop.call_soon(self._write_all)

    def _write_all(self) -> None:
        unwritten, self._unwritten = self._unwritten, []
        for write, abort in unwritten:
            try:
                write()
            except Exception:
                _LOGGER.exception("a bug in a write")
                abort()

    def check_progress(self) -> None:
        """Count again what connections hold, and close those without progress."""
        for connection in self:
            connection.check_progress()
        self.memory.reconsider()
