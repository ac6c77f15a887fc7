"""Log directories and the sizes of replicas, on a server of two nodes."""

from __future__ import annotations

import pytest

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.topics import NewTopic
from coterie.errors import ConnectionLost
from coterie.types import TopicPartition
from tests.broker.server.apis.fake_broker import batch_of, produce_request
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS

BY_NAME = 12


@pytest.mark.asyncio
async def test_sizes_are_known_by_node_and_an_unknown_node_has_an_error() -> None:
    with ThreadServer(node_count=2) as server:
        host, port = server.addresses[0]
        async with AdminClient(f"{host}:{port}", OPTIONS) as admin:
            (await admin.topics.create([NewTopic("t", 1, 1)])).all()
            (topic,) = (await admin.topics.describe(["t"])).all().values()
            leader = topic.partitions[0].leader_id
            nodes = [each.node_id for each in (await admin.brokers.describe()).nodes]
            with server.client(nodes.index(leader)) as client:
                batch = batch_of(b"a", b"b")
                client.call(produce_request(batch, topic="t"), BY_NAME)
            described = await admin.brokers.describe_log_dirs()
            missing = await admin.brokers.describe_log_dirs([99])
    assert sorted(described.all()) == sorted(nodes)
    (log_dir,) = described.one(leader)
    assert log_dir.sizes[TopicPartition("t", 0)] == len(batch)
    assert log_dir.error is None
    assert isinstance(missing.errors[99], ConnectionLost)
