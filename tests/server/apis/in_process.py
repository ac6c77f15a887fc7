"""A whole server without sockets: calls go straight to the API modules.

`Office().call(request, version)` gives the answer as a client of that version reads it.
Every answer is encoded and decoded on its way. The loop turns only while a call waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from coterie.auth.authorizer import (
    ANONYMOUS,
    Authorizer,
    Caller,
    Operation,
    Principal,
    ResourceType,
)
from coterie.log.memory import MemoryLog
from coterie.protocol.sasl import Authentication
from coterie.runtime.shards import DrivenShard, Phase
from coterie.server.assembly import Assembly
from coterie.server.call import Call
from coterie.server.dispatch import Handler, load_handlers
from coterie.server.node import Node
from coterie.settings import Settings
from coterie.wire.api import ApiKey, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from coterie.wire.schema import Message, Struct

WAIT_S = 10.0
TURNS_MAX = 10_000
SHARDS = 5
HANDLERS: Mapping[int, Handler] = load_handlers()


class Deny:
    """An authorizer that allows everything but what it was told."""

    version = 0

    def __init__(self, *denied: tuple[Operation, ResourceType, str]) -> None:
        self.denied = set(denied)
        self.asked: list[tuple[Operation, ResourceType, str]] = []

    def authorize(
        self,
        caller: Caller,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        self.asked.append((operation, resource_type, name))
        return (operation, resource_type, name) not in self.denied

    def authorize_some(
        self, caller: Caller, operation: Operation, resource_type: ResourceType
    ) -> bool:
        return self.authorize(caller, operation, resource_type, "*")


class OnePeer:
    """A connection that has one request on it."""

    client_host = "/127.0.0.1"
    sasl: Authentication | None = None

    def __init__(
        self,
        node: Node,
        answered: asyncio.Future[Struct | None],
        principal: Principal = ANONYMOUS,
    ) -> None:
        self.node = node
        self.principal = principal
        self._answered = answered

    def answer(self, token: Any, response: Struct | None) -> None:
        assert not self._answered.done(), "a request is answered once"
        self._answered.set_result(response)

    def close(self) -> None:
        raise AssertionError("nothing here closes a connection")

    def refuse(self, token: Any, response: Struct, reason: str) -> None:
        raise AssertionError("nothing here asks who calls")

    def become(self, principal: Principal) -> None:
        raise AssertionError("nothing here asks who calls")

    def compute(self, work: Any, done: Any) -> None:
        raise AssertionError("nothing here asks who calls")


class Office:
    """A server with topics t and u of 4 partitions each, in memory.

    Everything is allowed but what is `denied`, unless another `authorizer` decides.
    Calls are those of `principal`.
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
            CreatableTopic(name=name, num_partitions=4, replication_factor=1)
            for name in ("t", "u")
        ]
        created = self.call(CreateTopicsRequest(topics=topics, timeout_ms=5_000), 7)
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
    def shards(self) -> Sequence[DrivenShard]:
        """All shards of the server."""
        return self.broker.runtime.shards

    def group_in(self, shard: int) -> str:
        """A group id that belongs to a shard."""
        names = (f"group-{number}" for number in range(10_000))
        return next(name for name in names if self.broker.shard_of(name) == shard)

    def topic_id(self, name: str) -> bytes:
        """The id of a topic."""
        topic_id = self.broker.catalog.topic_id(name)
        assert topic_id is not None
        return topic_id

    def send(
        self, request: Message, version: int, node: int = 0
    ) -> asyncio.Future[Struct | None]:
        """Hand in a request as it comes off the wire; its answer to be."""
        received, _ = decode(type(request), version, encode(request, version))
        answered: asyncio.Future[Struct | None] = self.loop.create_future()
        peer = OnePeer(self.broker.nodes[node], answered, self.principal)
        call = Call(received, version, "client", peer, None)
        HANDLERS[request.API_KEY](call)
        return answered

    def call(self, request: Message, version: int, node: int = 0) -> Any:
        """The answer to a request, as a client of that version reads it."""
        answered = self.send(request, version, node)
        waiting = asyncio.wait_for(answered, WAIT_S)
        response = self.loop.run_until_complete(waiting)
        return self.as_read(response, version)

    def as_read(self, response: Struct | None, version: int) -> Any:
        """An answer after its way over the wire."""
        assert isinstance(response, Message)
        assert type(response) is api_of(ApiKey(response.API_KEY)).response
        data = encode(response, version)
        value, end = decode(type(response), version, data)
        assert end == len(data)
        return value

    def turn(self) -> None:
        """Let the loop do what is due, its timers included, and what comes of it."""
        for _ in range(4):
            self.loop.run_until_complete(asyncio.sleep(0))

    def _turn_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(TURNS_MAX):
            if condition():
                return
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
        raise AssertionError("the loop turned for nothing")
