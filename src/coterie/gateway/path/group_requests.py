"""The requests of one client's connection that the group server serves.

Frames go in whole, and responses come out as frames, in the order of their requests. A
request is decoded and handled as on a server's own connection, with the same fast
paths; sockets, limits of time and authentication belong to the client's connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from coterie.auth.acl import Principal
from coterie.broker import (
    HEARTBEAT_FRONTS,
    Call,
    Connection,
    HeartbeatMemo,
    Peer,
    Request,
)
from coterie.errors import MalformedFrame
from coterie.gateway.path.data_path import DataPath
from coterie.wire.framing import SIZE_BYTES

_LOGGER = logging.getLogger(__name__)

ANSWER_BYTES_MAX: Final = 262_144
"""Bytes of responses that wait for others before no further request is handled."""


class GroupEvents(NamedTuple):
    """The functions that the group requests of a client have called.

    `on_answers` after responses came later than `GroupRequests.handle` returned, or a
    request that waited was handled; `on_failure` once, for a malformed request, which
    gets no response; `on_close` and `on_bug` to close the client's connection, after
    the responses so far and at once.
    """

    on_answers: Callable[[], None]
    on_failure: Callable[[MalformedFrame], None]
    on_close: Callable[[], None]
    on_bug: Callable[[], None]


class GroupRequests(Peer):
    """The requests of a client to the group server."""

    def __init__(
        self, path: DataPath, principal: Principal, address: str, events: GroupEvents
    ) -> None:
        node, connections = path.node, path.connections
        settings = connections.settings
        self.node = node
        self.principal = principal
        self.client_host = f"/{address}"
        self.sasl = None  # clients authenticate upstream
        self.answers: deque[bytes] = deque()
        """The responses that were not taken, as frames with their sizes."""
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._events = events
        self._handlers = connections.handlers
        self._counts = node.broker.counts.requests
        self._heartbeats = HeartbeatMemo(node)
        self._in_flight_max = settings.max_in_flight_requests_per_connection
        self._connection = Connection(
            settings.socket_request_max_bytes,
            elements_max=settings.socket_request_max_elements,
            fast_path=self._heartbeats.respond,
            fast_path_prefixes=HEARTBEAT_FRONTS,
        )
        self._answer_bytes = 0
        self._is_handling = False
        self._is_scheduled = False
        self._is_closed = False

    @property
    def is_waiting(self) -> bool:
        """Whether a request has to wait for the responses to earlier ones: no other may
        be passed to `handle` meanwhile."""
        return self._connection.frames.waiting_bytes > 0

    @property
    def held_bytes(self) -> int:
        """The bytes of requests without a response, and of responses not taken."""
        connection = self._connection
        return (
            connection.frames.waiting_bytes + connection.held_bytes + self._answer_bytes
        )

    def handle(self, frame: bytes) -> None:
        """Handle a complete request with its size, at once or when it can be."""
        assert not self.is_waiting
        connection = self._connection
        if connection.in_flight or self._answer_bytes > ANSWER_BYTES_MAX:
            connection.receive_data(frame)
            self._handle_next()
        else:
            self._handle(connection.read_frame(frame[SIZE_BYTES:]))
        self._collect()

    def take_answer(self) -> bytes:
        """Return the next response, which was not taken yet."""
        answer = self.answers.popleft()
        self._answer_bytes -= len(answer)
        if self.is_waiting:
            self._schedule()
        return answer

    def lose(self) -> None:
        """Drop responses from now on: the client's connection is closed."""
        self._is_closed = True
        self.answers.clear()
        self._answer_bytes = 0
        self._connection.discard()

    # The methods of `Peer`.

    def send_response(self, token: Any, response: Any) -> None:
        try:
            self._connection.respond(token, None if self._is_closed else response)
        except Exception:
            _LOGGER.exception("a bug: a response could not be encoded")
            self._events.on_bug()
            return
        if not self._is_handling:
            self._schedule()

    def hold_requests(self) -> None:
        self._connection.hold_requests()

    def close(self) -> None:
        self._events.on_close()

    # Handling.

    def _schedule(self) -> None:
        """Pass on responses in the next iteration: a write completes many of them."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._connections.schedule(self._go_on, self._events.on_bug, self._loop)

    def _go_on(self) -> None:
        self._is_scheduled = False
        if self._is_closed:
            return
        self._handle_next()
        self._collect()
        self._events.on_answers()

    def _handle_next(self) -> None:
        connection = self._connection
        if (
            connection.failure is not None
            or connection.in_flight >= self._in_flight_max
            or self._answer_bytes > ANSWER_BYTES_MAX
        ):
            return
        self._handle(connection.next_request())

    def _handle(self, request: Request | None) -> None:
        """Handle a request; report the failure if there is none because of it."""
        if request is None:
            if self._connection.failure is not None:
                self._events.on_failure(self._connection.failure)
            return
        self._is_handling = True
        self._serve(request)
        self._is_handling = False

    def _serve(self, request: Request) -> None:
        self._counts[request.api_key, request.api_version] += 1
        call = Call(request.body, request.api_version, request.client_id, self, request)
        try:
            self._handlers[request.api_key](call)
        except Exception:
            _LOGGER.exception("%s: a bug in handling a request", self.client_host)
            self._events.on_bug()
            return
        if request.raw is not None and request.frame:
            self._heartbeats.store(request.raw, request.body, request.frame)

    def _collect(self) -> None:
        for answer in self._connection.take_responses():
            self.answers.append(answer)
            self._answer_bytes += len(answer)
