"""The network between clients and nodes. A client asks any running node which node owns
its group, remembers the answer, and asks again after NOT_COORDINATOR or a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, Protocol

from coterie.types import GroupId
from coterie.wire.error_codes import ErrorCode
from sim.clock import Clock
from sim.network import Call, Network, NetworkFaults, Service
from sim.transcript import Transcript

_REFUSED_MS = 50
_FIND_AGAIN = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class CoordinatorNode(Service, Protocol):
    """A node, as a client reaches it."""

    @property
    def is_answering(self) -> bool:
        """Whether its process runs and is not stopped."""

    def coordinator_of(self, group_id: GroupId) -> int | None:
        """Return the number of the node that owns a group, by this node's view."""


class ClientNetwork:
    """The clients' connections to all nodes."""

    def __init__(
        self,
        clock: Clock,
        rng: Random,
        transcript: Transcript,
        nodes: Sequence[CoordinatorNode],
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._nodes = nodes
        self.of_nodes = [Network(clock, rng, transcript, node) for node in nodes]
        self._coordinators: dict[tuple[str, GroupId], int] = {}
        self._sent: dict[Call, tuple[Network, Call]] = {}

    @property
    def faults(self) -> NetworkFaults:
        """The faults, the same to all nodes."""
        return self.of_nodes[0].faults

    @faults.setter
    def faults(self, faults: NetworkFaults) -> None:
        for network in self.of_nodes:
            network.faults = faults

    def call(self, call: Call, timeout_ms: int) -> None:
        """Send a request to the node that the client takes for the coordinator."""
        number = self._coordinator(call)
        if number is None:
            event = self._clock.after(_REFUSED_MS, lambda: self._failed(call))
            call.deadline = event
            return
        sent = replace(
            call,
            answered=lambda response: self._answered(call, response),
            failed=lambda: self._failed(call),
        )
        network = self.of_nodes[number]
        self._sent[call] = network, sent
        network.call(sent, timeout_ms)

    def forget(self, call: Call) -> None:
        """Ignore the response of a call."""
        if call.deadline is not None:
            call.deadline.cancel()
        network, sent = self._sent.pop(call, (None, None))
        if network is not None and sent is not None:
            network.forget(sent)

    def _coordinator(self, call: Call) -> int | None:
        key = call.who, call.group_id
        known = self._coordinators.get(key)
        if known is not None:
            return known
        answering = [node for node in self._nodes if node.is_answering]
        if not answering:
            return None
        found = self._rng.choice(answering).coordinator_of(call.group_id)
        if found is not None:
            self._coordinators[key] = found
        return found

    def _answered(self, call: Call, response: Any) -> None:
        self._sent.pop(call, None)
        if any(code in _FIND_AGAIN for code in error_codes(response)):
            self._coordinators.pop((call.who, call.group_id), None)
        call.answered(response)

    def _failed(self, call: Call) -> None:
        self._sent.pop(call, None)
        self._coordinators.pop((call.who, call.group_id), None)
        call.failed()


def error_codes(response: Any) -> set[int]:
    """Return the error codes of a response, also of its partitions."""
    code = getattr(response, "error_code", None)
    if code:
        return {code}
    return {
        each.error_code
        for topic in getattr(response, "topics", None) or ()
        for each in getattr(topic, "partitions", None) or ()
        if getattr(each, "error_code", 0)
    }


def is_from_state(response: Any) -> bool:
    """Return whether a response says anything about a group's state."""
    return not error_codes(response) & _NOT_FROM_STATE


_NOT_FROM_STATE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
