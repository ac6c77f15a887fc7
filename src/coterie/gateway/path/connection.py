"""A client's connection, and the connection to one upstream broker that belongs to it.

Frames are cut by their sizes and API keys. Chunks of a frame that is forwarded are
passed on as they arrive: they are not decoded, joined or copied. A side is not read
while the other one does not consume what was written to it. Requests of group APIs are
collected, and go to the group server. The queue of expected responses keeps the order
of the client's requests. Its entries are

- int: the correlation id of a forwarded request, whose response is forwarded,
- `Rewritten`: the same, but the response is collected and rewritten,
- bytes: a complete response of the gateway,
- None: the next response of the group server.

Rules of this file: an invalid request closes the connection after the responses to the
requests before it, with one line in the log; the loss of the upstream connection closes
the client's, so that it connects again; no bytes are kept but starts of frames, and
frames that are rewritten or served here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from coterie.broker import (
    EXHAUSTED_TIMEOUT_S,
    PROGRESS_INTERVAL_S,
    TURN_S,
    UNCOUNTED_BYTES,
    Progress,
)
from coterie.errors import MalformedFrame
from coterie.gateway.path import data_path
from coterie.gateway.path.cutting import Begun, FrameCutter, Sink, discard
from coterie.gateway.path.data_path import DataPath
from coterie.gateway.path.group_requests import GroupEvents, GroupRequests
from coterie.gateway.path.reading import (
    AUTHENTICATING,
    CLIENT_FULL,
    CONNECTING,
    ENDED,
    GROUPS_WAIT,
    MANY_EXPECTED,
    TURN_ENDED,
    UPSTREAM_FULL,
    Reading,
)
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
from coterie.wire.frame_starts import (
    PRODUCE_START_BYTES_MAX,
    REQUEST_BYTES_MIN,
    REQUEST_HEAD,
    read_acks,
)
from coterie.wire.framing import SIZE_BYTES, read_size

_LOGGER = logging.getLogger(__name__)

WHOLE_BYTES_MAX: Final = 1_048_576
"""The largest request that is collected to decide its route: FindCoordinator for more
than 10,000 groups."""
EXPECTED_MAX: Final = 1_000
"""Requests without a response before further ones of the connection have to wait."""
_SASL: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


class ClientSide(asyncio.Protocol):
    """A client's connection to the port of one upstream broker, or to the port of
    coordination, where `broker_id` is None.

    A connection to coordination connects to any upstream broker when the first request
    has to be forwarded, and again when upstream closed that connection while it was
    idle. The path's `connections` have it while it is open.
    """

    def __init__(
        self,
        path: DataPath,
        broker_id: int | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.address = "unknown"
        self.idle_sweeps = 0
        self._connections = path.connections
        self._expected: deque[Expected] = deque()
        self._path = path
        self._broker_id = broker_id
        self._loop = loop
        port = path.coordination if broker_id is None else path.forwarding
        self._routes, self._rewriting = port
        self._exchange = path.new_exchange() if path.new_exchange else None
        self._transport: asyncio.Transport | None = None
        self._upstream: UpstreamSide | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._groups: GroupRequests | None = None
        self._turn_ends_s = 0.0
        self._was_connected = False
        self._is_lost = False
        self._has_eof = False
        self._cutter = FrameCutter(self._begin)
        self._reading = Reading(self._cutter, self._measure)
        self.share = self._reading.share
        self._to_upstream: Sink = discard
        self._progress = Progress()
        self._upstream_progress = Progress()
        self._unauthenticated_s = 0.0
        self._ending_s = 0.0

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection."""
        # uvloop's transports have the methods of `asyncio.Transport`, but are no
        # subclass of it.
        self._transport = cast("asyncio.Transport", transport)
        self._reading.transport = self._transport
        peer = transport.get_extra_info("peername")
        if peer:
            self.address = str(peer[0])
        if not self._connections.add(self):
            self._transport.abort()
            self._transport = self._reading.transport = None
            return
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        if self._broker_id is not None:
            self._connect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other connections; records with acks=0 that were received are still
        forwarded."""
        if self._transport is None:
            return
        self._transport = self._reading.transport = None
        self._is_lost = True
        self._connections.remove(self)
        if self._groups is not None:
            self._groups.lose()
        if self._connecting is not None and not self._cutter.kept:
            self._connecting.cancel()
        self._release(MANY_EXPECTED, CLIENT_FULL, GROUPS_WAIT, TURN_ENDED)
        if self._upstream is not None:
            self._upstream.close()

    def eof_received(self) -> bool:
        """Keep the connection for the requests that wait, and the responses that are
        still expected."""
        transport = self._transport
        assert transport is not None
        if not self._expected or transport.get_extra_info("ssl_object") is not None:
            return False
        self._has_eof = True
        self._end_at_eof()
        return True

    def pause_writing(self) -> None:
        """Stop reading both sides: the client is not consuming responses."""
        self._reading.hold(CLIENT_FULL)
        if self._upstream is not None:
            self._upstream.set_client_full(is_full=True)

    def resume_writing(self) -> None:
        """Read both sides again."""
        if self._upstream is not None:
            self._upstream.set_client_full(is_full=False)
        self._release(CLIENT_FULL)

    def data_received(self, data: bytes) -> None:
        """Pass on requests."""
        self.idle_sweeps = 0
        self._turn_ends_s = self._loop.time() + TURN_S
        try:
            self._cutter.feed(data)
        except MalformedFrame as error:
            self._fail(f"invalid request: {error}")
        self.deliver()
        if self._reading.reasons:
            self._reading.update()
        self._count_memory()

    # Requests.

    def _go_on(self) -> None:
        """Pass on requests that had to wait."""
        try:
            self._cutter.go_on()
        except MalformedFrame as error:
            self._fail(f"invalid request: {error}")
        self.deliver()
        self._end_at_eof()

    def _end_at_eof(self) -> None:
        """End when the client sends nothing more and no request of it waits."""
        if self._has_eof and not self._cutter.is_stopped:
            self._end()

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
            self._reading.hold(ENDED)
            return None
        if route == data_path.GROUPS:
            return self._begin_group(data, at, after)
        if route == data_path.WHOLE or self._rewriting.is_newer(key, version):
            return self._begin_whole(data, at, after)
        rewrite = None
        if route != data_path.FORWARD:
            rewrite = self._rewriting.of(key, version)
        has_response = route != data_path.PRODUCE or self._has_response(data, at)
        if has_response is None or not self._has_upstream():
            return None
        if has_response:
            self._expect_forwarded(correlation_id, rewrite)
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
        settings = self._connections.settings
        if key == ApiKey.PRODUCE:
            return settings.socket_request_max_bytes
        return min(
            settings.socket_request_max_bytes,
            settings.socket_request_without_records_max_bytes,
        )

    def _expect(self, entry: Expected) -> None:
        self._expected.append(entry)
        if len(self._expected) >= EXPECTED_MAX:
            self._reading.hold(MANY_EXPECTED)

    def _expect_forwarded(
        self, correlation_id: int, rewrite: Callable[[bytes], bytes] | None
    ) -> None:
        self._expect(Rewritten(correlation_id, rewrite) if rewrite else correlation_id)

    def _begin_group(self, data: bytes, at: int, after: int) -> Begun | None:
        """Handle a request in the group server, once it is complete.

        Further ones wait while it does. They also do when the requests of this read
        take long: then other connections have their turn.
        """
        if after > len(data):
            self._cutter.wanted = after - at
            return None
        exchange = self._exchange
        if exchange is not None and exchange.principal is None:
            raise MalformedFrame("a request for a group before authentication")
        groups = self._groups or self._open_groups()
        if groups is None:
            return None
        self._expect(None)
        groups.handle(data[at:after])
        if groups.is_waiting:
            self._reading.hold(GROUPS_WAIT)
        elif after < len(data) and self._loop.time() >= self._turn_ends_s:
            self._connections.turns.exhausted_count += 1
            self._connections.turns.add(self._take_turn, self.abort, self._loop)
            self._reading.hold(TURN_ENDED)
        return Begun(discard, after)

    def _take_turn(self, ends_s: float) -> None:
        self._turn_ends_s = ends_s
        self._release(TURN_ENDED)

    def _open_groups(self) -> GroupRequests | None:
        """Begin with the group server; None for a certificate without a principal."""
        exchange, transport = self._exchange, self._transport
        assert transport is not None
        try:
            principal = exchange.principal if exchange is not None else None
            if principal is None:
                principal = self._connections.security.principal(transport)
        except ValueError as error:
            reason = f"no principal in the client's certificate: {error}"
            self._fail(reason, "no principal")
            return None
        events = GroupEvents(
            self._groups_went_on, self._group_failed, self._end, self.abort
        )
        self._groups = GroupRequests(self._path, principal, self.address, events)
        return self._groups

    def _groups_went_on(self) -> None:
        """Send responses that came later, and go on if a request waited for them."""
        groups = self._groups
        assert groups is not None
        self.deliver()
        if not groups.is_waiting:
            self._turn_ends_s = self._loop.time() + TURN_S
            self._release(GROUPS_WAIT)
        self._count_memory()

    def _group_failed(self, error: MalformedFrame) -> None:
        """Expect no response to the last request of the group server."""
        self._expected.pop()
        self._fail(f"invalid request: {error}")

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
            rewrite = self._rewriting.of_coordinators(frame)
            if rewrite is None:
                return self._begin_group(data, at, after)
            if not self._has_upstream():
                return None
            self._expect_forwarded(correlation_id, rewrite)
            return Begun(self._to_upstream, after)
        response = self._rewriting.own_response(key, version, correlation_id)
        if response is not None:
            self._expect(response)
            return Begun(discard, after)
        if not self._has_upstream():
            return None
        if key in _SASL and self._exchange is not None:
            return Begun(self._begin_sasl(frame, correlation_id), after)
        rewrite = None if key in _SASL else self._rewriting.of(key, version)
        self._expect_forwarded(correlation_id, rewrite)
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
        self._reading.hold(ENDED)
        return discard

    def _begin_token(self, data: bytes, at: int) -> Begun | None:
        if len(data) - at < SIZE_BYTES:
            self._cutter.wanted = SIZE_BYTES
            return None
        size = read_size(data, at)
        size_max = self._connections.settings.sasl_server_max_receive_size
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
        self._reading.hold(AUTHENTICATING)

    def _observe(self, frame: bytes) -> bytes:
        exchange = self._exchange
        assert exchange is not None
        exchange.answer(frame[SIZE_BYTES:])
        if self._groups is not None and exchange.principal is not None:
            self._groups.principal = exchange.principal
        # The requests that waited go on after this response is sent.
        self._loop.call_soon(self._release, AUTHENTICATING)
        return frame

    # Responses of the gateway.

    def deliver(self) -> None:
        """Send the responses of the gateway that are next in order."""
        upstream, transport = self._upstream, self._transport
        if transport is None or (upstream is not None and upstream.is_in_frame):
            return
        expected = self._expected
        if out := self._take_answers():
            transport.write(out[0] if len(out) == 1 else b"".join(out))
        # Not after each response: `_release` copies the requests that wait.
        if self._reading.reasons & MANY_EXPECTED and len(expected) <= EXPECTED_MAX // 2:
            self._release(MANY_EXPECTED)
        if upstream is not None and expected and expected[0] is not None:
            upstream.resume()
        if self._reading.reasons & ENDED and not self._is_response_coming():
            transport.close()

    def _take_answers(self) -> list[bytes]:
        """Return the responses of the gateway that are next in order."""
        expected, groups = self._expected, self._groups
        out: list[bytes] = []
        while expected:
            head = expected[0]
            if head is None:
                assert groups is not None
                if not groups.answers:
                    break
                out.append(groups.take_answer())
            elif isinstance(head, bytes):
                out.append(head)
            else:
                break  # a forwarded request
            expected.popleft()
        return out

    def _is_response_coming(self) -> bool:
        """Return whether a response to one of the requests can still be sent."""
        if not self._expected:
            return False
        return self._expected[0] is None or self._upstream is not None

    # The upstream connection.

    def _has_upstream(self) -> bool:
        """Return whether requests can be forwarded; connect if they cannot.

        A client that has authenticated must do so again on another connection, so its
        own is closed. For a client that has closed nothing is connected.
        """
        if self._upstream is None and not self._reading.reasons & CONNECTING:
            is_authenticated = self._was_connected and self._exchange is not None
            if self._is_lost or is_authenticated:
                self._end()
            else:
                self._connect()
        return self._upstream is not None

    def _connect(self) -> None:
        assert self._transport is not None
        self._reading.hold(CONNECTING)
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
        upstream.set_client_full(is_full=bool(self._reading.reasons & CLIENT_FULL))
        self._connecting = None
        self._release(CONNECTING)
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
        _LOGGER.debug("%s: upstream closed the connection: %s", self.address, exc)
        self._reading.hold(ENDED)
        transport.close()

    def _upstream_full(self, is_full: bool) -> None:
        """Read no requests while the broker is not consuming them."""
        if is_full:
            self._reading.hold(UPSTREAM_FULL)
        else:
            self._release(UPSTREAM_FULL)

    # Flow control, and the end.

    def _count_memory(self) -> None:
        """Count what the connection holds, if that is or was much."""
        if self._transport is not None and (
            self.share.held_bytes or self._measure()[0] > UNCOUNTED_BYTES
        ):
            self._connections.memory.update(self.share)

    def _measure(self) -> tuple[int, int]:
        """Return the bytes held, and those that the next request lacks."""
        assert self._transport is not None
        kept = len(self._cutter.kept)
        held = kept
        if self._groups is not None:
            held += self._groups.held_bytes + self._transport.get_write_buffer_size()
        return held, max(self._cutter.wanted - kept, 0)

    def _release(self, *reasons: int) -> None:
        """End reasons not to read; pass on requests that had to wait."""
        for reason in reasons:
            if self._reading.release(reason):
                self._go_on()
                self._reading.update()

    def _end(self) -> None:
        """Read no more requests; close after the responses that are expected."""
        self._reading.hold(ENDED)
        self.deliver()

    def _fail(self, reason: str, kind: str = "invalid request") -> None:
        """Log the reason and end the connection; count it by its kind."""
        if self._transport is None or self._reading.reasons & ENDED:
            return
        self._path.node.broker.counts.connections_closed[kind] += 1
        self._connections.disconnect_logs[kind].log(
            logging.WARNING, "connection from /%s closed: %s", self.address, reason
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

    def close_idle(self) -> None:
        """Close the connection, unless a response is expected."""
        if not self._expected:
            self._end()

    def check_progress(self) -> None:
        """Close the connection when a limit of time has passed; it is called every
        `PROGRESS_INTERVAL_S`."""
        transport, upstream = self._transport, self._upstream
        if transport is None:
            return
        if upstream is not None and upstream.was_active:
            upstream.was_active = False
            self.idle_sweeps = 0
        self._count_memory()
        is_paused = bool(self._reading.reasons)
        incomplete_bytes = 0 if is_paused else len(self._cutter.kept)
        unsent_bytes = transport.get_write_buffer_size()
        unconsumed_bytes = 0 if upstream is None else upstream.unsent_bytes
        self._progress.check(incomplete_bytes, unsent_bytes, is_paused=is_paused)
        self._upstream_progress.check(0, unconsumed_bytes, is_paused=False)
        limit_s = self._connections.settings.connection_request_timeout_ms / 1_000
        if self._connections.memory.must_free(self.share):
            limit_s = min(limit_s, EXHAUSTED_TIMEOUT_S)
        if self._progress.stalled_s >= limit_s:
            self._fail("no progress", "no progress")
            self.abort()
        elif self._upstream_progress.stalled_s >= limit_s:
            self._fail("the upstream broker consumes no requests", "no progress")
            self.abort()
        elif self._is_authentication_late():
            self._fail("authentication timeout", "authentication timeout")
            self.abort()
        elif self._is_end_late():
            self.abort()

    def _is_authentication_late(self) -> bool:
        """Return whether the client has not authenticated for the first time."""
        exchange = self._exchange
        if exchange is None or exchange.has_succeeded:
            return False
        self._unauthenticated_s += PROGRESS_INTERVAL_S
        return self._unauthenticated_s > self._connections.security.timeout_s

    def _is_end_late(self) -> bool:
        """Return whether a client that sends nothing more, and may have closed, has
        waited for a response for too long: nothing else ends the connection to a hung
        broker."""
        is_ended = self._has_eof or self._reading.reasons & ENDED
        is_ending = bool(self._expected and is_ended)
        self._ending_s = self._ending_s + PROGRESS_INTERVAL_S if is_ending else 0.0
        return self._ending_s > CLOSE_S


def _is_forwarded(entry: Expected) -> bool:
    return isinstance(entry, int | Rewritten)
