"""`__consumer_offsets` as admin clients describe it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.configs import ConfigResourceType
from tests.broker.server.apis.in_process_server import SHARDS, InProcessServer

OFFSETS_TOPIC = "__consumer_offsets"


@pytest.fixture
def server() -> Iterator[InProcessServer]:
    with InProcessServer(node_count=3) as server:
        yield server


@pytest.mark.fact("E22-06a", "E22-06b", "E22-06c")
def test_the_offsets_topic_is_compacted_in_segments_of_100_mib(
    server: InProcessServer,
) -> None:
    resource = m.DescribeConfigsResource(
        resource_type=ConfigResourceType.TOPIC,
        resource_name=OFFSETS_TOPIC,
        configuration_keys=None,
    )
    (result,) = server.call(m.DescribeConfigsRequest(resources=[resource]), 4).results
    found = {config.name: config.value for config in result.configs}
    assert found["cleanup.policy"] == "compact"
    assert found["segment.bytes"] == str(100 * 1024 * 1024)
    assert found["compression.type"] == "producer"


@pytest.mark.fact("E22-06e")
def test_the_offsets_topic_has_one_partition_per_shard_and_three_replicas(
    server: InProcessServer,
) -> None:
    asked = m.MetadataRequestTopic(name=OFFSETS_TOPIC)
    (topic,) = server.call(m.MetadataRequest(topics=[asked]), 12).topics
    assert topic.is_internal
    assert len(topic.partitions) == SHARDS
    assert {len(each.replica_nodes) for each in topic.partitions} == {3}
    assert Settings().offsets_topic_num_partitions == 50


@pytest.mark.fact("E22-06d")
def test_the_offsets_topic_has_50_partitions_by_default() -> None:
    assert Settings().offsets_topic_num_partitions == 50
