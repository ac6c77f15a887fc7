"""Tests for samples of partitions' ends from a server over sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.topics import NewTopic
from coterie.client.cluster import Cluster
from coterie.pipeline.sources.cluster import sample_cluster
from coterie.pipeline.tables.ingested import PARTITION_END_SAMPLES
from tests.broker.server.apis.fake_broker import batch_of, produce_request
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS

BY_NAME = 12


@pytest.fixture
def server() -> Iterator[ThreadServer]:
    with ThreadServer() as server:
        yield server


@pytest.mark.asyncio
async def test_each_partition_of_each_topic_has_a_sample(
    server: ThreadServer,
) -> None:
    bootstrap = "{}:{}".format(*server.addresses[0])
    async with AdminClient(bootstrap, OPTIONS) as admin:
        new_topics = [NewTopic("t", 2, 1), NewTopic("u", 1, 1)]
        (await admin.topics.create(new_topics)).all()
        described = (await admin.topics.describe(["t", "u"])).all()
        with server.client() as client:
            for _ in range(3):
                client.call(produce_request(batch_of(b"a", b"b"), topic="t"), BY_NAME)
        t0, *_ = described["t"].all_partitions
        (await admin.logs.delete_records({t0: 2})).all()
    cluster = Cluster(bootstrap, OPTIONS)
    table = await sample_cluster(cluster)
    await cluster.close()
    assert table.schema == PARTITION_END_SAMPLES.schema
    rows = {(each["topic"], each["partition"]): each for each in table.to_pylist()}
    assert rows.keys() == {("t", 0), ("t", 1), ("u", 0)}
    row = rows["t", 0]
    ends = ("log_start_offset", "high_watermark", "last_stable_offset")
    assert [row[name] for name in ends] == [2, 6, 6]
    assert (row["topic_id"], row["partition_count"]) == (
        (described["t"].topic_id or b"").hex(),
        2,
    )
    assert (row["leader_id"], row["round_trip_ms"] >= 0) == (1, True)
    assert [rows["u", 0][name] for name in ends] == [0, 0, 0]


@pytest.mark.asyncio
async def test_a_cluster_without_topics_has_no_rows(server: ThreadServer) -> None:
    cluster = Cluster("{}:{}".format(*server.addresses[0]), OPTIONS)
    table = await sample_cluster(cluster)
    await cluster.close()
    assert (table.schema, len(table)) == (PARTITION_END_SAMPLES.schema, 0)
