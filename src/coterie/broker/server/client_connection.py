"""An asyncio protocol for each client connection.

The requests of one read are handled in the same event loop iteration, for at most
`TURN_S` when there are several, and all responses that are ready are sent in one write.
Large requests and responses are decoded and encoded in slices, and so do handlers of
many items work (`run_in_slices`). Connections with further requests or slices take
turns, which share `TURN_S` of each iteration, so that one client cannot stop the
others. No request is handled while too many are in flight, or while too many bytes wait
to be sent; reading pauses when `READ_AHEAD_BYTES` are received and not handled. A
client that violates the protocol is disconnected, with one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, cast

from coterie.auth.acl import ANONYMOUS, Principal
from coterie.broker.protocol.connection import (
    CONCURRENT,
    LARGE_BYTES,
    RAW_TOKEN,
    Connection,
    Request,
)
from coterie.broker.server.broker import Node
from coterie.broker.server.call import Call
from coterie.broker.server.connections import Connections
from coterie.broker.server.heartbeat_memo import HEARTBEAT_FRONTS, HeartbeatMemo
from coterie.broker.server.password_checks import Check
from coterie.broker.server.request_memory import (
    EXHAUSTED_TIMEOUT_S,
    MemoryShare,
    Progress,
)
from coterie.broker.server.throttle import Mute, Throttle
from coterie.broker.server.turns import TURN_S
from coterie.wire.api import ApiKey
from coterie.wire.commit import CommitResponse
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)

READ_AHEAD_BYTES: Final = 65_536
"""Bytes that are received while the requests before them cannot be handled."""
CALLBACK_S: Final = TURN_S / 10
"""Time for the slices that follow a flush, before the others get turns."""
UNCOUNTED_BYTES: Final = 4_096
"""What a connection may hold in requests and responses without being counted."""
_AT_ONCE: Final = frozenset({ApiKey.FETCH, ApiKey.OFFSET_FETCH})
"""The APIs whose responses to small requests are encoded at once: they consist of
encoded data."""


class ClientConnection(asyncio.Protocol):
    """A client's connection to one node, around the sans-I/O `Connection`."""

    def __init__(
        self, node: Node, connections: Connections, loop: asyncio.AbstractEventLoop
    ) -> None:
        settings = connections.settings
        self.node = node
        self.principal: Principal = ANONYMOUS
        self.sasl = connections.security.new_authentication()
        self.client_host = ""
        self.idle_sweeps = 0
        self.share = MemoryShare(self._measure, self._update_reading)
        self._connections = connections
        self._handlers = connections.handlers
        self._requests = node.broker.counts.requests
        self._loop = loop
        self._seconds = connections.turns.seconds
        self._heartbeats = HeartbeatMemo(node)
        self._connection = Connection(
            min(
                settings.socket_request_max_bytes,
                settings.socket_request_without_records_max_bytes,
            ),
            produce_bytes_max=settings.socket_request_max_bytes,
            elements_max=settings.socket_request_max_elements,
            fast_path=self._heartbeats.respond,
            fast_path_prefixes=HEARTBEAT_FRONTS if connections.has_fast_paths else (),
            sasl=self.sasl,
        )
        self._connection.in_slices = True
        if connections.release is not None:
            self._connection.act_as(connections.release)
        self._in_flight_max = settings.max_in_flight_requests_per_connection
        self._request_timeout_s = settings.connection_request_timeout_ms / 1000
        self._output_bytes_max = settings.connection_write_buffer_max_bytes
        self._client_quotas = node.broker.catalog.client_quotas
        self._throttle = Throttle(self, node.broker.quotas, node.broker.clock)
        self._mute = Mute(loop, self._update_reading, self._end_turn)
        self._authentication_timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._end_wait: Callable[[], None] | None = None
        self._is_handling = False
        self._is_write_scheduled = False
        self._is_closing = False
        self._is_write_buffer_full = False
        self._is_paused = False
        self._is_turn_added = False
        self._written_bytes = 0
        self._progress = Progress()

    def close_idle(self) -> None:
        """Close the connection, unless a request has no response or will be handled."""
        connection = self._connection
        if connection.in_flight or (
            connection.has_request() and not self._is_write_buffer_full
        ):
            return
        if not self._is_closing:
            self.close()
        elif self._progress.stalled_s >= self._request_timeout_s:
            self.abort()  # the client does not consume the last responses

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection; authenticate it by certificate, or wait for SASL."""
        # uvloop's transports have the methods of `asyncio.Transport`, but are no
        # subclass of it.
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.client_host = f"/{peer[0]}" if peer else "/unknown"
        if not self._connections.add(self):
            self._transport = None
            transport.abort()
            return
        transport.set_write_buffer_limits(high=self._output_bytes_max)
        quotas = self.node.broker.quotas
        if quotas.has_connection_quotas and not self._mute.accept(
            quotas, self.address, self.node.broker.clock(), self.abort
        ):
            return
        security = self._connections.security
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
        self._mute.cancel()
        if self._transport is None:
            return
        self._transport = None
        self._connections.remove(self)
        self.node.broker.share_sessions.disconnect(self)
        if self._is_closing:
            self._connection.discard()
        else:
            self._connection.discard_unless_produce()
            self._add_turn()

    def data_received(self, data: bytes) -> None:
        self.idle_sweeps = 0
        if self.sasl is not None:
            self.sasl.expire_session(self.node.broker.clock())
        connection = self._connection
        if not (self._is_closing or self._is_write_buffer_full or self._mute.timer):
            data = connection.respond_fast(data)
            if not data:
                self._write()
                return
        connection.receive_data(data)
        if self._end_wait is not None:
            self.when_followed(self._end_wait)
        if self._is_turn_added:
            self._end_turn()
        else:
            self.take_turn()

    def take_turn(self, ends_s: float | None = None) -> None:
        """Handle the next request, and further ones until `ends_s`, by default for
        `TURN_S`; write the responses."""
        self._is_turn_added = False
        connection = self._connection
        # Without held bytes no request is in flight.
        if (
            self._is_closing
            or self._is_write_buffer_full
            or self._mute.timer is not None
            or (connection.held_bytes and self._is_full())
        ):
            self._end_turn()
            return
        if self.sasl is not None:
            self.sasl.expire_session(self.node.broker.clock())
        self._is_handling = True
        request = connection.next_request()
        if ends_s is None and (
            connection.frames.waiting_bytes or connection.decoding is not None
        ):
            ends_s = self._seconds() + TURN_S
        while request is not None or connection.decoding is not None:
            self._progress.seen_bytes = 0
            if request is not None and not self._handle(request):
                return
            if ends_s is None or not self._can_go_on(ends_s):
                break
            request = connection.next_request()
        self._is_handling = False
        self._write()
        if connection.failure is not None:
            self._disconnect(f"invalid request: {connection.failure}")
        elif (
            connection.frames.waiting_bytes
            or connection.decoding is not None
            or self._is_paused
            or connection.held_bytes > UNCOUNTED_BYTES
            or self.share.held_bytes
        ):
            self._end_turn()

    def _can_go_on(self, ends_s: float) -> bool:
        """Return whether to handle the next request in this turn."""
        connection = self._connection
        if self._transport is None:
            connection.discard_unless_produce()
        if self._is_closing or self._is_full():
            return False
        if not connection.frames.waiting_bytes and connection.decoding is None:
            return False
        if self._seconds() < ends_s:
            return True
        self._connections.turns.exhausted_count += connection.has_request()
        return False

    def _handle(self, request: Request) -> bool:
        """Handle a request; return False after a bug, which closes the connection."""
        self._requests[request.api_key, request.api_version] += 1
        call = Call(request.body, request.api_version, request.client_id, self, request)
        handler = self._handlers[request.api_key]
        try:
            if self._client_quotas.has_client_quotas:
                self._throttle.handle(handler, call, request)
            else:
                handler(call)
        except Exception:
            _LOGGER.exception("%s: a bug in handling a request", self.client_host)
            self.abort()
            return False
        if request.raw is not None and request.frame:
            self._heartbeats.store(request.raw, request.body, request.frame)
        return True

    def _end_turn(self) -> None:
        """Go on in the next iteration if more requests can be handled."""
        if self._is_closing:
            self._write()
            return
        if not self._is_turn_added and not self._is_full():
            if self._connection.has_request():
                self._add_turn()
            elif self._transport is None and not self._connection.is_blocked:
                self._connection.discard()
        self._count_memory()
        self._update_reading()

    def _add_turn(self) -> None:
        connection = self._connection
        if connection.frames.waiting_bytes or connection.decoding is not None:
            self._is_turn_added = True
            self._connections.turns.add(self.take_turn, self.abort, self._loop)

    def pause_writing(self) -> None:
        """Stop handling: the client is not consuming responses (backpressure)."""
        self._is_write_buffer_full = True

    def resume_writing(self) -> None:
        """Handle requests again: the client consumes responses."""
        self._is_write_buffer_full = False
        self._end_turn()

    # The methods of `call.Peer`.

    def send_response(self, token: Any, response: Any) -> None:
        if self._transport is None:
            response = None
        elif self._client_quotas.has_client_quotas:
            self._mute.extend(self._throttle.respond(token, response))
        if (
            response is None
            or token.api_key in CONCURRENT
            or (token.api_key in _AT_ONCE and token.size < LARGE_BYTES)
            or token.api_version == RAW_TOKEN
            or isinstance(response, CommitResponse)
        ):
            try:
                self._connection.respond(token, response)
            except Exception:
                self._fail_to_encode(token)
                return
            if not self._is_handling:
                self._schedule_write()
        else:
            self._run_slices(token, self._encode_in_slices(token, response))

    def _encode_in_slices(self, token: Request, response: Any) -> Iterator[None]:
        try:
            yield from self._connection.respond_in_slices(token, response)
        except Exception:
            self._fail_to_encode(token)
            return
        if not self._is_handling:
            self._schedule_write()

    def _fail_to_encode(self, token: Request) -> None:
        _LOGGER.exception(
            "%s: a bug: the response of API %d version %d could not be encoded",
            self.client_host,
            token.api_key,
            token.api_version,
        )
        self.abort()

    def run_in_slices(self, token: Any, slices: Iterator[None]) -> None:
        self._connection.hold_requests()
        # A callback of a flush completes many requests.
        seconds = TURN_S if self._is_handling else CALLBACK_S
        self._run_slices(token, slices, self._seconds() + seconds)

    def _run_slices(
        self, token: Request, slices: Iterator[None], ends_s: float | None = None
    ) -> None:
        """Run slices of a request's work until `ends_s`, by default for `TURN_S`; add
        the others to the turns. Without a client they are dropped."""
        if self._transport is None:
            return
        for _ in slices:
            now_s = self._seconds()
            if ends_s is None:
                ends_s = now_s + TURN_S
            elif now_s >= ends_s:
                self._connections.turns.exhausted_count += 1
                self._add_slices(token, slices)
                return

    def _add_slices(self, token: Request, slices: Iterator[None]) -> None:
        def run(ends_s: float) -> None:
            work = partial(self._run_slices, token, slices, ends_s)
            if self._client_quotas.has_client_quotas:
                self._throttle.measure(token, work)
            else:
                work()

        self._connections.turns.add(run, self.abort, self._loop)

    def hold_requests(self) -> None:
        self._connection.hold_requests()

    def when_followed(self, end: Callable[[], None]) -> None:
        """Call `end`, of a Fetch that waits, once a request of another API is received
        behind it. A further Fetch does not count: clients that pipeline them would
        never wait."""
        keys = self._connection.frames.complete_keys()
        is_followed = any(key != ApiKey.FETCH for key in keys)
        self._end_wait = None if is_followed else end
        if is_followed:
            end()

    def mute(self, throttle_ms: int) -> None:
        """Handle no request for this time (KIP-219)."""
        self._mute.extend(throttle_ms)

    def fetch_throttle_ms(self, client_id: str, size: int) -> int:
        return self._throttle.fetch_ms(client_id, size)

    def fail_authentication(self, token: Any, response: Any, reason: str) -> None:
        code = ErrorCode(response.error_code)
        self.node.broker.counts.authentication_failures[code.name] += 1
        if code is ErrorCode.SASL_AUTHENTICATION_FAILED and self.sasl is not None:
            checks = self._connections.security.password_checks(self._loop, self.node)
            checks.fail(self.sasl.claimed_user, self.address)

        # The delay slows down password guessing.
        def respond_and_disconnect() -> None:
            self.send_response(token, response)
            self._write()
            self._disconnect(f"not authenticated: {reason}", "not authenticated")

        delay_s = self._connections.security.failure_delay_s
        self._loop.call_later(delay_s, respond_and_disconnect)

    def set_principal(self, principal: Principal) -> None:
        assert self.principal in {ANONYMOUS, principal}
        self.principal = principal
        checks = self._connections.security.password_checks(self._loop, self.node)
        checks.succeed(principal.name, self.address)
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
                self.abort()

        sasl = self.sasl
        assert sasl is not None
        check = Check(
            sasl.claimed_user,
            self.address,
            work,
            sasl.is_slow,
            is_open=lambda: self._transport is not None and not self._is_closing,
            done=finish,
            refuse=lambda: self._disconnect(
                "too many passwords wait to be checked", "too many passwords"
            ),
        )
        self._connections.security.password_checks(self._loop, self.node).submit(check)

    @property
    def address(self) -> str:
        """The client's address without Kafka's leading slash."""
        return self.client_host.removeprefix("/")

    def close(self) -> None:
        self._is_closing = True
        if not self._is_handling:
            self._schedule_write()

    # Writing, and flow control.

    def _schedule_write(self) -> None:
        if not self._is_write_scheduled:
            self._is_write_scheduled = True
            self._connections.schedule(self.write_responses, self.abort, self._loop)

    def write_responses(self) -> None:
        """Write responses, and handle requests that waited for them."""
        self._is_write_scheduled = False
        self._write()
        if self._connection.frames.waiting_bytes and not self._is_turn_added:
            self.take_turn()
        elif self.share.held_bytes:
            self._end_turn()

    def _write(self) -> None:
        transport = self._transport
        if transport is None:
            return
        data = self._connection.data_to_send()
        if data:
            transport.write(data)
            self._written_bytes += len(data)
            if self._written_bytes > UNCOUNTED_BYTES:
                self._count_memory()
        if self._is_closing:
            transport.close()

    def _is_full(self) -> bool:
        connection = self._connection
        return (
            self._is_write_buffer_full
            or self._mute.timer is not None
            or connection.in_flight >= self._in_flight_max
            or connection.output_bytes >= self._output_bytes_max
        )

    def _update_reading(self) -> None:
        """Pause reading while requests are held, a quota mutes the connection, or the
        memory is exhausted."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        connection = self._connection
        is_held = connection.frames.waiting_bytes >= READ_AHEAD_BYTES and (
            self._is_turn_added or connection.is_blocked or connection.has_request()
        )
        is_muted = self._mute.timer is not None
        if self._is_paused == (is_held or is_muted or self.share.is_paused):
            return
        self._is_paused = not self._is_paused
        if self._is_paused:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _count_memory(self) -> None:
        """Count what the connection holds."""
        if self._transport is not None:
            self._written_bytes = 0
            self._connections.memory.update(self.share)

    def _measure(self) -> tuple[int, int]:
        """Return the bytes held, and those that the next request lacks."""
        connection = self._connection
        assert self._transport is not None
        held = connection.frames.waiting_bytes + connection.held_bytes
        if connection.decoding is not None:
            held += connection.decoding.size
        held += self._transport.get_write_buffer_size()
        return held, connection.frames.missing_bytes

    def check_progress(self) -> None:
        """Close the connection if an incomplete request, or the client's consumption of
        responses, made no progress for too long; call it every `PROGRESS_INTERVAL_S`.
        """
        transport, connection = self._transport, self._connection
        if transport is None or not self.share.held_bytes:
            return
        self._count_memory()
        waiting, unsent = (
            connection.frames.waiting_bytes,
            transport.get_write_buffer_size(),
        )
        is_reading = not (connection.is_blocked or connection.has_request())
        progress = self._progress
        progress.check(waiting if is_reading else 0, unsent, is_paused=self._is_paused)
        timeout_s = self._request_timeout_s if is_reading and waiting else float("inf")
        if self._connections.memory.must_free(self.share):
            timeout_s = min(timeout_s, EXHAUSTED_TIMEOUT_S)
        if progress.stalled_s >= timeout_s:
            self._disconnect(
                f"no progress for {progress.stalled_s:g} s with {waiting} bytes of an "
                f"incomplete request and {unsent} bytes of responses",
                "no progress",
            )
            self.abort()

    # Disconnecting.

    def _disconnect(self, reason: str, kind: str = "invalid request") -> None:
        """Log the reason and close the connection after an error of the client; count
        it by its kind, which is a fixed word."""
        if not self._is_closing and self._transport is not None:
            self.node.broker.counts.connections_closed[kind] += 1
            self._connections.disconnect_logs[kind].log(
                logging.WARNING,
                "connection from %s closed: %s",
                self.client_host,
                reason,
            )
            self._is_closing = True
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once; drop responses and received requests."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()
