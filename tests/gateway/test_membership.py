"""The membership of gateway nodes in a group upstream, which is another Coterie.

COTERIE_TEST_BOOTSTRAP=HOST:PORT selects another broker, such as Apache Kafka.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from coterie.broker.server.config import make_settings
from coterie.client import AdminClient, NewTopic, SyncAdmin
from coterie.client.notifier import Notifier
from coterie.client.options import ClientOptions
from coterie.errors import ApiError, ConnectionLost
from coterie.gateway import membership
from coterie.gateway.membership import MembershipEvents, NodeMembership
from coterie.gateway.options import GatewayOptions
from coterie.gateway.view import NodeInfo, View
from tests.broker.server.harness import ThreadServer

pytestmark = pytest.mark.asyncio

WAIT_S = 60
SHARDS = 6
SESSION_MS = 6_000


@pytest.fixture(autouse=True)
def _heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nodes learn of a rebalance soon."""
    monkeypatch.setattr(membership, "_HEARTBEATS", 150)


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    if elsewhere := os.environ.get("COTERIE_TEST_BOOTSTRAP"):
        yield elsewhere
        return
    with ThreadServer(group_initial_rebalance_delay_ms=0) as server:
        yield "{}:{}".format(*server.addresses[0])


class Node:
    """A node with recorded callbacks."""

    def __init__(self, upstream: str, gateway: str, name: str, **options: Any) -> None:
        self.shards: frozenset[int] = frozenset()
        self.views: list[View] = []
        self.events: list[str] = []
        self.leases: list[int] = []
        self._notifier = Notifier()
        plan = GatewayOptions(
            settings=make_settings({}),
            bootstrap=upstream,
            client=ClientOptions(retry_backoff_ms=10, retry_backoff_max_ms=50),
            name=gateway,
            node=name,
            host="127.0.0.1",
            port=0,
            advertised_host=name,
            session_timeout_ms=SESSION_MS,
        )
        self.plan = plan = dataclasses.replace(plan, **options)
        self.membership = NodeMembership(
            plan,
            NodeInfo(name=name, host=plan.advertised_host, port=9092, broker_port=9093),
            SHARDS,
            MembershipEvents(self._view, self._lease, self._lost, self._leave),
            lambda: time.monotonic_ns() // 1_000_000,
        )

    async def __aenter__(self) -> Node:
        await self.membership.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.membership.leave()

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            await self._notifier.wait_until(is_so)

    @property
    def names(self) -> list[str]:
        return [node.name for node in self.membership.view.nodes]

    def _view(self, view: View, shards: frozenset[int]) -> None:
        self.views.append(view)
        self.shards = shards
        self._add(f"view of {len(view.nodes)}")

    def _lease(self, sent_ms: int) -> None:
        self.leases.append(sent_ms)
        self._notifier.notify()

    def _lost(self) -> None:
        self.shards = frozenset()
        self._add("lost")

    async def _leave(self) -> None:
        self.shards = frozenset()
        self._add("leave")

    def _add(self, event: str) -> None:
        self.events.append(event)
        self._notifier.notify()


@pytest.fixture
def gateway(upstream: str) -> str:
    """The name of a gateway whose topic exists."""
    name = f"member-{uuid4().hex[:8]}"
    with SyncAdmin(upstream) as admin:
        topic = NewTopic(f"__coterie_{name}", partitions=SHARDS, replication_factor=1)
        admin.topics.create([topic]).all()
    return name


async def test_nodes_share_the_shards_evenly_and_move_few(
    upstream: str, gateway: str
) -> None:
    async with Node(upstream, gateway, "a") as a:
        assert a.shards == set(range(SHARDS))
        async with Node(upstream, gateway, "b") as b:
            await b.until(lambda: len(b.shards) == 3)
            await a.until(lambda: a.membership.view == b.membership.view)
            assert len(a.shards) == 3
            released = next(view for view in a.views if len(view.nodes) == 2)
            assert released.owners.count(-1) == 3, "released before they move"
            before = a.shards
            async with Node(upstream, gateway, "c") as c:
                await a.until(lambda: len(a.shards) == 2)
                await b.until(lambda: len(b.shards) == 2)
                await c.until(lambda: len(c.shards) == 2)
                assert a.shards < before
                assert a.shards | b.shards | c.shards == set(range(SHARDS))
                assert not b.membership.view.former
            await a.until(lambda: len(a.shards) == 3)
            await b.until(lambda: len(b.shards) == 3)
            assert a.shards | b.shards == set(range(SHARDS))
            for each in (a, b):
                assert [node.name for node in each.membership.view.former] == ["c"]
        await a.until(lambda: len(a.shards) == SHARDS)
    assert a.events[-1] == "leave"
    assert "lost" not in a.events


async def test_a_node_that_leaves_serves_its_shards_until_the_others_know(
    upstream: str, gateway: str
) -> None:
    async with Node(upstream, gateway, "a") as a:
        b = Node(upstream, gateway, "b")
        await b.membership.start()
        await b.until(lambda: len(b.shards) == 3)
        await a.until(lambda: sorted(a.views[-1].owners) == [0, 0, 0, 1, 1, 1])
        events, views = len(b.events), len(a.views)
        await b.membership.leave()
        assert b.events[events:] == ["leave"], "no other shards, no loss"
        await a.until(lambda: len(a.shards) == SHARDS)
        interim = a.views[views]
        assert [node.name for node in interim.nodes] == ["a", "b"]
        assert interim.owners.count(-1) == 3


async def test_the_lease_is_renewed_with_and_without_a_rebalance(
    upstream: str, gateway: str
) -> None:
    async with Node(upstream, gateway, "a") as a:
        await a.until(lambda: len(a.leases) >= 2)
        async with Node(upstream, gateway, "b") as b:
            await b.until(lambda: len(b.leases) >= 1)
            count = len(a.leases)
            await a.until(lambda: len(a.leases) > count)
        assert a.leases == sorted(a.leases)
        assert a.leases[-1] <= time.monotonic_ns() // 1_000_000


async def test_the_lease_is_not_renewed_without_an_accepted_commit(
    upstream: str, gateway: str
) -> None:
    node = Node(upstream, gateway, "a")
    refusals: list[int] = []

    async def refused(_: object) -> None:
        refusals.append(1)
        node._notifier.notify()
        raise ConnectionLost("the coordinator is cut off from its cluster")

    node.membership._member.commit = refused  # type: ignore[method-assign, assignment]
    async with node:
        await node.until(lambda: len(refusals) >= 2)
        assert node.leases == []


async def test_a_restarted_node_gets_its_shards_without_a_rebalance(
    upstream: str, gateway: str
) -> None:
    async with Node(upstream, gateway, "a"):
        first = Node(upstream, gateway, "b")
        await first.membership.start()
        await first.until(lambda: len(first.shards) == 3)
        generation = first.membership.view.generation
        member = first.membership._member
        await member.leave(for_good=False)  # as a process that was killed
        owned = first.views[-1].owners
        first.membership._renewals.cancel()  # type: ignore[union-attr]
        async with Node(upstream, gateway, "b") as again:
            assert again.membership.view.generation == generation
            assert again.membership.view.owners == owned
            assert len(again.shards) == 3


async def test_a_node_that_returns_with_another_address_tells_all_nodes(
    upstream: str, gateway: str
) -> None:
    async with Node(upstream, gateway, "a") as a:
        first = Node(upstream, gateway, "b")
        await first.membership.start()
        await first.membership._member.leave(for_good=False)
        first.membership._renewals.cancel()  # type: ignore[union-attr]
        async with Node(upstream, gateway, "b", advertised_host="moved"):
            await a.until(
                lambda: [x.host for x in a.membership.view.nodes] == ["a", "moved"]
            )


async def test_a_second_process_with_the_name_ends_the_first(
    upstream: str, gateway: str
) -> None:
    first = Node(upstream, gateway, "a")
    await first.membership.start()
    async with Node(upstream, gateway, "a") as second:
        async with asyncio.timeout(WAIT_S):
            with pytest.raises(ApiError, match="name of its own with --node") as ended:
                await first.membership.ended()
        assert "FENCED_INSTANCE_ID" in str(ended.value)
        assert first.events[-1] == "lost"
        assert len(second.shards) == SHARDS
        with pytest.raises(ApiError, match="FENCED_INSTANCE_ID"):
            await first.membership.leave()


async def test_a_session_time_out_that_upstream_rejects_is_explained(
    upstream: str, gateway: str
) -> None:
    node = Node(upstream, gateway, "a", session_timeout_ms=10_000_000)
    with pytest.raises(ApiError, match=r"--session-timeout 10000000 is outside of"):
        await node.membership.start()


async def test_a_removed_node_loses_its_shards_and_gets_them_again(
    upstream: str, gateway: str
) -> None:
    async with Node(upstream, gateway, "a") as a:
        async with AdminClient(upstream) as admin:
            await admin.groups.remove_members(a.plan.group_id)
        await a.until(lambda: len(a.events) == 3)
        assert a.events == ["view of 1", "lost", "view of 1"]
        assert len(a.shards) == SHARDS
