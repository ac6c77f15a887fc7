"""A server of three nodes in a thread of this process, whose authorizer can be told no.

Tests speak to it over real connections, in any version, and may look inside: what they
do there is done in the server's own loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from coterie.auth.authorizer import Operation, Principal, ResourceType
from coterie.log.memory import MemoryLog
from coterie.runtime.router import partition_for
from coterie.runtime.shards import Phase
from coterie.server.broker import Broker
from coterie.server.server import Server, ServerPlan
from coterie.settings import Settings
from coterie.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.schema import Message
from tests.server.harness import WireClient

NODES: Final = 3
SHARDS: Final = 50
WAIT_S: Final = 20.0

Denial = tuple[Operation, ResourceType, str]


class Rules:
    """Allows everything but what a test forbids."""

    def __init__(self) -> None:
        self.version = 0
        self._denied: frozenset[Denial] = frozenset()

    def authorize(
        self,
        principal: Principal,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        return (operation, resource_type, name) not in self._denied

    @contextmanager
    def deny(self, *denied: Denial) -> Iterator[None]:
        self._denied = frozenset(denied)
        self.version += 1
        try:
            yield
        finally:
            self._denied = frozenset()
            self.version += 1


class Live:
    """The server. `call` asks node 1 unless told otherwise."""

    def __init__(self) -> None:
        self.rules = Rules()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        plan = ServerPlan(
            settings=Settings(offsets_topic_num_partitions=SHARDS),
            host="127.0.0.1",
            port=0,
            node_count=NODES,
        )
        self._server = Server(plan, authorizer=self.rules)
        self._await(self._server.start(MemoryLog()))
        nodes = self._server.nodes
        self._clients = [WireClient(node.host, node.port) for node in nodes]

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._await(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    def _await(self, steps: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(steps, self._loop).result(WAIT_S)

    def call(self, request: Message, version: int, *, node: int = 1) -> Any:
        """The answer of a node, by its id."""
        return self._clients[node - 1].call(request, version)

    def call_owner(self, group: str, request: Message, version: int) -> Any:
        """The answer of the node that coordinates the group."""
        return self.call(request, version, node=node_of(group))

    def inside(self, work: Callable[[Broker], Any]) -> Any:
        """Do something in the server's loop; its result."""

        async def run() -> Any:
            return work(self._server.assembly.broker)

        return self._await(run())

    @contextmanager
    def phase(self, group: str, phase: Phase) -> Iterator[None]:
        """The group's shard as if it were loading or stopped."""
        index = partition_for(group, SHARDS)

        def put(broker: Broker, to: Phase) -> None:
            broker.runtime.shards[index].phase = to

        self.inside(lambda broker: put(broker, phase))
        try:
            yield
        finally:
            self.inside(lambda broker: put(broker, Phase.ACTIVE))

    def create_topic(self, name: str) -> None:
        asked = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        response = self.call(CreateTopicsRequest(topics=[asked], timeout_ms=1000), 7)
        assert response.topics[0].error_code == 0

    def commit(self, group: str, topic: str, offset: int = 7) -> None:
        """Commit an offset for partition 0, as a consumer outside of any group does."""
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        asked = OffsetCommitRequestTopic(name=topic, partitions=[partition])
        request = OffsetCommitRequest(group_id=group, topics=[asked])
        response = self.call_owner(group, request, 8)
        assert response.topics[0].partitions[0].error_code == 0


def node_of(group: str) -> int:
    """The id of the node that coordinates the group."""
    return partition_for(group, SHARDS) % NODES + 1


def groups_on(node: int, count: int, prefix: str) -> list[str]:
    """Ids of groups that a node coordinates, each in a shard of its own."""
    found: dict[int, str] = {}
    for number in range(10_000):
        group = f"{prefix}-{number}"
        if node_of(group) == node:
            found.setdefault(partition_for(group, SHARDS), group)
        if len(found) == count:
            return list(found.values())
    raise AssertionError(f"no {count} groups on node {node}")
