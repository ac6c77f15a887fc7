"""`__consumer_offsets` is a topic like Kafka's, as any admin client would see it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.settings import Settings
from coterie.wire.config_kinds import ResourceKind
from coterie.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from coterie.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.server.apis.in_process import SHARDS, Office

OFFSETS_TOPIC = "__consumer_offsets"


@pytest.fixture
def office() -> Iterator[Office]:
    with Office(node_count=3) as office:
        yield office


@pytest.mark.fact("E22-06")
def test_the_offsets_topic_is_compacted_in_segments_of_100_mib(office: Office) -> None:
    resource = DescribeConfigsResource(
        resource_type=ResourceKind.TOPIC,
        resource_name=OFFSETS_TOPIC,
        configuration_keys=None,
    )
    (result,) = office.call(DescribeConfigsRequest(resources=[resource]), 4).results
    found = {config.name: config.value for config in result.configs}
    assert found["cleanup.policy"] == "compact"
    assert found["segment.bytes"] == str(100 * 1024 * 1024)
    assert found["compression.type"] == "producer"


@pytest.mark.fact("E22-06")
def test_the_offsets_topic_has_a_partition_a_shard_and_is_on_three_nodes(
    office: Office,
) -> None:
    asked = MetadataRequestTopic(name=OFFSETS_TOPIC)
    (topic,) = office.call(MetadataRequest(topics=[asked]), 12).topics
    assert topic.is_internal
    assert len(topic.partitions) == SHARDS
    assert {len(each.replica_nodes) for each in topic.partitions} == {3}
    assert Settings().offsets_topic_num_partitions == 50
