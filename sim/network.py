"""The network between members and server, which loses, delays, repeats and reorders
messages. A call is a request and its response. After a timeout the caller ignores the
response; its request may still arrive, even after the next one, as after a lost
connection. When the server crashes, all messages to and from it are lost, and the calls
fail soon after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from coterie.broker.runtime.deferred import Respond
from coterie.types import GroupId, TopicName
from sim.clock import Clock, Event
from sim.transcript import Transcript

_REFUSED_MS: Final = 50
"""The time until a refused connection is noticed."""


class Caller(NamedTuple):
    """The client of a request, from the server's side."""

    api_version: int
    client_id: str
    client_host: str = "/127.0.0.1"

    def may_describe(self, topic: TopicName) -> bool:
        """Return True: every topic is authorized."""
        return True


@dataclass
class NetworkFaults:
    """The faults of the network."""

    loss: float = 0.0
    """The share of lost messages."""
    repetition: float = 0.0
    """The share of requests that arrive twice."""
    delay_share: float = 0.0
    """The share of messages that take up to `late_ms`."""
    late_ms: int = 8_000
    usual_ms: int = 40
    """The longest delay of most messages."""


@dataclass(eq=False)
class Call:
    """A request and its callbacks."""

    who: str
    group_id: GroupId
    request: Any
    caller: Caller
    answered: Callable[[Any], object]
    failed: Callable[[], object]
    life: int = -1
    arrivals: int = 0
    deadline: Event | None = None

    @property
    def is_open(self) -> bool:
        """Whether the caller still waits for the response."""
        return self.deadline is not None


class Calls(Protocol):
    """The network as a client uses it."""

    faults: NetworkFaults

    def call(self, call: Call, timeout_ms: int) -> None:
        """Send a request."""

    def forget(self, call: Call) -> None:
        """Ignore the response of a call."""


class Service(Protocol):
    """The server that handles calls."""

    @property
    def life(self) -> int:
        """A number that differs for each process of the server."""

    @property
    def is_up(self) -> bool:
        """Whether the server accepts requests."""

    def serve(self, call: Call, answer: Respond) -> None:
        """Handle a request that has arrived."""


class Network:
    """The network of a world, with all calls in flight."""

    def __init__(
        self, clock: Clock, rng: Random, transcript: Transcript, service: Service
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._transcript = transcript
        self._service = service
        self._open: dict[Call, None] = {}
        self.faults = NetworkFaults()

    def call(self, call: Call, timeout_ms: int) -> None:
        """Send a request."""
        self._note(call.who, "->", call.request)
        self._open[call] = None
        call.life = self._service.life
        call.deadline = self._clock.after(timeout_ms, lambda: self._give_up(call))
        if not self._service.is_up:
            self._clock.after(_REFUSED_MS, lambda: self._give_up(call))
            return
        copies = 2 if self._happens(self.faults.repetition) else 1
        for _ in range(copies):
            self._deliver(lambda: self._arrive(call))

    def forget(self, call: Call) -> None:
        """Ignore the response of a call."""
        if call.deadline is not None:
            call.deadline.cancel()
            call.deadline = None
            self._open.pop(call, None)

    def cut(self) -> None:
        """Fail all calls, because the server crashed."""
        for call in tuple(self._open):
            delay_ms = self._rng.randint(1, _REFUSED_MS)
            self._clock.after(delay_ms, partial(self._give_up, call))

    def _deliver(self, callback: Callable[[], None]) -> None:
        faults = self.faults
        if self._happens(faults.loss):
            return
        longest = faults.usual_ms
        if self._happens(faults.delay_share):
            longest = faults.late_ms
        self._clock.after(self._rng.randint(1, longest), callback)

    def _happens(self, share: float) -> bool:
        return share > 0 and self._rng.random() < share

    def _arrive(self, call: Call) -> None:
        service = self._service
        if service.is_up and service.life == call.life:
            if call.arrivals or not call.is_open:
                self._note(call.who, "is delayed or repeated:", call.request)
            call.arrivals += 1
            service.serve(call, lambda response: self._answer(call, response))

    def _answer(self, call: Call, response: Any) -> None:
        if call.is_open:
            self._deliver(lambda: self._come_back(call, response))

    def _come_back(self, call: Call, response: Any) -> None:
        service = self._service
        if call.is_open and service.life == call.life:
            self.forget(call)
            self._note(call.who, "<-", response)
            call.answered(response)

    def _give_up(self, call: Call) -> None:
        if call.is_open:
            self.forget(call)
            self._note(
                call.who,
                "does not receive the response to its",
                type(call.request).__name__,
            )
            call.failed()

    def _note(self, who: str, what: str, value: Any) -> None:
        self._transcript.add(self._clock.now_ms, who, what, value)
