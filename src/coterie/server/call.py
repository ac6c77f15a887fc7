"""One request on its way through the server, and the way back for its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from coterie.auth.authorizer import Caller, Operation, Principal, ResourceType
from coterie.protocol.sasl import Authentication
from coterie.types import TopicName
from coterie.wire.schema import Struct

if TYPE_CHECKING:
    from coterie.server.node import Node


class Peer(Protocol):
    """The connection a request came on, as its call sees it."""

    node: Node
    principal: Principal
    client_host: str
    sasl: Authentication | None
    """How far the client has got with saying who it is; None where nobody asks."""

    def answer(self, token: Any, response: Struct | None) -> None:
        """Send the answer to the request of that token, in its turn."""

    def refuse(self, token: Any, response: Struct, reason: str) -> None:
        """Answer so, after a while, and close the connection; the reason is logged."""

    def become(self, principal: Principal) -> None:
        """It is known now who calls."""

    def compute(
        self, work: Callable[[], bytes], done: Callable[[Callable[[], bytes]], None]
    ) -> None:
        """Do work in another thread, then give `done` what returns or raises what
        came of it."""

    def close(self) -> None:
        """Close the connection."""


class Call:
    """One decoded request.

    `request` is the typed message, read in `api_version`. `client_host` has Kafka's
    leading slash. `answer` is called exactly once, now or later; with None, nothing is
    sent (G1-06).
    """

    __slots__ = ("_token", "api_version", "client_id", "peer", "request")

    def __init__(
        self, request: Any, api_version: int, client_id: str, peer: Peer, token: Any
    ) -> None:
        self.request = request
        self.api_version = api_version
        self.client_id = client_id
        self.peer = peer
        self._token = token

    @property
    def node(self) -> Node:
        """The node that was called."""
        return self.peer.node

    @property
    def principal(self) -> Principal:
        """Who calls."""
        return self.peer.principal

    @property
    def client_host(self) -> str:
        """Where the call comes from, as in "/127.0.0.1"."""
        return self.peer.client_host

    @property
    def caller(self) -> Caller:
        """Who calls from where, as authorizers ask."""
        return Caller(self.peer.principal, self.peer.client_host.removeprefix("/"))

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the caller may do this (E27)."""
        authorizer = self.node.broker.authorizer
        return authorizer.authorize(self.caller, operation, resource_type, name)

    def may_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the caller may do this to some resource of the type (KIP-679)."""
        authorizer = self.node.broker.authorizer
        return authorizer.authorize_some(self.caller, operation, resource_type)

    def may_describe(self, topic: TopicName) -> bool:
        """Whether the caller may know of a topic (E14-08)."""
        return self.may(Operation.DESCRIBE, ResourceType.TOPIC, topic)

    def answer(self, response: Struct | None) -> None:
        """Answer the request; None when the protocol has no answer for it."""
        self.peer.answer(self._token, response)

    def refuse(self, response: Struct, reason: str) -> None:
        """Answer so and close the connection, as is done with whoever cannot say who it
        is: after a while. The reason is for the log."""
        self.peer.refuse(self._token, response, reason)

    def close(self) -> None:
        """Close the connection, after what is to be sent on it has been sent."""
        self.peer.close()
