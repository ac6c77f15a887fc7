"""The API versions of brokers."""

from __future__ import annotations

import pytest

from coterie.client.admin.admin_client import AdminClient
from coterie.errors import ConnectionLost
from coterie.wire.api import ADVERTISED
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS


@pytest.mark.asyncio
async def test_each_broker_has_its_versions_or_an_error() -> None:
    with ThreadServer(node_count=2) as server:
        host, port = server.addresses[0]
        async with AdminClient(f"{host}:{port}", OPTIONS) as admin:
            nodes = [each.node_id for each in (await admin.brokers.describe()).nodes]
            every = await admin.brokers.describe_api_versions()
            some = await admin.brokers.describe_api_versions([nodes[0], 99])
    assert sorted(every.all()) == sorted(nodes)
    assert every.one(nodes[1]) == {int(key): each for key, each in ADVERTISED.items()}
    assert list(some.values) == [nodes[0]]
    assert isinstance(some.errors[99], ConnectionLost)
