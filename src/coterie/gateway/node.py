"""One node of a gateway, assembled from its parts; from start to drain.

    cluster id, topic -> group server -> ports -> membership -> shards

The ports are open before the node joins, as its addresses are part of its membership.
Until it owns a shard, it responds with NOT_COORDINATOR and forwards everything else.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Final

from coterie.auth.authorizer import AllowAll, Authorizer
from coterie.broker import (
    Broker,
    Connections,
    Handler,
    Node,
    Security,
    Slices,
    acl_authorizer,
    choose_authorizer,
    group_server,
    suspended_clock,
    tune_interpreter,
    wall_clock,
)
from coterie.client import AdminClient, Cluster
from coterie.errors import CoterieError
from coterie.gateway.adoption import Adoption
from coterie.gateway.counts import GatewayCounts
from coterie.gateway.log.opening import LogContext, Opening
from coterie.gateway.membership import MembershipEvents, NodeMembership
from coterie.gateway.mirror import Mirror
from coterie.gateway.options import AuthorizerKind, GatewayOptions
from coterie.gateway.ownership import Ownership
from coterie.gateway.path.addresses import Addresses
from coterie.gateway.path.data_path import DataPath
from coterie.gateway.path.group_apis import group_handlers
from coterie.gateway.path.listeners import Listeners
from coterie.gateway.path.sasl import SaslExchange
from coterie.gateway.path.topic_waits import waiting_for_topics
from coterie.gateway.status import NodeStatus
from coterie.gateway.transactions import GatewayTransactions
from coterie.gateway.upstream.acls import AclFeed
from coterie.gateway.upstream.catalog_feed import CatalogFeed, Listing
from coterie.gateway.upstream.client import UpstreamClient
from coterie.gateway.upstream.group_configs import GroupConfigFeed
from coterie.gateway.upstream.topic import ShardsTopic, open_topic
from coterie.gateway.upstream.transactions import TransactionClient
from coterie.gateway.view import NO_VIEW, NodeInfo, View
from coterie.portable_os import STOP_SIGNALS, handle_signals
from coterie.types import SecurityProtocol

_LOGGER = logging.getLogger(__name__)

MARGIN: Final = 0.1
"""The share of the session time-out by which a lease ends before the session."""
_FREE_PORT_TRIES: Final = 20
_LOOKUP_MS: Final = 10_000
"""The limit for a lookup or a commit of a client's group upstream."""
CLOSE_S: Final = 2.0
"""The limit for the responses that clients wait for when a node stops."""
_CLOSE_CHECK_S: Final = 0.02
DRAIN_S: Final = 10.0
"""The limit for the writes in progress when a node is drained."""


class Gateway:
    """A running node. `start` and `stop` are called in the same event loop."""

    broker: Broker
    """The group server, from `start` on."""
    ownership: Ownership
    """The shards of this node, from `start` on."""
    _info: NodeInfo
    _listeners: Listeners
    _brokers: Listing
    _connections: Connections

    def __init__(self, plan: GatewayOptions) -> None:
        self.plan = plan
        self.counts = GatewayCounts()
        self._running = AsyncExitStack()
        self._is_stopped = False
        self._membership: NodeMembership | None = None
        self._mirror: Mirror | None = None
        self._addresses: Addresses | None = None
        self._status: NodeStatus | None = None

    @property
    def membership(self) -> NodeMembership:
        """The membership of this node, after `start`."""
        assert self._membership is not None
        return self._membership

    @property
    def view(self) -> View:
        """The nodes and owners, as this node knows them."""
        return NO_VIEW if self._membership is None else self._membership.view

    @property
    def address(self) -> str:
        """The advertised address of coordination."""
        info = self._info
        host = f"[{info.host}]" if ":" in info.host else info.host
        return f"{host}:{info.port}"

    async def start(self) -> None:
        """Join the nodes, take over shards, and accept connections.

        Raises ClientError when upstream cannot be reached, SettingError for settings
        that do not fit it, OSError when a port is unavailable, and ApiError when
        upstream rejects the node.
        """
        try:
            await self._start()
        except BaseException:
            await self._running.aclose()
            raise

    async def _start(self) -> None:
        plan, running = self.plan, self._running
        cluster = Cluster(plan.bootstrap, plan.client)
        running.push_async_callback(cluster.close)
        topic = await self._open_topic()
        await self._start_group_server(cluster, topic)
        self._adopt_and_mirror()
        upstream = UpstreamClient(plan.bootstrap, plan.client, topic.name)
        upstream.counts = self.counts
        running.push_async_callback(upstream.close)
        await upstream.start()
        handlers = self._make_handlers(topic)
        await self._listen(cluster, topic, handlers)
        self._own(upstream, topic)
        await self._start_monitor(topic)
        await self._join(topic)

    async def _open_topic(self) -> ShardsTopic:
        plan = self.plan
        async with AdminClient(plan.bootstrap, plan.client) as admin:
            return await open_topic(
                admin,
                plan.topic,
                partition_count=plan.partition_count,
                replication_factor=plan.replication_factor,
            )

    async def _start_group_server(self, cluster: Cluster, topic: ShardsTopic) -> None:
        """Make the group server and copy what it needs of upstream."""
        running = self._running
        authorizer = _authorizer(self.plan)
        broker = self.broker = group_server(
            self.plan.settings, topic.cluster_id, authorizer
        )
        topics = self._topics = CatalogFeed(
            cluster, broker.data, cluster_id=topic.cluster_id
        )
        topics.on_brokers = self._learn_brokers
        running.push_async_callback(topics.close)
        await topics.start()
        if self.plan.authorizer is AuthorizerKind.UPSTREAM:
            assert broker.acls is not None
            acls = AclFeed(cluster, broker.data, broker.acls)
            running.push_async_callback(acls.close)
            await acls.start()
        configs = GroupConfigFeed(cluster, broker.data)
        running.push_async_callback(configs.close)
        await configs.start()
        broker.runtime.start(topic.partition_count, topic.name)

    def _learn_brokers(self, listing: Listing) -> None:
        """Open the ports of new brokers."""
        self._brokers = listing
        if self._addresses is not None:
            self._addresses.learn(listing.brokers)
            self._addresses.learn_ids(listing.replicas)

    def _adopt_and_mirror(self) -> None:
        """Adopt the groups of upstream and repeat commits there, as the plan says."""
        plan, running, broker = self.plan, self._running, self.broker
        if not plan.is_adopting and plan.mirror_interval_ms is None:
            return
        limit_ms = min(plan.client.api_timeout_ms, _LOOKUP_MS)
        client = replace(plan.client, api_timeout_ms=limit_ms)
        admin = AdminClient(plan.bootstrap, client)
        running.push_async_callback(admin.close)
        if plan.is_adopting:
            adoption = Adoption(broker, admin, self.counts.adoptions)
            running.push_async_callback(adoption.close)
            broker.admit = adoption.admit
        if plan.mirror_interval_ms is not None:
            interval_s = plan.mirror_interval_ms / 1000
            self._mirror = Mirror(
                broker.runtime, admin, interval_s, self.counts.mirrored
            )
            running.push_async_callback(self._mirror.close)
            self._mirror.start()

    def _make_handlers(self, topic: ShardsTopic) -> Mapping[int, Handler]:
        """Return the handlers of the APIs that the node serves itself."""
        plan = self.plan
        client = TransactionClient(plan.bootstrap, plan.client, topic.name)
        self._running.push_async_callback(client.close)
        transactions = GatewayTransactions(
            self.broker.runtime, client, asyncio.get_running_loop()
        )
        handlers = {**group_handlers(lambda: self.view), **transactions.handlers}
        return waiting_for_topics(handlers, self._topics.refresh)

    async def _listen(
        self, cluster: Cluster, topic: ShardsTopic, handlers: Mapping[int, Handler]
    ) -> None:
        """Open the ports. Raises OSError when one is unavailable."""
        plan = self.plan
        tries = _FREE_PORT_TRIES if plan.port == 0 else 1
        while True:
            tries -= 1
            port = plan.port or _free_port(plan.host)
            listeners = self._make_listeners(port, topic, handlers)
            try:
                await listeners.start()
            except OSError:
                await _close(listeners)
                if not tries:
                    raise
            else:
                break
        listeners.log_ports()
        self._listeners = listeners
        self._running.push_async_callback(_close, listeners)

    def _make_listeners(
        self,
        port: int,
        topic: ShardsTopic,
        handlers: Mapping[int, Handler],
    ) -> Listeners:
        plan, broker = self.plan, self.broker
        advertised = plan.advertised_port or port
        info = self._info = NodeInfo(
            name=plan.node,
            host=plan.advertised_host,
            port=advertised,
            broker_port=advertised + 1,
            version=version("coterie"),
        )
        node = Node(info.node_id, info.host, info.port, broker)
        broker.nodes[:] = [node]
        addresses = self._addresses = Addresses(lambda: self.view, info)
        self._learn_brokers(self._brokers)
        info.brokers = list(addresses.ids)
        connections = Connections(plan.settings, handlers, _security(plan))
        needs_principal = not isinstance(broker.authorizer, AllowAll)

        def new_exchange() -> SaslExchange:
            return SaslExchange(broker.clock, needs_principal=needs_principal)

        self._connections = connections
        path = DataPath(
            node,
            connections,
            addresses,
            plan.client,
            topic=topic.name,
            new_exchange=new_exchange if plan.protocol.has_sasl else None,
        )
        path.counts = self.counts
        return Listeners(path, plan.host, port)

    def _own(self, upstream: UpstreamClient, topic: ShardsTopic) -> None:
        """Prepare for owning shards."""
        plan = self.plan
        loop = asyncio.get_running_loop()

        def fenced(index: int) -> None:
            self.ownership.fenced(index)

        context = LogContext(
            runtime=self.broker.runtime,
            upstream=upstream,
            topic=topic,
            node=plan.node,
            transactional_id=plan.transactional_id,
            scheduler=loop,
            steady=self.broker.clock,
            wall=wall_clock,
            slices=Slices(loop),
            fenced=fenced,
            counts=self.counts,
        )
        self.ownership = Ownership(
            self.broker.runtime,
            lambda index: Opening(context, index).opened,
            clock=suspended_clock,
            scheduler=loop,
            lease_ms=int(plan.session_timeout_ms * (1 - MARGIN)),
            counts=self.counts,
        )

    async def _start_monitor(self, topic: ShardsTopic) -> None:
        """Open the port of metrics and the status, and tell other nodes of it."""
        if self.plan.metrics_port is None:
            return
        # Imported here, as the library of metrics delays the start of other nodes.
        from coterie.gateway.monitor import shard_statuses, start_monitor

        ownership, broker = self.ownership, self.broker
        self._status = NodeStatus(
            gateway=self.plan.name,
            node=self.plan.node,
            version=self._info.version,
            cluster_id=topic.cluster_id,
            view=lambda: self.view,
            shards=lambda: list(shard_statuses(ownership, broker, suspended_clock)),
            lease_ms=lambda: ownership.lease.remaining_ms,
            counts=self.counts,
        )
        port, stop = await start_monitor(
            self.plan, self._status, broker, self._connections
        )
        self._running.callback(stop)
        self._info.status_port = port

    async def _join(self, topic: ShardsTopic) -> None:
        """Join the nodes; shards are taken over in the background from then on."""
        ownership = self.ownership
        events = MembershipEvents(
            on_view=lambda _, shards: ownership.assigned(shards),
            on_lease=ownership.heartbeat_answered,
            on_lost=ownership.lost,
            on_leave=self._drain,
        )
        self._membership = NodeMembership(
            self.plan, self._info, topic.partition_count, events, suspended_clock
        )
        await self._membership.start()

    async def _drain(self) -> None:
        """Release all shards once their writes are durable."""
        drained = asyncio.Event()
        self.ownership.drain(drained.set)
        try:
            async with asyncio.timeout(DRAIN_S):
                await drained.wait()
        except TimeoutError:
            _LOGGER.warning("some writes took longer than %.0f s: released", DRAIN_S)
            self.ownership.lost()

    async def stop(self) -> None:
        """Give the shards to other nodes, then close all connections."""
        if self._is_stopped:
            return
        self._is_stopped = True
        if self._status is not None:
            self._status.is_stopping = True
        _LOGGER.info("draining: the shards of this node move to others")
        if self._mirror is not None:
            await self._mirror.finish(DRAIN_S)
        try:
            await self.membership.leave()
        except CoterieError as error:
            _LOGGER.warning("leaving the nodes failed: %s", error)
        else:
            _LOGGER.info("drained: this node has left the group of the nodes")
        finally:
            await self._running.aclose()


async def serve(plan: GatewayOptions, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then drain; a second signal stops at once.

    `ready` is called with the address of coordination once clients can connect. Raises
    the errors of `Gateway.start` and `NodeMembership.ended`.
    """
    stopped = asyncio.Event()
    with ExitStack() as handlers:
        handlers.enter_context(handle_signals(STOP_SIGNALS, lambda _: stopped.set()))
        gateway = Gateway(plan)
        if not await _unless(stopped, gateway.start()):
            return
        tune_interpreter()
        ready(gateway.address)
        try:
            await _unless(stopped, gateway.membership.ended())
        finally:
            handlers.close()
            await gateway.stop()


async def _unless(stopped: asyncio.Event, job: Coroutine[Any, Any, None]) -> bool:
    """Wait for a job, which is cancelled when `stopped` is set; return whether it has
    ended by itself. Raises the job's error."""
    working = asyncio.ensure_future(job)
    stopping = asyncio.ensure_future(stopped.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if working.done():
        working.result()
        return True
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    return False


def _authorizer(plan: GatewayOptions) -> Authorizer:
    if plan.authorizer is AuthorizerKind.UPSTREAM:
        return acl_authorizer(plan.settings)
    if plan.authorizer is AuthorizerKind.OWN:
        return choose_authorizer(plan.settings, [plan.host])
    return AllowAll()


def _security(plan: GatewayOptions) -> Security:
    """Return the TLS of the listeners. SASL is between the clients and upstream."""
    protocol, settings = plan.protocol, plan.settings
    if protocol.has_sasl:
        settings = replace(settings, ssl_client_auth="none")
    plain = SecurityProtocol.SSL if protocol.has_tls else SecurityProtocol.PLAINTEXT
    return Security(plain, settings, lambda *_: None, lambda *_: None)


def _free_port(host: str) -> int:
    """Return a port that was free a moment ago, for a node on any ports."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


async def _close(listeners: Listeners) -> None:
    """Close the ports, and connections once the responses that they wait for are sent,
    or after a while."""
    await listeners.stop_accepting()
    listeners.close()
    for _ in range(round(CLOSE_S / _CLOSE_CHECK_S)):
        if not listeners.path.connections:
            break
        await asyncio.sleep(_CLOSE_CHECK_S)
    listeners.abort()
    await asyncio.sleep(0)
