"""Play a sequence on both servers, and compare every response."""

from __future__ import annotations

import select
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from coterie.wire.api import ApiKey
from coterie.wire.schema import Message
from tests.differential.bind import bind
from tests.differential.compare import (
    Difference,
    Epochs,
    canonical,
    differences,
    group_of,
)
from tests.differential.servers import Connection, Received, Server, wait_until_loaded
from tests.differential.steps import Action, Bindings, Restart, Step, Wait, resolved

_MAY_WAIT: Final = {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}
"""Requests whose responses wait for other members."""
_RESPONSE_S: Final = 20.0
_QUIET_S: Final = 0.025
"""How long no response may arrive until a request counts as waiting for others."""
_ONE_SIDED_S: Final = 2.0
"""How long a response may be missing on one server when the other has answered."""
_OTHERS_S: Final = 0.006


class Found(NamedTuple):
    """A difference: in which request, and both responses.

    `at` is the action that was played when it was found: a request may be answered only
    after others.
    """

    at: int
    step: Step
    request: Any
    difference: Difference
    responses: tuple[Any, Any]

    @property
    def signature(self) -> tuple[str, ...]:
        """What identifies the difference while its sequence is shrunk."""
        kind = self.difference.kind
        codes = kind.endswith("error_code")
        values = (self.difference.kafka, self.difference.coterie) if codes else ()
        return (self.step.api.title, kind, *map(str, values))


@dataclass(slots=True)
class _Flight:
    """A request in flight on both servers, and the responses so far."""

    step: Step
    requests: tuple[Message, Message]
    received: list[Received | None] = field(default_factory=lambda: [None, None])

    @property
    def is_complete(self) -> bool:
        return all(each is not None for each in self.received)

    @property
    def is_one_sided(self) -> bool:
        return not self.is_complete and any(each is not None for each in self.received)


class Play:
    """One play of a sequence: connections of its actors to both servers, and what the
    servers have chosen."""

    def __init__(
        self,
        servers: tuple[Server, Server],
        name: str,
        topics: Iterable[tuple[str, tuple[bytes, bytes]]],
    ) -> None:
        self.name = name
        self.bindings = (Bindings(), Bindings())
        self.found: list[Found] = []
        self.responses: list[tuple[Step, Any]] = []
        self.steps: list[Step] = []
        self._joins = 0
        self._at = 0
        self._servers = servers
        self._connections: dict[str, tuple[Connection, Connection]] = {}
        self._flights: dict[str, _Flight] = {}
        self._epochs = Epochs()
        for topic, ids in topics:
            for bindings, topic_id in zip(self.bindings, ids, strict=True):
                bindings.bind("topic", topic, topic_id)

    def is_busy(self, actor: str) -> bool:
        """Return whether a request of the actor waits for its response."""
        return actor in self._flights

    def play(self, at: int, action: Action) -> None:
        """Play one action; differences are added to `found`."""
        self._at = at
        if isinstance(action, Wait):
            _pause(action.wait_ms)
            self._collect(None)
        elif isinstance(action, Restart):
            self._restart()
        elif not self.is_busy(action.actor):
            self._send(action)
            self._collect(action)
            if action.settle_ms:
                _pause(action.settle_ms)

    def close(self) -> None:
        """Close all connections."""
        for pair in self._connections.values():
            for connection in pair:
                connection.close()
        self._connections.clear()
        self._flights.clear()

    def _restart(self) -> None:
        self.close()
        for server in self._servers:
            server.restart()
        for server in self._servers:
            wait_until_loaded(server)

    def _send(self, step: Step) -> None:
        if step.actor not in self._connections:
            kafka, coterie = self._servers
            self._connections[step.actor] = (
                Connection(kafka, step.user),
                Connection(coterie, step.user),
            )
        kafka_request, coterie_request = (
            resolved(step.request, bindings, self.name) for bindings in self.bindings
        )
        requests = (kafka_request, coterie_request)
        self.steps.append(step)
        self._flights[step.actor] = _Flight(step, requests)
        pair = self._connections[step.actor]
        client_id = self._client_id(step, kafka_request)
        for connection, request in zip(pair, requests, strict=True):
            connection.send(request, step.version, client_id)

    def _client_id(self, step: Step, request: Any) -> str:
        """Return the actor's name, with a number where a member id is made from it:
        the order of members then is the same on both servers."""
        if step.api is ApiKey.JOIN_GROUP and not request.member_id:
            self._joins += 1
        return f"{step.actor}.{self._joins:03}"

    def _collect(self, step: Step | None) -> None:
        """Receive until the step is answered or waits for others on both servers, and
        no other request is answered by one server only."""
        while self._flights:
            flight = self._flights.get(step.actor) if step else None
            one_sided = any(each.is_one_sided for each in self._flights.values())
            if flight and step and step.api not in _MAY_WAIT:
                patience = _RESPONSE_S
            elif one_sided:
                patience = _ONE_SIDED_S
            elif flight or step is None:
                patience = _QUIET_S
            else:
                patience = _OTHERS_S
            if not self._receive(patience):
                break
        for actor, flight in list(self._flights.items()):
            if flight.is_one_sided:
                self._end(actor, flight)

    def _receive(self, patience_s: float) -> bool:
        """Receive what arrives; return whether something did in time."""
        waiting = {
            connection.socket: (actor, side)
            for actor in self._flights
            for side, connection in enumerate(self._connections[actor])
            if self._flights[actor].received[side] is None
        }
        ready, _, _ = select.select(list(waiting), [], [], patience_s)
        for each in ready:
            actor, side = waiting[each]
            flight = self._flights[actor]
            flight.received[side] = self._connections[actor][side].receive()
            if flight.is_complete:
                self._end(actor, flight)
        return bool(ready)

    def _end(self, actor: str, flight: _Flight) -> None:
        """Compare the responses of a request, and keep what the servers have chosen."""
        del self._flights[actor]
        kafka, coterie = flight.received
        messages = [each.message if each else None for each in (kafka, coterie)]
        answers = [_kind_of(each) for each in (kafka, coterie)]
        if None in messages:
            for connection in self._connections.pop(actor):
                connection.close()
        if answers[0] != answers[1]:
            self._add(flight, Difference("answer", *answers), messages)
            return
        for received in (kafka, coterie):
            if received is not None and received.disagreement:
                disagreement = Difference("codec", "agree", received.disagreement)
                self._add(flight, disagreement, messages)
        if messages[0] is None:
            return
        for bindings, request, message in zip(
            self.bindings, flight.requests, messages, strict=True
        ):
            bind(bindings, actor, request, message, self.name)
        self._compare(flight, messages)
        self.responses.append((flight.step, messages[0]))

    def _compare(self, flight: _Flight, messages: Sequence[Message | None]) -> None:
        group = group_of(flight.requests[0])
        if flight.step.api in {ApiKey.JOIN_GROUP, ApiKey.DELETE_GROUPS}:
            # The group may begin again, or change its protocol.
            self._epochs.shifts.clear()
        kafka, coterie = (
            canonical(message, bindings, self.name)
            for message, bindings in zip(messages, self.bindings, strict=True)
        )
        for difference in differences(kafka, coterie, self._epochs, group):
            self._add(flight, difference, (kafka, coterie))

    def _add(
        self, flight: _Flight, difference: Difference, responses: Sequence[Any]
    ) -> None:
        kafka, coterie = responses
        request = flight.requests[0]
        found = Found(self._at, flight.step, request, difference, (kafka, coterie))
        self.found.append(found)


def _pause(pause_ms: int) -> None:
    """Give timers and background work of both servers their time."""
    select.select([], [], [], pause_ms / 1000)


def _kind_of(received: Received | None) -> str:
    if received is None:
        return "nothing"
    return "closed" if received.message is None else "response"
