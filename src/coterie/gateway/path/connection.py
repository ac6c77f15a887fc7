"""A client's connection, and the connection to one upstream broker that belongs to it.

Frames are cut by their sizes and API keys. Chunks of a frame that is forwarded are
passed on as they arrive: they are not decoded, joined or copied. A side is not read
while the other one does not consume what was written to it. Requests of group APIs go
to an inner connection of the group server. The queue of expected responses keeps the
order of the client's requests. Its entries are

- int: the correlation id of a forwarded request, whose response is forwarded,
- `Rewritten`: the same, but the response is collected and rewritten,
- bytes: a complete response of the gateway,
- None: the next response of the inner connection.

Rules of this file: an invalid request closes the connection after the responses to the
requests before it, with one line in the log; the loss of the upstream connection closes
the client's, so that it connects again; no bytes are kept but starts of frames, and
frames that are rewritten.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final, cast

from coterie.broker.server.client_connection import ClientConnection
from coterie.broker.server.request_memory import PROGRESS_INTERVAL_S, Progress
from coterie.errors import MalformedFrame
from coterie.gateway.path import data_path
from coterie.gateway.path.cutting import Begun, FrameCutter, Sink, discard
from coterie.gateway.path.data_path import DataPath
from coterie.gateway.path.frames import (
    PRODUCE_START_BYTES_MAX,
    REQUEST_BYTES_MIN,
    REQUEST_HEAD,
    read_acks,
)
from coterie.gateway.path.inner import InnerConnection
from coterie.gateway.path.upstream_side import (
    CLOSE_S,
    WRITE_BUFFER_BYTES,
    Events,
    Expected,
    Rewritten,
    UpstreamSide,
    connect,
)
from coterie.wire.api import ApiKey
from coterie.wire.framing import SIZE_BYTES, read_size

_LOGGER = logging.getLogger(__name__)

WHOLE_BYTES_MAX: Final = 1_048_576
"""The largest request that is collected to decide its route: FindCoordinator for more
than 10,000 groups."""
EXPECTED_MAX: Final = 1_000
"""Requests without a response before further ones of the connection have to wait."""
_SASL: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})

# Reasons not to read the client; those of `_STOPPED` keep its requests as well.
_CONNECTING: Final = 1
_AUTHENTICATING: Final = 2
_MANY_EXPECTED: Final = 4
_ENDED: Final = 8
_CLIENT_FULL: Final = 16
_STOPPED: Final = _CONNECTING | _AUTHENTICATING | _MANY_EXPECTED | _ENDED | _CLIENT_FULL
_UPSTREAM_FULL: Final = 32
_INNER_FULL: Final = 64


class ClientSide(asyncio.Protocol):
    """A client's connection to the port of one upstream broker, or to the port of
    coordination, where `broker_id` is None.

    A connection to coordination connects to any upstream broker when the first request
    has to be forwarded, and again when upstream closed that connection while it was
    idle. `open_connections` has it while it is open.
    """

    def __init__(
        self,
        path: DataPath,
        broker_id: int | None,
        open_connections: set[ClientSide],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._idle_sweeps = 0
        self._connections = open_connections
        self._expected: deque[Expected] = deque()
        self._path = path
        self._broker_id = broker_id
        self._loop = loop
        port = path.coordination if broker_id is None else path.forwarding
        self._routes, self._rewriting = port
        self._exchange = path.new_exchange() if path.new_exchange else None
        self._address = ""
        self._transport: asyncio.Transport | None = None
        self._upstream: UpstreamSide | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._inner: InnerConnection | None = None
        self._was_connected = False
        self._is_lost = False
        self._holds = 0
        self._cutter = FrameCutter(self._begin)
        self._to_inner: Sink = discard
        self._to_upstream: Sink = discard
        self._progress = Progress()
        self._upstream_progress = Progress()
        self._unauthenticated_s = 0.0
        self._ended_s = 0.0

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection."""
        # uvloop's transports have the methods of `asyncio.Transport`, but are no
        # subclass of it.
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._address = str(peer[0]) if peer else "unknown"
        if not self._path.limits.add(self._address):
            self._transport.abort()
            self._transport = None
            return
        self._connections.add(self)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        if self._broker_id is not None:
            self._connect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other connections; records with acks=0 that were received are still
        forwarded."""
        if self._transport is None:
            return
        self._transport = None
        self._is_lost = True
        self._connections.discard(self)
        self._path.limits.remove(self._address)
        if self._inner is not None:
            self._inner.lose()
        if self._connecting is not None and not self._cutter.kept:
            self._connecting.cancel()
        self._release(_MANY_EXPECTED | _CLIENT_FULL)
        if self._upstream is not None:
            self._upstream.close()

    def eof_received(self) -> bool:
        """Keep the connection for the responses that are still expected."""
        transport = self._transport
        assert transport is not None
        if not self._expected or transport.get_extra_info("ssl_object") is not None:
            return False
        self._end()
        return True

    def pause_writing(self) -> None:
        """Stop reading both sides: the client is not consuming responses."""
        self._hold(_CLIENT_FULL)
        if self._upstream is not None:
            self._upstream.set_client_full(is_full=True)
        if self._inner is not None:
            self._inner.set_outer_full(is_full=True)

    def resume_writing(self) -> None:
        """Read both sides again."""
        if self._upstream is not None:
            self._upstream.set_client_full(is_full=False)
        if self._inner is not None:
            self._inner.set_outer_full(is_full=False)
        self._release(_CLIENT_FULL)

    def data_received(self, data: bytes) -> None:
        """Pass on requests."""
        self._idle_sweeps = 0
        try:
            self._cutter.feed(data)
        except MalformedFrame as error:
            self._fail(f"invalid request: {error}")
        self.deliver()

    # Requests.

    def _go_on(self) -> None:
        """Pass on requests that had to wait."""
        try:
            self._cutter.go_on()
        except MalformedFrame as error:
            self._fail(f"invalid request: {error}")
        self.deliver()

    def _begin(self, data: bytes, at: int) -> Begun | None:
        """Return where the request at `at` goes, and the position after it; None when
        it has to wait or more of it is needed.

        Raises MalformedFrame.
        """
        if self._exchange is not None and self._exchange.expects_token:
            return self._begin_token(data, at)
        if len(data) - at < REQUEST_HEAD.size:
            self._cutter.wanted = REQUEST_HEAD.size
            return None
        size, key, version, correlation_id = REQUEST_HEAD.unpack_from(data, at)
        if not REQUEST_BYTES_MIN <= size <= self._size_max(key):
            raise MalformedFrame(f"frame of {size} bytes with the API key {key}")
        after = at + SIZE_BYTES + size
        route = self._routes.get(key, data_path.FORWARD)
        if self._is_lost and key != ApiKey.PRODUCE:
            self._hold(_ENDED)
            return None
        if route == data_path.INNER:
            return Begun(self._begin_inner(), after)
        if route == data_path.WHOLE or self._rewriting.is_newer(key, version):
            return self._begin_whole(data, at, after)
        rewrite = None
        if route != data_path.FORWARD:
            rewrite = self._rewriting.of(key, version)
        has_response = route != data_path.PRODUCE or self._has_response(data, at)
        if has_response is None or not self._has_upstream():
            return None
        if has_response:
            self._expect(
                Rewritten(correlation_id, rewrite) if rewrite else correlation_id
            )
        return Begun(self._to_upstream, after)

    def _has_response(self, data: bytes, at: int) -> bool | None:
        """Return whether a Produce request has a response: not with acks=0; None while
        more of it is needed."""
        version = REQUEST_HEAD.unpack_from(data, at)[2]
        acks = read_acks(data, at, version)
        if acks is not None:
            return acks != 0
        count = len(data) - at
        if count > PRODUCE_START_BYTES_MAX:
            raise MalformedFrame(f"no acks in {count} bytes of a Produce request")
        self._cutter.wanted = count + 1
        return None

    def _size_max(self, key: int) -> int:
        settings = self._path.connections.settings
        if key == ApiKey.PRODUCE:
            return settings.socket_request_max_bytes
        return min(
            settings.socket_request_max_bytes,
            settings.socket_request_without_records_max_bytes,
        )

    def _expect(self, entry: Expected) -> None:
        self._expected.append(entry)
        if len(self._expected) >= EXPECTED_MAX:
            self._hold(_MANY_EXPECTED)

    def _begin_inner(self) -> Sink:
        exchange = self._exchange
        if exchange is not None and exchange.principal is None:
            raise MalformedFrame("a request for a group before authentication")
        if self._inner is None:
            path = self._path
            assert self._transport is not None
            self._inner = InnerConnection(
                self._transport,
                ClientConnection(path.node, path.connections, self._loop),
                on_answers=self.deliver,
                on_close=self._end,
                on_hold=self._hold_for_inner,
            )
            self._inner.set_outer_full(is_full=bool(self._holds & _CLIENT_FULL))
            if exchange is not None and exchange.principal is not None:
                self._inner.connection.principal = exchange.principal
            receive = self._inner.connection.data_received
            self._to_inner = lambda data: receive(bytes(data))
        self._expect(None)
        return self._to_inner

    def _begin_whole(self, data: bytes, at: int, after: int) -> Begun | None:
        """Decide the route of a request by its content."""
        if after - at > WHOLE_BYTES_MAX:
            raise MalformedFrame(f"frame of {after - at} bytes")
        if after > len(data):
            self._cutter.wanted = after - at
            return None
        _, key, version, correlation_id = REQUEST_HEAD.unpack_from(data, at)
        frame = data[at:after]
        if key == ApiKey.FIND_COORDINATOR:
            return self._begin_find_coordinator(frame, after)
        response = self._rewriting.own_response(key, version, correlation_id)
        if response is not None:
            self._expect(response)
            return Begun(discard, after)
        if not self._has_upstream():
            return None
        if key in _SASL and self._exchange is not None:
            return Begun(self._begin_sasl(frame, correlation_id), after)
        if key == ApiKey.METADATA:
            return Begun(self._begin_translated(frame, version, correlation_id), after)
        rewrite = None if key in _SASL else self._rewriting.of(key, version)
        self._expect(Rewritten(correlation_id, rewrite) if rewrite else correlation_id)
        return Begun(self._to_upstream, after)

    def _begin_translated(
        self, frame: bytes, version: int, correlation_id: int
    ) -> Sink:
        """Return a sink that sends the translation instead of the frame."""
        request, answer = self._rewriting.translate_metadata(frame, version)
        self._expect(Rewritten(correlation_id, answer))
        return lambda _: self._to_upstream(request)

    def _begin_find_coordinator(self, frame: bytes, after: int) -> Begun | None:
        """Forward a request for coordinators other than those of groups."""
        rewrite = self._rewriting.of_coordinators(frame)
        if rewrite is None:
            return Begun(self._begin_inner(), after)
        if not self._has_upstream():
            return None
        self._expect(Rewritten(REQUEST_HEAD.unpack_from(frame)[3], rewrite))
        return Begun(self._to_upstream, after)

    # SASL.

    def _begin_sasl(self, frame: bytes, correlation_id: int) -> Sink:
        """Forward a request that the exchange has read, or send its refusal."""
        assert self._exchange is not None
        refusal = self._exchange.request(frame[SIZE_BYTES:])
        if refusal is None:
            self._expect_sasl(correlation_id)
            return self._to_upstream
        self._expect(refusal)
        self._hold(_ENDED)
        return discard

    def _begin_token(self, data: bytes, at: int) -> Begun | None:
        if len(data) - at < SIZE_BYTES:
            self._cutter.wanted = SIZE_BYTES
            return None
        size = read_size(data, at)
        size_max = self._path.connections.settings.sasl_server_max_receive_size
        if not 0 <= size <= size_max:
            raise MalformedFrame(f"SASL token of {size} bytes")
        after = at + SIZE_BYTES + size
        if after > len(data):
            self._cutter.wanted = after - at
            return None
        if not self._has_upstream():
            return None
        assert self._exchange is not None
        self._exchange.request(data[at + SIZE_BYTES : after])
        self._expect_sasl(None)
        return Begun(self._to_upstream, after)

    def _expect_sasl(self, correlation_id: int | None) -> None:
        """Pass the response to the observer; keep later requests until then."""
        self._expect(Rewritten(correlation_id, self._observe))
        self._hold(_AUTHENTICATING)

    def _observe(self, frame: bytes) -> bytes:
        exchange = self._exchange
        assert exchange is not None
        exchange.answer(frame[SIZE_BYTES:])
        if self._inner is not None and exchange.principal is not None:
            self._inner.connection.principal = exchange.principal
        # The requests that waited go on after this response is sent.
        self._loop.call_soon(self._release, _AUTHENTICATING)
        return frame

    # Responses of the gateway.

    def deliver(self) -> None:
        """Send the responses of the gateway that are next in order."""
        upstream, transport = self._upstream, self._transport
        if transport is None or (upstream is not None and upstream.is_in_frame):
            return
        expected = self._expected
        if (
            expected
            and not _is_forwarded(expected[0])
            and (out := self._take_answers())
        ):
            transport.write(out[0] if len(out) == 1 else b"".join(out))
            if self._inner is not None:
                self._inner.update()
        # Not after each response: `_release` copies the requests that wait.
        if len(expected) <= EXPECTED_MAX // 2:
            self._release(_MANY_EXPECTED)
        if upstream is not None and expected and expected[0] is not None:
            upstream.resume()
        if self._holds & _ENDED and not self._is_response_coming():
            transport.close()

    def _take_answers(self) -> list[bytes]:
        """Return the responses of the gateway that are next in order."""
        expected, inner = self._expected, self._inner
        out: list[bytes] = []
        while expected and not _is_forwarded(expected[0]):
            head = expected[0]
            if head is None:
                assert inner is not None
                if not inner.answers:
                    break
                out.append(inner.take_answer())
            elif isinstance(head, bytes):
                out.append(head)
            expected.popleft()
        return out

    def _is_response_coming(self) -> bool:
        """Return whether a response to one of the requests can still be sent."""
        if not self._expected:
            return False
        if self._expected[0] is None:
            return self._inner is not None and not self._inner.is_closed
        return self._upstream is not None

    # The upstream connection.

    def _has_upstream(self) -> bool:
        """Return whether requests can be forwarded; connect if they cannot.

        A client that has authenticated must do so again on another connection, so its
        own is closed. For a client that has closed nothing is connected.
        """
        if self._upstream is None and not self._holds & _CONNECTING:
            is_authenticated = self._was_connected and self._exchange is not None
            if self._is_lost or is_authenticated:
                self._end()
            else:
                self._connect()
        return self._upstream is not None

    def _connect(self) -> None:
        assert self._transport is not None
        self._hold(_CONNECTING)
        events = Events(
            self.deliver, self._upstream_lost, self._upstream_full, self._fail_upstream
        )
        path = self._path
        upstream = UpstreamSide(
            self._transport, self._expected, events, path.counts, path.connected
        )
        self._connecting = self._loop.create_task(self._open(upstream))

    async def _open(self, upstream: UpstreamSide) -> None:
        """Connect to the broker, or for coordination to the first one that accepts."""
        addresses = self._path.addresses.candidates(self._broker_id)
        try:
            await connect(upstream, addresses, self._path.options)
        except OSError as error:
            self._fail(f"no connection to upstream: {error}", "upstream unreachable")
            return
        self._upstream, self._to_upstream = upstream, upstream.write
        self._was_connected = True
        upstream.set_client_full(is_full=bool(self._holds & _CLIENT_FULL))
        self._connecting = None
        self._release(_CONNECTING)
        if self._is_lost:
            upstream.close()

    def _upstream_lost(self, exc: Exception | None) -> None:
        """Close the client's connection, so that it connects again.

        Upstream closes idle connections. A connection to coordination that carries only
        heartbeats survives that.
        """
        self._upstream = None
        transport = self._transport
        if transport is None:
            return
        cutter = self._cutter
        is_sending = cutter.left and cutter.sink is self._to_upstream
        is_idle = not is_sending and not any(map(_is_forwarded, self._expected))
        if self._broker_id is None and is_idle:
            self._to_upstream = discard
            return
        _LOGGER.debug("%s: upstream closed the connection: %s", self._address, exc)
        self._hold(_ENDED)
        transport.close()

    def _upstream_full(self, is_full: bool) -> None:
        """Read no requests while the broker is not consuming them."""
        if is_full:
            self._hold(_UPSTREAM_FULL)
        else:
            self._release(_UPSTREAM_FULL)

    # Flow control, and the end.

    def _hold_for_inner(self, is_held: bool) -> None:
        if is_held:
            self._hold(_INNER_FULL)
        else:
            self._release(_INNER_FULL)

    def _hold(self, reason: int) -> None:
        self._holds |= reason
        self._cutter.is_stopped = bool(self._holds & _STOPPED)
        self._update_reading()

    def _release(self, reason: int) -> None:
        if self._holds & reason:
            self._holds &= ~reason
            self._cutter.is_stopped = bool(self._holds & _STOPPED)
            self._go_on()
            self._update_reading()

    def _update_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._holds:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _end(self) -> None:
        """Read no more requests; close after the responses that are expected."""
        self._hold(_ENDED)
        self.deliver()

    def _fail(self, reason: str, kind: str = "invalid request") -> None:
        """Log the reason and end the connection; count it by its kind."""
        if self._transport is None or self._holds & _ENDED:
            return
        self._path.broker.counts.connections_closed[kind] += 1
        self._path.connections.disconnect_logs[kind].log(
            logging.WARNING, "connection from /%s closed: %s", self._address, reason
        )
        self._end()

    def _fail_upstream(self, reason: str) -> None:
        """Close both connections: what the broker sent is no response."""
        self._fail(f"upstream: {reason}", "invalid response")
        self.abort()

    def close(self) -> None:
        """Close the connection after the responses that are expected."""
        self._end()

    def abort(self) -> None:
        """Close both connections at once."""
        if self._upstream is not None:
            self._upstream.abort()
        if self._transport is not None:
            self._transport.abort()

    def close_idle(self, sweeps_max: int) -> None:
        """Close the connection if it was idle for more than `sweeps_max` calls."""
        self._idle_sweeps += 1
        if self._upstream is not None and self._upstream.was_active:
            self._upstream.was_active = False
            self._idle_sweeps = 0
        if self._idle_sweeps > sweeps_max and not self._expected:
            self._end()

    def check_progress(self) -> None:
        """Close the connection when one side makes no progress, or takes too long to
        authenticate; call it every `PROGRESS_INTERVAL_S`."""
        transport, upstream = self._transport, self._upstream
        if transport is None:
            return
        incomplete = 0 if self._holds else len(self._cutter.kept)
        unsent = transport.get_write_buffer_size()
        self._progress.check(incomplete, unsent, is_paused=bool(self._holds))
        not_consumed = upstream.unsent_bytes if upstream is not None else 0
        self._upstream_progress.check(0, not_consumed, is_paused=False)
        connections = self._path.connections
        limit_s = connections.settings.connection_request_timeout_ms / 1_000
        if self._progress.stalled_s >= limit_s:
            self._close_late("no progress")
        elif self._upstream_progress.stalled_s >= limit_s:
            self._close_late("no progress", "the upstream broker consumes no requests")
        elif self._is_ended_late():
            self.abort()
        elif self._is_authentication_late(connections.security.timeout_s):
            self._close_late("authentication timeout")

    def _is_ended_late(self) -> bool:
        """Return whether a response is missing long after the last request. The client
        may have closed: then nothing else ends the connection to a hung broker."""
        is_waiting = self._holds & _ENDED and self._expected
        self._ended_s = self._ended_s + PROGRESS_INTERVAL_S if is_waiting else 0.0
        return self._ended_s > CLOSE_S

    def _is_authentication_late(self, limit_s: float) -> bool:
        """Return whether the client has not authenticated for the first time within
        the limit."""
        exchange = self._exchange
        if exchange is None or exchange.has_succeeded:
            return False
        self._unauthenticated_s += PROGRESS_INTERVAL_S
        return self._unauthenticated_s > limit_s

    def _close_late(self, kind: str, reason: str = "") -> None:
        self._fail(reason or kind, kind)
        self.abort()


def _is_forwarded(entry: Expected) -> bool:
    return isinstance(entry, int | Rewritten)
