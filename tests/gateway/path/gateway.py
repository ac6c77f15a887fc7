"""A gateway node's data path in a thread, in front of any brokers."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

from coterie.auth.authorizer import Authorizer
from coterie.broker.catalog.topics import NewTopic
from coterie.broker.log.memory import MemoryLog
from coterie.broker.server.assembly import Assembly
from coterie.broker.server.broker import Node
from coterie.broker.server.connections import Connections
from coterie.broker.server.security import Security
from coterie.client.options import ClientOptions
from coterie.gateway.path.addresses import Addresses, UpstreamBroker
from coterie.gateway.path.connection import ClientSide
from coterie.gateway.path.data_path import DataPath
from coterie.gateway.path.group_apis import group_handlers
from coterie.gateway.path.listeners import Listeners
from coterie.gateway.path.sasl import SaslExchange
from coterie.gateway.view import NodeInfo, View
from coterie.settings import Settings
from coterie.types import SecurityProtocol
from coterie.wire import messages as m
from tests.broker.server.harness import WAIT_S, WireClient
from tests.support.ports import free_ports

HOST: Final = "127.0.0.1"
TOPIC: Final = "__coterie_test"


class ThreadGateway:
    """The data path of one node, with a group server in memory that owns all shards.

    With `has_topics` the catalog of the group server has the topics that upstream has
    at the start.
    """

    def __init__(
        self,
        brokers: Iterable[UpstreamBroker],
        *,
        has_topics: bool = True,
        authorizer: Authorizer | None = None,
        tls: ssl.SSLContext | None = None,
        new_exchange: Callable[[], SaslExchange] | None = None,
        protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
        **settings: Any,
    ) -> None:
        self.brokers = list(brokers)
        self.port = 0
        self.own = NodeInfo(name="a", host=HOST, port=0, broker_port=0)
        self.view = View((self.own,), (0,) * 50, 1)
        self._has_topics = has_topics
        self._authorizer = authorizer
        self._options = ClientOptions(ssl=tls)
        self._new_exchange = new_exchange
        self._protocol = protocol
        self._settings = replace(Settings(), **settings)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gateway")
        self.assembly: Assembly
        self.listeners: Listeners
        self.path: DataPath

    def sides(self) -> set[ClientSide]:
        """Return the open connections of clients."""
        return {each for each in self.path.connections if isinstance(each, ClientSide)}

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.run(self._start())
        except BaseException:
            self._end_thread()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.run(self._stop())
        finally:
            self._end_thread()

    async def _start(self) -> None:
        self.assembly = Assembly(
            self._settings, MemoryLog(), authorizer=self._authorizer
        )
        broker = self.assembly.broker
        node = Node(self.own.node_id, HOST, 0, broker, self._protocol)
        broker.nodes.append(node)
        self.assembly.start()
        if self._has_topics:
            await self._loop.run_in_executor(None, self.copy_topics)
        security = Security(
            self._protocol, self._settings, lambda *_: None, lambda *_: None
        )
        connections = Connections(
            self._settings, group_handlers(lambda: self.view), security
        )
        await self._listen(node, connections)

    async def _listen(self, node: Node, connections: Connections) -> None:
        self.port = node.port = free_ports(len(self.brokers) + 3)[0]
        self.own = NodeInfo(
            name="a", host=HOST, port=self.port, broker_port=self.port + 1
        )
        self.view = View((self.own,), (0,) * 50, 1)
        addresses = Addresses(lambda: self.view, self.own)
        addresses.learn(self.brokers)
        self.path = DataPath(
            node,
            connections,
            addresses,
            self._options,
            topic=TOPIC,
            new_exchange=self._new_exchange,
        )
        self.listeners = Listeners(self.path, HOST, self.port)
        await self.listeners.start()

    async def _stop(self) -> None:
        await self.listeners.stop_accepting()
        self.assembly.stop()
        self.listeners.close()
        self.listeners.abort()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    def copy_topics(self) -> None:
        """Add the topics of upstream, with their ids, to the catalog."""
        with WireClient(*self.brokers[0][1:], tls=self._options.ssl) as client:
            listed = client.call(m.MetadataRequest(topics=None), 10).topics
        broker = self.assembly.broker

        async def stage() -> None:
            known = broker.catalog.topics
            entries = [
                broker.catalog.create_topic(
                    NewTopic(name=topic.name, partition_count=len(topic.partitions)),
                    topic.topic_id,
                )
                for topic in listed
                if not topic.is_internal and topic.name not in known
            ]
            broker.data.stage(entries)
            broker.flusher.flush()

        asyncio.run_coroutine_threadsafe(stage(), self._loop).result(WAIT_S)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the gateway's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)

    def client(self, broker: int | None = None, **options: Any) -> WireClient:
        """Connect to the port of a broker by its position, or to coordination."""
        port = self.port if broker is None else self.port + 1 + broker
        return WireClient(HOST, port, **options)


def brokers_of(addresses: Iterable[tuple[str, int]]) -> list[UpstreamBroker]:
    """Return upstream brokers with the ids from 1."""
    return [
        UpstreamBroker(at + 1, host, port) for at, (host, port) in enumerate(addresses)
    ]
