"""Requests of a test to a server in its own process, without a connection.

They go straight to the handlers of the APIs: they are not recorded, meet no fault, and
need no authorization, so that the helpers of a test work on every server and leave no
trace in what the test observes.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from coterie.auth.acl import ANONYMOUS, Operation, Principal, ResourceType
from coterie.broker import HANDLERS, Authentication, Call, Node, Peer, Server
from coterie.errors import ApiError
from coterie.testing.error_responses import error_names
from coterie.types import GroupId
from coterie.wire.commit import Response, as_received, decoded
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message

T = TypeVar("T")
M = TypeVar("M", bound=Message)

CLIENT_ID: Final = "coterie-testing"
TIMEOUT_S: Final = 30.0
"""The time in which the server has to respond, and to load its groups."""
_PAUSE_S: Final = 0.002
_LOADING: Final = frozenset(
    {"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"}
)


class InProcess(ABC):
    """A server in this process, which `request` sends requests to."""

    @abstractmethod
    def call(self, function: Callable[[Server], T]) -> T:
        """Call a function with the server in the server's thread; return its result."""

    @abstractmethod
    def history(self, group: GroupId | None = None) -> str:
        """Return the requests and rebalances of a group, or of all, as a table."""

    def request(
        self,
        message: Message,
        response_type: type[M],
        *,
        version: int | None = None,
        partition: int = 0,
        group: GroupId | None = None,
    ) -> M:
        """Send a request to a node and return its response.

        The node coordinates `group`, or leads the partitions with the index
        `partition`. `version` is the newest by default. The request is repeated while
        the coordinator loads.

        Raises TimeoutError without a response, or while loading, after 30 s.
        """
        if version is None:
            version = message.VERSIONS.high
        deadline = time.monotonic() + TIMEOUT_S

        def start(server: Server) -> Future[Any]:
            broker = server.assembly.broker
            if group is None:
                node = broker.nodes[partition % len(broker.nodes)]
            else:
                coordinator = broker.shard_node(broker.shard_of(group))
                assert coordinator is not None, "the process has all shards"
                node = coordinator
            peer = _Peer(node)
            HANDLERS[message.API_KEY](
                _UnrestrictedCall(
                    as_received(message, version), version, CLIENT_ID, peer, None
                )
            )
            return peer.response

        while True:
            response = self.call(start).result(deadline - time.monotonic())
            # Some handlers respond with arrays that are encoded already.
            whole = decoded(response, version)
            assert isinstance(whole, response_type)
            if _LOADING.isdisjoint(error_names(whole)):
                return whole
            if time.monotonic() > deadline:
                raise TimeoutError(f"the coordinator of {group} is still loading")
            time.sleep(_PAUSE_S)


def check(code: int, what: str, message: str | None = None) -> None:
    """Raise ApiError for an error code, with the message of the response."""
    if code:
        error = ErrorCode(code)
        text = f"{error.name}: {message}" if message else error.name
        raise ApiError(error, f"{what}: {text}")


class _Peer(Peer):
    """The receiver of one response."""

    principal: Principal = ANONYMOUS
    client_host = "/127.0.0.1"
    sasl: Authentication | None = None

    def __init__(self, node: Node) -> None:
        self.node = node
        self.response: Future[Any] = Future()

    def send_response(self, _: Any, response: Response | None) -> None:
        self.response.set_result(response)

    def hold_requests(self) -> None:
        """Do nothing: no request follows before the response."""

    def fetch_throttle_ms(self, client_id: str, size: int) -> int:
        """Return 0: quotas are for the clients of a test."""
        return 0

    def close(self) -> None:
        """Do nothing: there is no connection."""


class _UnrestrictedCall(Call):
    """A call that may do everything."""

    __slots__ = ()

    def authorize(
        self, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        return True

    def authorize_by_resource_type(
        self, operation: Operation, resource_type: ResourceType
    ) -> bool:
        return True
