"""One client's connection: an asyncio protocol around the sans-I/O connection.

All requests of one read are handled in its turn, and all answers that are ready go out
in one write. Reading pauses while too many requests are unanswered or too much is
waiting to be sent. A peer that breaks the protocol loses its connection, with one line
in the log, and harms nobody else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from coterie.auth.authorizer import ANONYMOUS, Principal
from coterie.protocol.connection import Connection
from coterie.server.call import Call
from coterie.server.dispatch import Handler
from coterie.server.node import Node
from coterie.server.security import Security
from coterie.server.steady import HEARTBEAT_FRONTS, SteadyHeartbeats

_LOGGER = logging.getLogger(__name__)


class Sessions(Protocol):
    """Who keeps count of the sessions, and how clients show who they are."""

    security: Security

    def opened(self, session: Session) -> bool:
        """Whether there is room for another session, which is kept then."""

    def closed(self, session: Session) -> None:
        """A session is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one connection (bytes, requests)."""

    frame_bytes_max: int
    in_flight_max: int
    write_buffer_bytes_max: int


class Session(asyncio.Protocol):
    """The server's end of a connection to one node."""

    def __init__(
        self,
        node: Node,
        handlers: Mapping[int, Handler],
        limits: Limits,
        *,
        sessions: Sessions,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.node = node
        self.principal: Principal = ANONYMOUS
        self.sasl = sessions.security.authentication()
        self.client_host = ""
        self.quiet_sweeps = 0
        self._handlers = handlers
        self._limits = limits
        self._sessions = sessions
        self._loop = loop
        self._steady = SteadyHeartbeats(node)
        self._connection = Connection(
            limits.frame_bytes_max,
            shortcut=self._steady.answer,
            shortcut_fronts=HEARTBEAT_FRONTS,
            sasl=self.sasl,
        )
        self._in_flight_max = limits.in_flight_max if self.sasl is None else 1
        self._deadline: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._is_reading = False
        self._is_write_due = False
        self._is_closing = False
        self._is_choked = False
        self._is_paused = False

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answers."""
        return self._connection.in_flight

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected."""
        # uvloop's transports have the methods, but are no subclass.
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.client_host = f"/{peer[0]}" if peer else "/unknown"
        if not self._sessions.opened(self):
            self._transport = None
            transport.abort()
            return
        transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes_max)
        self._ask_who(transport)

    def _ask_who(self, transport: asyncio.Transport) -> None:
        """Take the name of a client's certificate, or give it time to authenticate."""
        security = self._sessions.security
        if self.sasl is not None:
            self._deadline = self._loop.call_later(
                security.patience_s, self._end, "did not say in time who it is"
            )
            return
        try:
            self.principal = security.principal(transport)
        except ValueError as error:
            self._end(f"has a certificate without a name: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; answers to come go nowhere."""
        if self._deadline is not None:
            self._deadline.cancel()
        if self._transport is not None:
            self._transport = None
            self._sessions.closed(self)

    def data_received(self, data: bytes) -> None:
        """Handle every request that is now whole."""
        self.quiet_sweeps = 0
        connection = self._connection
        if self.sasl is not None:
            self.sasl.at(self.node.broker.clock())
        self._is_reading = True
        for request in connection.receive_data(data):
            call = Call(
                request.body, request.api_version, request.client_id, self, request
            )
            try:
                self._handlers[request.api_key](call)
            except Exception:
                _LOGGER.exception("%s: a bug in handling a request", self.client_host)
                self._abort()
                return
            if request.raw is not None and request.frame:
                self._steady.learn(request.raw, request.body, request.frame)
        self._is_reading = False
        self._write()
        if connection.failure is not None:
            self._end(f"broke the protocol: {connection.failure}")
        elif self._takes_no_more():
            self._pause()
        elif self.sasl is not None and connection.is_holding:
            self._write_soon()

    def eof_received(self) -> bool | None:
        """The peer sends no more, and has no use for answers."""
        return None

    def pause_writing(self) -> None:
        """The peer does not read what it is sent: take no more requests from it."""
        self._is_choked = True
        self._pause()

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._is_choked = False
        self._resume()

    # What calls do.

    def answer(self, token: Any, response: Any) -> None:
        """Send the answer to a request, in its turn; None when it gets none."""
        if self._transport is None:
            return
        try:
            self._connection.answer(token, response)
        except Exception:
            _LOGGER.exception(
                "%s: a bug: an answer of key %d version %d could not be encoded",
                self.client_host,
                token.api_key,
                token.api_version,
            )
            self._abort()
            return
        if not self._is_reading:
            self._write_soon()

    def refuse(self, token: Any, response: Any, reason: str) -> None:
        """Answer that it is not known who calls, and close the connection: not at once,
        so that passwords cannot be tried one after the other."""
        self._pause()
        self._loop.call_later(
            self._sessions.security.refusal_delay_s,
            self._refuse,
            token,
            response,
            reason,
        )

    def _refuse(self, token: Any, response: Any, reason: str) -> None:
        self.answer(token, response)
        self._write()
        self._end(f"could not say who it is: {reason}")

    def become(self, principal: Principal) -> None:
        """It is known now who calls."""
        assert self.principal in {ANONYMOUS, principal}
        self.principal = principal
        self._in_flight_max = self._limits.in_flight_max
        if self._deadline is not None:
            self._deadline.cancel()

    def compute(
        self, work: Callable[[], bytes], done: Callable[[Callable[[], bytes]], None]
    ) -> None:
        """Do work in another thread, then give `done` what returns or raises what came
        of it; nobody is told when the connection is gone."""

        def computed(future: asyncio.Future[bytes]) -> None:
            if future.cancelled():
                return  # the server stops
            future.exception()  # asked for, so that the loop does not miss it
            if self._transport is None:
                return
            try:
                done(future.result)
            except Exception:
                _LOGGER.exception("%s: a bug in checking a password", self.client_host)
                self._abort()

        workers = self._sessions.security.workers
        self._loop.run_in_executor(workers, work).add_done_callback(computed)

    def close(self) -> None:
        """Close the connection, once what was answered in this turn is sent."""
        self._is_closing = True
        if not self._is_reading:
            self._write_soon()

    def _write_soon(self) -> None:
        if not self._is_write_due:
            self._is_write_due = True
            self._loop.call_soon(self._write_due)

    def _write_due(self) -> None:
        self._is_write_due = False
        self._write()
        if self.sasl is not None and not self._is_closing:
            self._go_on()
        if self._is_paused:
            self._resume()

    def _go_on(self) -> None:
        """Read what was held until an answer said how."""
        if self._connection.is_holding:
            self.data_received(b"")

    def _write(self) -> None:
        transport = self._transport
        if transport is None:
            return
        data = self._connection.data_to_send()
        if data:
            transport.write(data)
        if self._is_closing:
            transport.close()

    def _pause(self) -> None:
        transport = self._transport
        if transport is None or self._is_paused or transport.is_closing():
            return
        self._is_paused = True
        transport.pause_reading()

    def _takes_no_more(self) -> bool:
        connection = self._connection
        return connection.in_flight >= self._in_flight_max or connection.is_stuck

    def _resume(self) -> None:
        if self._transport is None or self._is_choked or not self._is_paused:
            return
        if self._takes_no_more():
            return
        self._is_paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _end(self, reason: str) -> None:
        """Close for what the peer did; answers that are ready have been written."""
        if not self._is_closing and self._transport is not None:
            _LOGGER.warning(
                "connection from %s closed: it %s", self.client_host, reason
            )
            self._is_closing = True
            self._transport.close()

    def _abort(self) -> None:
        """Close at once, after a bug of ours."""
        if self._transport is not None:
            self._transport.abort()
