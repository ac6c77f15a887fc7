"""The copy of a server's topics, and what groups of a gateway node learn of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from coterie.broker.server.config import make_settings
from coterie.broker.server.server import Server, ServerOptions
from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.topics import NewTopic
from coterie.client.options import ClientOptions
from coterie.gateway.upstream.catalog_feed import CatalogFeed

from .read_model import ReadModel

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    settings = make_settings({"broker.rack": "x,y"})
    server = Server(
        ServerOptions(settings=settings, host="127.0.0.1", port=0, node_count=2)
    )
    await server.start()
    yield server
    await server.stop()


async def test_topics_of_a_server_are_copied(server: Server) -> None:
    model = ReadModel()
    async with AdminClient(server.addresses, ClientOptions()) as admin:
        broker = server.assembly.broker
        feed = CatalogFeed(admin.cluster, model.data, cluster_id=broker.cluster_id)
        await admin.topics.create([NewTopic("a", 3, replication_factor=2)])
        await feed.start()
        try:
            original = broker.catalog.topics["a"]
            assert model.catalog.topic_id("a") == original.topic_id
            assert model.catalog.partition_racks("a") == tuple(
                broker.catalog.partition_racks("a")
            )
            await admin.topics.create_partitions({"a": 5})
            await feed.poll()
            assert model.catalog.partition_count("a") == 5
            await admin.topics.delete(["a"])
            await admin.topics.create([NewTopic("a", 1)])
            has_changed = asyncio.Event()
            model.take_events()
            model.catalog.watch(lambda _: has_changed.set())
            # A lookup of an unknown topic polls soon.
            assert model.catalog.topic_id("unknown") is None
            async with asyncio.timeout(60):
                while len(model.events) < 2:
                    has_changed.clear()
                    await has_changed.wait()
            assert model.take_events() == ["a created", "a deleted"]
            assert model.counts() == {
                name: topic.partition_count
                for name, topic in broker.catalog.topics.items()
            }
        finally:
            await feed.close()
