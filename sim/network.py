"""What lies between members and the server: messages are lost, late, doubled and out of
order.

A call is one request and its answer. A caller that hears nothing in time gives up and
does not listen to what still comes; its request may yet arrive, be it after the next
one, as after a lost connection. When the server dies, every message on its way to or
from it is gone, and the callers soon know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from coterie.runtime.deferred import Answer
from coterie.types import GroupId, TopicName
from sim.clock import Clock, Event
from sim.transcript import Transcript

_REFUSED_MS: Final = 50
"""How long it takes to know that nobody listens."""


class Caller(NamedTuple):
    """What the server knows of a client."""

    api_version: int
    client_id: str
    client_host: str = "/127.0.0.1"

    def may_describe(self, topic: TopicName) -> bool:
        """It may know of every topic."""
        return True


@dataclass
class Weather:
    """What the network does to a message."""

    loss: float = 0.0
    """The share of messages that never arrive."""
    doubling: float = 0.0
    """The share of requests that arrive twice."""
    lateness: float = 0.0
    """The share of messages that take up to `late_ms`."""
    late_ms: int = 8_000
    usual_ms: int = 40
    """What most messages take, at most."""


@dataclass(eq=False)
class Call:
    """One request on its way, or served."""

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
        """Whether somebody waits for the answer."""
        return self.deadline is not None


class Service(Protocol):
    """Who serves calls."""

    @property
    def life(self) -> int:
        """Another number for each life of the server."""

    @property
    def is_up(self) -> bool:
        """Whether anybody listens."""

    def serve(self, call: Call, answer: Answer) -> None:
        """Handle a request that has arrived."""


class Network:
    """All calls of a world."""

    def __init__(
        self, clock: Clock, rng: Random, transcript: Transcript, service: Service
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._transcript = transcript
        self._service = service
        self._open: dict[Call, None] = {}
        self.weather = Weather()

    def call(self, call: Call, timeout_ms: int) -> None:
        """Send a request."""
        self._note(call.who, "->", call.request)
        self._open[call] = None
        call.life = self._service.life
        call.deadline = self._clock.after(timeout_ms, lambda: self._give_up(call))
        if not self._service.is_up:
            self._clock.after(_REFUSED_MS, lambda: self._give_up(call))
            return
        copies = 2 if self._happens(self.weather.doubling) else 1
        for _ in range(copies):
            self._deliver(lambda: self._arrive(call))

    def forget(self, call: Call) -> None:
        """Nobody waits for the answer any more."""
        if call.deadline is not None:
            call.deadline.cancel()
            call.deadline = None
            self._open.pop(call, None)

    def cut(self) -> None:
        """The server died: nobody will answer."""
        for call in tuple(self._open):
            delay_ms = self._rng.randint(1, _REFUSED_MS)
            self._clock.after(delay_ms, partial(self._give_up, call))

    def _deliver(self, callback: Callable[[], None]) -> None:
        weather = self.weather
        if self._happens(weather.loss):
            return
        longest = weather.usual_ms
        if self._happens(weather.lateness):
            longest = weather.late_ms
        self._clock.after(self._rng.randint(1, longest), callback)

    def _happens(self, share: float) -> bool:
        return share > 0 and self._rng.random() < share

    def _arrive(self, call: Call) -> None:
        service = self._service
        if service.is_up and service.life == call.life:
            if call.arrivals or not call.is_open:
                self._note(call.who, "is heard late or again:", call.request)
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
            self._note(call.who, "hears nothing of its", type(call.request).__name__)
            call.failed()

    def _note(self, who: str, what: str, value: Any) -> None:
        self._transcript.add(self._clock.now_ms, who, what, value)
