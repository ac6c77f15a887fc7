"""Features of a cluster, on a server."""

from __future__ import annotations

import pytest

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.features import (
    LevelRange,
)
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS

pytestmark = pytest.mark.asyncio


async def test_features_are_described() -> None:
    with ThreadServer() as server:
        host, port = server.addresses[0]
        async with AdminClient(f"{host}:{port}", OPTIONS) as admin:
            found = await admin.features.describe()
    assert found.finalized["group.version"] == 1
    supported = found.supported["group.version"]
    assert supported.low <= 1 <= supported.high
    assert supported == LevelRange(supported.low, supported.high)
