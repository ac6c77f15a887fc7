"""One decoded request, with the connection it arrived on and the way to respond."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Protocol, TypeAlias

from coterie.auth.acl import (
    CLUSTER_NAME,
    OPERATIONS,
    Operation,
    Principal,
    RequestContext,
    ResourceType,
)
from coterie.broker.protocol.sasl import Authentication
from coterie.broker.server.broker import Node
from coterie.types import GroupId, TopicName
from coterie.wire.commit import Response
from coterie.wire.schema import Struct


class Peer(Protocol):
    """The interface of a client connection that a call uses. A subclass without turns,
    SASL or quotas inherits what follows `close`."""

    node: Node
    principal: Principal
    client_host: str
    sasl: Authentication | None
    """The SASL exchange; None on a listener without SASL."""

    def send_response(self, token: Any, response: Response | None) -> None:
        """Send the response to the request with that token, in request order."""

    def hold_requests(self) -> None:
        """Handle no later request of the connection before the response to this one."""

    def close(self) -> None:
        """Close the connection after the pending responses are sent."""

    def run_in_slices(self, token: Any, slices: Iterator[None]) -> None:
        """Run an iterator that does the work of a request in slices: some of them now,
        and others in later iterations of the event loop. No later request of the
        connection is handled before the response."""
        for _ in slices:
            pass

    def fail_authentication(self, token: Any, response: Struct, reason: str) -> None:
        """Send the response after a delay, log the reason and close the connection."""
        raise AssertionError("the connection has no SASL")

    def set_principal(self, principal: Principal) -> None:
        """Set the principal after a successful authentication."""
        raise AssertionError("the connection has no SASL")

    def check_password(
        self, work: Callable[[], bytes], done: Callable[[Callable[[], bytes]], None]
    ) -> None:
        """Run `work` once the failures of the user and the address allow it, in a
        worker thread if it is slow; then call `done` in the event loop with a function
        that returns the result or raises the error."""
        raise AssertionError("the connection has no SASL")

    def fetch_throttle_ms(self, client_id: str, size: int) -> int:
        """Record a Fetch response with the client's quotas; return the throttle time.

        Called only if there are client quotas.
        """
        raise AssertionError("the connection has no quotas")


class Call:
    """One decoded request.

    `request` is the typed message, decoded in `api_version`. `client_host` has Kafka's
    leading slash. `respond` is called exactly once, now or later.
    """

    __slots__ = (
        "_caller",
        "_token",
        "api_version",
        "client_id",
        "peer",
        "request",
    )

    def __init__(
        self, request: Any, api_version: int, client_id: str, peer: Peer, token: Any
    ) -> None:
        self.request = request
        self.api_version = api_version
        self.client_id = client_id
        self.peer = peer
        self._token = token
        self._caller: RequestContext | None = None

    @property
    def node(self) -> Node:
        """The node that received the request."""
        return self.peer.node

    @property
    def principal(self) -> Principal:
        """The principal of the connection."""
        return self.peer.principal

    @property
    def client_host(self) -> str:
        """The client's address, as in "/127.0.0.1"."""
        return self.peer.client_host

    @property
    def token(self) -> Any:
        """The identity of the request, with which the peer sends its response."""
        return self._token

    # Authorization.

    def authorize(
        self, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return whether an operation on a resource is authorized; count refusals."""
        broker = self.node.broker
        if broker.authorizer.authorize(self._context(), operation, resource_type, name):
            return True
        broker.counts.authorization_refusals[resource_type, operation] += 1
        return False

    def authorize_by_resource_type(
        self, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether an operation is authorized on any resource of the type
        (KIP-679)."""
        authorizer = self.node.broker.authorizer
        return authorizer.authorize_by_resource_type(
            self._context(), operation, resource_type
        )

    def authorize_topic(self, operation: Operation, name: TopicName) -> bool:
        return self.authorize(operation, ResourceType.TOPIC, name)

    def authorize_group(self, operation: Operation, group_id: GroupId) -> bool:
        return self.authorize(operation, ResourceType.GROUP, group_id)

    def authorize_cluster(self, operation: Operation) -> bool:
        return self.authorize(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_describe(self, topic: TopicName) -> bool:
        """Return whether DESCRIBE on a topic is authorized."""
        return self.authorize(Operation.DESCRIBE, ResourceType.TOPIC, topic)

    def authorized_operations(self, resource_type: ResourceType, name: str) -> int:
        """Return the authorized operations on a resource, one bit each (KIP-430)."""
        authorize, context = self.node.broker.authorizer.authorize, self._context()
        return sum(
            1 << operation
            for operation in OPERATIONS[resource_type]
            if authorize(context, operation, resource_type, name)
        )

    def _context(self) -> RequestContext:
        caller = self._caller
        if caller is None:
            peer = self.peer
            caller = RequestContext(peer.principal, peer.client_host.removeprefix("/"))
            self._caller = caller
        return caller

    # Responses.

    def run_in_slices(self, slices: Iterator[None]) -> None:
        """Run an iterator that does work in slices, as `Peer.run_in_slices` does. A
        slice is a tenth of a millisecond at most."""
        self.peer.run_in_slices(self._token, slices)

    def wait(self, end: Callable[[], None]) -> None:
        """Note that the response waits for an event, at most as long as the client
        permits; `end` ends the wait. The test kit does that early."""

    def respond(self, response: Response | None) -> None:
        """Send the response; None when the protocol has none for it (acks=0)."""
        self.peer.send_response(self._token, response)

    def fail_authentication(self, response: Struct, reason: str) -> None:
        """Send the response after `connection.failed.authentication.delay.ms`, log the
        reason and close the connection."""
        self.peer.fail_authentication(self._token, response, reason)

    def close(self) -> None:
        """Close the connection after the pending responses are sent."""
        self.peer.close()


class ObservedCall(Call):
    """A call whose response is passed to `observe` before it is sent; that may return
    an iterator, which observes in slices."""

    __slots__ = ("_call", "_observe")

    def __init__(
        self,
        call: Call,
        observe: Callable[[Response | None], Iterator[None] | None],
    ) -> None:
        super().__init__(
            call.request, call.api_version, call.client_id, call.peer, call.token
        )
        self._call = call
        self._observe = observe

    def respond(self, response: Response | None) -> None:
        """Observe and send the response."""
        slices = self._observe(response)
        if slices is None:
            self._call.respond(response)
        else:
            self.run_in_slices(self._respond_after(slices, response))

    def _respond_after(
        self, slices: Iterator[None], response: Response | None
    ) -> Iterator[None]:
        yield from slices
        self._call.respond(response)


Handler: TypeAlias = Callable[[Call], None]
"""A function that serves the requests of one API; it calls `respond` once, now or
later.
"""


def in_slices(steps: Callable[[Call], Iterator[None]]) -> Handler:
    """Return the handler that runs a generator function in slices.

    The function yields after each item of its request, so that the event loop serves
    other clients while it handles many.
    """

    @wraps(steps)
    def handle(call: Call) -> None:
        call.run_in_slices(steps(call))

    return handle
