"""A whole server without sockets: requests are passed to the handlers directly.

`InProcessServer().call(request, version)` returns the response as a client of that
version decodes it. The event loop runs only while a call waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

from coterie.auth.acl import (
    ANONYMOUS,
    Operation,
    Principal,
    RequestContext,
    ResourceType,
)
from coterie.auth.authorizer import Authorizer
from coterie.broker.log.memory import MemoryLog
from coterie.broker.protocol.sasl import Authentication
from coterie.broker.runtime.shards import CoordinatorPartition, Phase
from coterie.broker.server.assembly import Assembly
from coterie.broker.server.broker import Node
from coterie.broker.server.call import Call
from coterie.broker.server.dispatch import HANDLERS
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.api import ApiKey, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.commit import CommitResponse, Response, as_received
from coterie.wire.schema import Message, Struct

WAIT_S = 60.0
TURNS_MAX = 10_000
SHARDS = 5


class Deny:
    """An authorizer that allows all operations except the denied ones."""

    version = 0

    def __init__(self, *denied: tuple[Operation, ResourceType, str]) -> None:
        self.denied = set(denied)
        self.checks: list[tuple[Operation, ResourceType, str]] = []

    def authorize(
        self,
        context: RequestContext,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        self.checks.append((operation, resource_type, name))
        return (operation, resource_type, name) not in self.denied

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        return self.authorize(context, operation, resource_type, "*")


class FakePeer:
    """A client connection with one request."""

    client_host = "/127.0.0.1"
    sasl: Authentication | None = None

    def __init__(
        self,
        node: Node,
        answered: asyncio.Future[Response | None],
        principal: Principal = ANONYMOUS,
    ) -> None:
        self.node = node
        self.principal = principal
        self._answered = answered

    def send_response(self, token: Any, response: Response | None) -> None:
        assert not self._answered.done(), "a request is answered once"
        self._answered.set_result(response)

    def hold_requests(self) -> None:
        pass  # there are no later requests

    def run_in_slices(self, token: Any, slices: Iterator[None]) -> None:
        for _ in slices:
            pass

    def fetch_throttle_ms(self, client_id: str, size: int) -> int:
        raise AssertionError("there are no quotas")

    def close(self) -> None:
        raise AssertionError("no handler under test closes a connection")

    def fail_authentication(self, token: Any, response: Struct, reason: str) -> None:
        raise AssertionError("there is no authentication")

    def set_principal(self, principal: Principal) -> None:
        raise AssertionError("there is no authentication")

    def check_password(self, work: Any, done: Any) -> None:
        raise AssertionError("there is no authentication")


class InProcessServer:
    """A server with topics t and u of 4 partitions each, in memory.

    Every operation but the `denied` ones is authorized, unless there is another
    `authorizer`. Requests have the principal `principal`.
    """

    def __init__(
        self,
        *denied: Any,
        node_count: int = 1,
        settings: Settings | None = None,
        authorizer: Authorizer | None = None,
        principal: Principal = ANONYMOUS,
    ) -> None:
        self.settings = settings or Settings()
        self.loop = asyncio.new_event_loop()
        self.log = MemoryLog()
        self.authorizer = Deny(*denied)
        self.principal = principal
        self._authorizer = authorizer or self.authorizer
        self.assembly = self.loop.run_until_complete(self._start(node_count))
        self.broker = self.assembly.broker
        self._turn_until(
            lambda: all(each.phase is Phase.ACTIVE for each in self.shards)
        )
        topics = [
            m.CreatableTopic(name=name, num_partitions=4, replication_factor=1)
            for name in ("t", "u")
        ]
        created = self.call(m.CreateTopicsRequest(topics=topics, timeout_ms=5_000), 7)
        assert [topic.error_code for topic in created.topics] == [0, 0]

    async def _start(self, node_count: int) -> Assembly:
        settings = replace(
            self.settings,
            offsets_topic_num_partitions=SHARDS,
            group_initial_rebalance_delay_ms=0,
        )
        assembly = Assembly(
            settings, self.log, node_count=node_count, authorizer=self._authorizer
        )
        assembly.broker.nodes += [
            Node(number, "localhost", 9092 + number, assembly.broker)
            for number in range(1, node_count + 1)
        ]
        assembly.start()
        return assembly

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.assembly.stop()
        finally:
            self.loop.close()

    @property
    def shards(self) -> Sequence[CoordinatorPartition]:
        """All shards of the server."""
        return self.broker.runtime.shards

    def group_in(self, shard: int) -> str:
        """Return a group id of a shard."""
        names = (f"group-{number}" for number in range(10_000))
        return next(name for name in names if self.broker.shard_of(name) == shard)

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic."""
        topic_id = self.broker.catalog.topic_id(name)
        assert topic_id is not None
        return topic_id

    def send(
        self, request: Message, version: int, node: int = 0
    ) -> asyncio.Future[Response | None]:
        """Handle a request as decoded from the wire; return the future response."""
        received, _ = decode(type(request), version, encode(request, version))
        return self.handle(received, version, node)

    def handle(
        self, received: Message, version: int, node: int = 0
    ) -> asyncio.Future[Response | None]:
        """Handle a decoded request; return the future response."""
        answered: asyncio.Future[Response | None] = self.loop.create_future()
        peer = FakePeer(self.broker.nodes[node], answered, self.principal)
        call = Call(as_received(received, version), version, "client", peer, None)
        HANDLERS[received.API_KEY](call)
        return answered

    def call(self, request: Message, version: int, node: int = 0) -> Any:
        """Return the response to a request, as decoded by a client of that version."""
        answered = self.send(request, version, node)
        waiting = asyncio.wait_for(answered, WAIT_S)
        response = self.loop.run_until_complete(waiting)
        return self.as_read(response, version)

    def as_read(self, response: Response | None, version: int) -> Any:
        """Return a response encoded and decoded again."""
        if isinstance(response, CommitResponse):
            return response.message()
        assert isinstance(response, Message)
        assert type(response) is api_of(ApiKey(response.API_KEY)).response
        data = encode(response, version)
        value, end = decode(type(response), version, data)
        assert end == len(data)
        return value

    def turn(self) -> None:
        """Run the event loop until due callbacks and timers have run."""
        for _ in range(4):
            self.loop.run_until_complete(asyncio.sleep(0))

    def _turn_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(TURNS_MAX):
            if condition():
                return
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
        raise AssertionError("the loop turned for nothing")
