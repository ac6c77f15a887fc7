"""A call whose response is recorded, and which a fault may change or drop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.broker import Call
from coterie.testing.recorder import RecordedRequest
from coterie.wire.commit import Response
from coterie.wire.schema import Struct


class RecordedCall(Call):
    """A call that is recorded. A fault may set `intercept`, which then gets the
    response and decides what is sent."""

    __slots__ = ("_finish", "intercept", "recorded")

    def __init__(
        self,
        call: Call,
        recorded: RecordedRequest,
        finish: Callable[[RecordedRequest, Any, bool], None],
    ) -> None:
        super().__init__(
            call.request, call.api_version, call.client_id, call.peer, call.token
        )
        self.recorded = recorded
        self._finish = finish
        self.intercept: Callable[[Any], None] | None = None

    def wait(self, end: Callable[[], None]) -> None:
        """End the wait of a Fetch when another request is received behind it.

        librdkafka sends FindCoordinator on the connection of its Fetch requests.
        Meanwhile it repeats a commit that failed on a new connection to the coordinator
        each time, until the session expires (librdkafka issue 3645).
        """
        peer: Any = self.peer
        peer.when_followed(end)

    def respond(self, response: Response | None) -> None:
        """Pass the response to the fault, or send it."""
        if self.intercept is not None:
            self.intercept(response)
        else:
            self.send(response)

    def send(self, response: Response | None) -> None:
        """Record and send the response."""
        self._finish(self.recorded, response, True)
        super().respond(response)

    def fail_authentication(self, response: Struct, reason: str) -> None:
        """Record the response, send it after a delay and close the connection."""
        self._finish(self.recorded, response, True)
        super().fail_authentication(response, reason)

    def drop(self, response: Response | None = None, *, close: bool) -> None:
        """Send no response: close the connection, or leave it open and handle no later
        request of it."""
        self._finish(self.recorded, response, False)
        if close:
            super().respond(None)
            self.close()
        else:
            self.peer.hold_requests()

    def abort(self) -> None:
        """Close the connection at once; responses that wait are dropped."""
        self._finish(self.recorded, None, False)
        peer: Any = self.peer
        peer.abort()
