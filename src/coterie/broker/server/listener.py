"""The listening sockets, and an asyncio protocol for each client connection.

All requests of one read are handled in the same event loop iteration, and all responses
that are ready are sent in one write. Reading pauses while too many requests are in
flight, or while too many bytes wait to be sent. A client that violates the protocol is
disconnected, with one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from coterie.auth.acl import ANONYMOUS, Principal
from coterie.broker.protocol.connection import Connection
from coterie.broker.server.broker import Node
from coterie.broker.server.call import Call, Handler
from coterie.broker.server.heartbeat_memo import HEARTBEAT_FRONTS, HeartbeatMemo
from coterie.broker.server.log_limit import LimitedLog
from coterie.broker.server.password_checks import Check
from coterie.broker.server.security import Security
from coterie.broker.server.throttle import Throttle
from coterie.settings import Settings
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)

BACKLOG: Final = 1_024
_SWEEPS_PER_IDLE_LIMIT: Final = 10


class Listener:
    """The sockets of all nodes, and the connections of all clients."""

    def __init__(
        self, settings: Settings, handlers: Mapping[int, Handler], security: Security
    ) -> None:
        self.settings = settings
        self.handlers = handlers
        self.security = security
        self._servers: list[asyncio.Server] = []
        self._connections: set[ClientConnection] = set()
        self.refused_connections = 0
        self.disconnect_logs = defaultdict[str, LimitedLog](lambda: LimitedLog(_LOGGER))
        """The log of connections that are closed, by the kind of error."""
        self._sweep: asyncio.TimerHandle | None = None
        self._is_full = False

    @property
    def open_connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    async def listen(self, node: Node, host: str, port: int) -> int:
        """Accept connections to a node; return the bound port (a free one for port 0).

        Raises OSError when the address is unavailable.
        """
        loop = asyncio.get_running_loop()
        security = self.security
        server = await loop.create_server(
            lambda: ClientConnection(node, self, loop),
            host,
            port,
            backlog=BACKLOG,
            ssl=security.tls,
            ssl_handshake_timeout=security.timeout_s if security.tls else None,
        )
        self._servers.append(server)
        if self._sweep is None:
            self._schedule_sweep(loop)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    def close(self) -> None:
        """Stop accepting connections."""
        if self._sweep is not None:
            self._sweep.cancel()
        for server in self._servers:
            server.close()

    def close_connections(self) -> None:
        """Close every connection after its pending responses are sent."""
        for connection in tuple(self._connections):
            connection.close()

    def add(self, connection: ClientConnection) -> bool:
        """Register a connection; return False when `max.connections` is reached."""
        if len(self._connections) >= self.settings.max_connections:
            if not self._is_full:
                _LOGGER.warning(
                    "connections are refused: max.connections (%d) are open",
                    self.settings.max_connections,
                )
            self._is_full = True
            self.refused_connections += 1
            return False
        self._connections.add(connection)
        return True

    def remove(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)
        self._is_full = False

    # Idle connections.

    def _schedule_sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        idle_s = self.settings.connections_max_idle_ms / 1000
        self._sweep = loop.call_later(
            idle_s / _SWEEPS_PER_IDLE_LIMIT, self._close_idle, loop
        )

    def _close_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections that were idle for `connections.max.idle.ms` and have no
        request in flight."""
        for connection in tuple(self._connections):
            connection.idle_sweeps += 1
            is_idle = connection.idle_sweeps > _SWEEPS_PER_IDLE_LIMIT
            if is_idle and not connection.in_flight:
                connection.close()
        self._schedule_sweep(loop)


class ClientConnection(asyncio.Protocol):
    """A client's connection to one node, around the sans-I/O `Connection`."""

    def __init__(
        self, node: Node, listener: Listener, loop: asyncio.AbstractEventLoop
    ) -> None:
        settings = listener.settings
        self.node = node
        self.principal: Principal = ANONYMOUS
        self.sasl = listener.security.new_authentication()
        self.client_host = ""
        self.idle_sweeps = 0
        self._listener = listener
        self._handlers = listener.handlers
        self._loop = loop
        self._heartbeats = HeartbeatMemo(node)
        self._connection = Connection(
            min(
                settings.socket_request_max_bytes,
                settings.socket_request_without_records_max_bytes,
            ),
            produce_bytes_max=settings.socket_request_max_bytes,
            elements_max=settings.socket_request_max_elements,
            fast_path=self._heartbeats.respond,
            fast_path_prefixes=HEARTBEAT_FRONTS,
            sasl=self.sasl,
        )
        # During authentication the meaning of each request depends on the previous one.
        self._in_flight_max = 1
        if self.sasl is None:
            self._in_flight_max = settings.max_in_flight_requests_per_connection
        self._client_quotas = node.broker.catalog.client_quotas
        self._throttle = Throttle(self, node.broker.quotas, node.broker.clock)
        self._mute_timer: asyncio.TimerHandle | None = None
        self._authentication_timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._is_handling = False
        self._is_write_scheduled = False
        self._is_closing = False
        self._is_write_buffer_full = False
        self._is_paused = False

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return self._connection.in_flight

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection; authenticate it by certificate, or wait for SASL."""
        # uvloop's transports have the methods of `asyncio.Transport`, but are no
        # subclass of it.
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.client_host = f"/{peer[0]}" if peer else "/unknown"
        if not self._listener.add(self):
            self._transport = None
            transport.abort()
            return
        high = self._listener.settings.connection_write_buffer_max_bytes
        transport.set_write_buffer_limits(high=high)
        security = self._listener.security
        if self.sasl is not None:
            timeout_s = security.timeout_s
            self._authentication_timer = self._loop.call_later(
                timeout_s,
                self._disconnect,
                f"authentication timed out after {timeout_s:g} s",
                "authentication timeout",
            )
            return
        try:
            self.principal = security.principal(transport)
        except ValueError as error:
            reason = f"no principal in the client's certificate: {error}"
            self._disconnect(reason, "no principal")

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister the connection; later responses are dropped."""
        if self._authentication_timer is not None:
            self._authentication_timer.cancel()
        if self._mute_timer is not None:
            self._mute_timer.cancel()
        if self._transport is not None:
            self._transport = None
            self._listener.remove(self)

    def data_received(self, data: bytes) -> None:
        self.idle_sweeps = 0
        connection = self._connection
        if self.sasl is not None:
            self.sasl.expire_session(self.node.broker.clock())
        self._is_handling = True
        counts = self.node.broker.counts.requests
        for request in connection.receive_data(data):
            counts[request.api_key, request.api_version] += 1
            call = Call(
                request.body, request.api_version, request.client_id, self, request
            )
            handler = self._handlers[request.api_key]
            try:
                if self._client_quotas.has_client_quotas:
                    self._throttle.handle(handler, call, request)
                else:
                    handler(call)
            except Exception:
                _LOGGER.exception("%s: a bug in handling a request", self.client_host)
                self._abort()
                return
            if request.raw is not None and request.frame:
                self._heartbeats.store(request.raw, request.body, request.frame)
        self._is_handling = False
        self._write()
        if connection.failure is not None:
            self._disconnect(f"invalid request: {connection.failure}")
        elif self._is_full():
            self._pause()
        elif self.sasl is not None and connection.has_held_frames:
            self._schedule_write()

    def pause_writing(self) -> None:
        """Pause reading: the client is not consuming responses (backpressure)."""
        self._is_write_buffer_full = True
        self._pause()

    def resume_writing(self) -> None:
        """Resume reading: the client consumes responses again."""
        self._is_write_buffer_full = False
        self._resume()

    # The methods of `call.Peer`.

    def send_response(self, token: Any, response: Any) -> None:
        if self._transport is None:
            return
        if self._client_quotas.has_client_quotas:
            self._mute(self._throttle.respond(token, response))
        try:
            self._connection.respond(token, response)
        except Exception:
            _LOGGER.exception(
                "%s: a bug: the response of API %d version %d could not be encoded",
                self.client_host,
                token.api_key,
                token.api_version,
            )
            self._abort()
            return
        if not self._is_handling:
            self._schedule_write()

    def fetch_throttle_ms(self, client_id: str, size: int) -> int:
        return self._throttle.fetch_ms(client_id, size)

    def fail_authentication(self, token: Any, response: Any, reason: str) -> None:
        code = ErrorCode(response.error_code)
        self.node.broker.counts.authentication_failures[code.name] += 1
        if code is ErrorCode.SASL_AUTHENTICATION_FAILED and self.sasl is not None:
            checks = self._listener.security.password_checks(self._loop, self.node)
            checks.fail(self.sasl.claimed_user, self._address)
        # The delay slows down password guessing.
        self._pause()

        def respond_and_disconnect() -> None:
            self.send_response(token, response)
            self._write()
            self._disconnect(f"not authenticated: {reason}", "not authenticated")

        delay_s = self._listener.security.failure_delay_s
        self._loop.call_later(delay_s, respond_and_disconnect)

    def set_principal(self, principal: Principal) -> None:
        assert self.principal in {ANONYMOUS, principal}
        self.principal = principal
        checks = self._listener.security.password_checks(self._loop, self.node)
        checks.succeed(principal.name, self._address)
        settings = self._listener.settings
        self._in_flight_max = settings.max_in_flight_requests_per_connection
        if self._authentication_timer is not None:
            self._authentication_timer.cancel()

    def check_password(
        self, work: Callable[[], bytes], done: Callable[[Callable[[], bytes]], None]
    ) -> None:

        def finish(outcome: Callable[[], bytes]) -> None:
            try:
                done(outcome)
            except Exception:
                _LOGGER.exception("%s: a bug in checking a password", self.client_host)
                self._abort()

        sasl = self.sasl
        assert sasl is not None
        check = Check(
            sasl.claimed_user,
            self._address,
            work,
            sasl.is_slow,
            is_open=lambda: self._transport is not None and not self._is_closing,
            done=finish,
            refuse=lambda: self._disconnect(
                "too many passwords wait to be checked", "too many passwords"
            ),
        )
        self._listener.security.password_checks(self._loop, self.node).submit(check)

    @property
    def _address(self) -> str:
        return self.client_host.removeprefix("/")

    def close(self) -> None:
        self._is_closing = True
        if not self._is_handling:
            self._schedule_write()

    # Writing, and flow control.

    def _schedule_write(self) -> None:
        if not self._is_write_scheduled:
            self._is_write_scheduled = True
            self._loop.call_soon(self._scheduled_write)

    def _scheduled_write(self) -> None:
        self._is_write_scheduled = False
        self._write()
        if (
            self.sasl is not None
            and not self._is_closing
            and self._connection.has_held_frames
        ):
            # Handle the bytes that could not be parsed before the last response.
            self.data_received(b"")
        if self._is_paused:
            self._resume()

    def _write(self) -> None:
        transport = self._transport
        if transport is None:
            return
        data = self._connection.data_to_send()
        if data:
            transport.write(data)
        if self._is_closing:
            transport.close()

    def _is_full(self) -> bool:
        connection = self._connection
        return connection.in_flight >= self._in_flight_max or connection.is_blocked

    def _pause(self) -> None:
        transport = self._transport
        if transport is None or self._is_paused or transport.is_closing():
            return
        self._is_paused = True
        transport.pause_reading()

    def _resume(self) -> None:
        if (
            self._transport is None
            or self._is_write_buffer_full
            or self._mute_timer is not None
            or not self._is_paused
            or self._is_full()
        ):
            return
        self._is_paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _mute(self, throttle_ms: int) -> None:
        """Stop reading for the throttle time of a quota (KIP-219)."""
        if not throttle_ms:
            return
        until = self._loop.time() + throttle_ms / 1000
        if self._mute_timer is not None:
            if self._mute_timer.when() >= until:
                return
            self._mute_timer.cancel()
        self._mute_timer = self._loop.call_at(until, self._unmute)
        self._pause()

    def _unmute(self) -> None:
        self._mute_timer = None
        self._resume()

    # Disconnecting.

    def _disconnect(self, reason: str, kind: str = "invalid request") -> None:
        """Log the reason and close the connection after an error of the client; count
        it by its kind, which is a fixed word."""
        if not self._is_closing and self._transport is not None:
            self.node.broker.counts.connections_closed[kind] += 1
            self._listener.disconnect_logs[kind].log(
                logging.WARNING,
                "connection from %s closed: %s",
                self.client_host,
                reason,
            )
            self._is_closing = True
            self._transport.close()

    def _abort(self) -> None:
        """Close the connection at once, after a bug."""
        if self._transport is not None:
            self._transport.abort()
