"""The nodes of a gateway as upstream's group describes them, with their statuses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from coterie.cli.main import main
from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.topics import NewTopic
from coterie.client.options import ClientOptions
from coterie.errors import OperationRefused
from coterie.gateway.counts import GatewayCounts
from coterie.gateway.membership import MembershipEvents, NodeMembership
from coterie.gateway.options import GatewayOptions
from coterie.gateway.overview import GatewayOverview, read_overview
from coterie.gateway.preflight import check_upstream
from coterie.gateway.status import ACTIVE, NodeStatus, ShardStatus
from coterie.gateway.view import NodeInfo
from coterie.http_endpoint import Endpoint, Headers, Reply, json_reply
from coterie.settings import Settings
from tests.broker.server.harness import ThreadServer

pytestmark = pytest.mark.slow

SHARDS = 4


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with ThreadServer(group_initial_rebalance_delay_ms=0) as server:
        yield "{}:{}".format(*server.addresses[0])


class Node:
    """A member of the group with a port of its status; all its shards are active."""

    def __init__(self, upstream: str, gateway: str, name: str) -> None:
        self.plan = GatewayOptions(
            settings=Settings(),
            bootstrap=upstream,
            client=ClientOptions(retry_backoff_ms=10, retry_backoff_max_ms=50),
            name=gateway,
            node=name,
            host="127.0.0.1",
            port=0,
            advertised_host="127.0.0.1",
        )
        self._shards: frozenset[int] = frozenset()
        self._endpoint = Endpoint({b"/status": self._status})
        self.is_stopping = False

    async def __aenter__(self) -> Node:
        port = await self._endpoint.start("127.0.0.1", 0)
        plan = self.plan
        info = NodeInfo(
            name=plan.node,
            host=plan.advertised_host,
            port=9192,
            broker_port=9193,
            version="1",
            status_port=port,
        )
        events = MembershipEvents(
            lambda _, shards: setattr(self, "_shards", shards),
            lambda _: None,
            lambda: None,
            self._leave,
        )
        self._membership = NodeMembership(
            plan, info, SHARDS, events, lambda: time.monotonic_ns() // 1_000_000
        )
        await self._membership.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._membership.leave()
        self._endpoint.close()

    async def _leave(self) -> None:
        self._shards = frozenset()

    async def _status(self, _: Headers) -> Reply:
        is_ok, document = NodeStatus(
            gateway=self.plan.name,
            node=self.plan.node,
            version="1",
            cluster_id="cluster",
            view=lambda: self._membership.view,
            shards=lambda: [
                ShardStatus(shard, ACTIVE, 0, 5, 5, 1) for shard in self._shards
            ],
            lease_ms=lambda: 1_000,
            counts=GatewayCounts(),
            is_stopping=self.is_stopping,
        ).document()
        return json_reply(document, is_ok=is_ok)


async def create(upstream: str, topic: str) -> None:
    async with AdminClient(upstream) as admin:
        created = await admin.topics.create([NewTopic(topic, SHARDS)])
        assert not created.errors


async def overview(upstream: str, gateway: str) -> GatewayOverview:
    async with AdminClient(upstream) as admin:
        return await read_overview(admin, gateway, wait_s=30)


def is_complete(found: GatewayOverview) -> bool:
    statuses = [node.status or {} for node in found.nodes]
    active = [shard["shard"] for each in statuses for shard in each.get("shards", ())]
    return sorted(active) == list(range(SHARDS))


@pytest.mark.asyncio
async def test_every_node_has_its_shards_and_its_status(upstream: str) -> None:
    await create(upstream, "__coterie_two")
    async with Node(upstream, "two", "a"), Node(upstream, "two", "b"):
        async with asyncio.timeout(60):
            found = await overview(upstream, "two")
            while len(found.nodes) < 2 or not is_complete(found):
                found = await overview(upstream, "two")
        assert found.is_stable
        assert found.shard_count == SHARDS
        assert [node.info.name for node in found.nodes] == ["a", "b"]
        assert [len(node.shards) for node in found.nodes] == [2, 2]
        assert [node.problem for node in found.nodes] == ["", ""]
    left = await overview(upstream, "two")
    assert (left.nodes, left.is_stable) == ([], False)


@pytest.mark.asyncio
async def test_the_command_shows_the_nodes(
    upstream: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await create(upstream, "__coterie_one")
    async with Node(upstream, "one", "a"):
        words = ["gateway", "status", "--upstream", upstream, "--name", "one"]
        assert await asyncio.to_thread(main, words) == 0
        out, err = capsys.readouterr()
        assert out.splitlines()[1].split()[:5] == ["a", "127.0.0.1", "9192", "4", "4"]
        assert "4 of 4 shards are active on 1 node\n" in err


@pytest.mark.asyncio
async def test_the_name_of_a_node_that_runs_is_refused(upstream: str) -> None:
    compacted = {"cleanup.policy": "compact"}
    async with AdminClient(upstream) as admin:
        await admin.topics.create(
            [NewTopic("__coterie_taken", SHARDS, None, compacted)]
        )
        node = Node(upstream, "taken", "a")
        async with node:
            with pytest.raises(OperationRefused, match=r"runs at 127\.0\.0\.1:9192"):
                await check_upstream(node.plan, admin)
            await check_upstream(replace(node.plan, node="b"), admin)
            node.is_stopping = True
            await check_upstream(node.plan, admin)


@pytest.mark.asyncio
async def test_a_gateway_that_does_not_exist_is_refused(upstream: str) -> None:
    with pytest.raises(OperationRefused, match="name the gateway with --name"):
        await overview(upstream, "none")


@pytest.mark.asyncio
async def test_a_gateway_without_nodes_has_shards_without_owners(
    upstream: str,
) -> None:
    await create(upstream, "__coterie_empty")
    found = await overview(upstream, "empty")
    assert (found.nodes, found.shard_count) == ([], SHARDS)
