"""Metadata, DescribeCluster and DescribeTopicPartitions: what clients find out."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.server.apis import (
    describe_cluster,
    describe_topic_partitions,
    metadata,
)
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.describe_cluster import DescribeClusterRequest
from coterie.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from coterie.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.wire.schema import ZERO_UUID
from tests.data.world import World

NEWEST = 13


class Only:
    """An authorizer that lets only some operations on some names pass."""

    def __init__(self, *allowed: tuple[str, str]) -> None:
        self._allowed = allowed

    def authorize(self, _: object, operation: Any, __: object, name: str) -> bool:
        return (operation.name, name) in self._allowed


@pytest.fixture
def world() -> World:
    return World()


def describe(
    world: World, *names: str | None, version: int = NEWEST, **options: Any
) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return world.call(metadata, MetadataRequest(topics=topics, **options), version)


def test_a_missing_topic_is_made_and_described(world: World) -> None:
    [topic] = describe(world, "a").topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "a", False)
    assert topic.topic_id == world.catalog.topic_id("a")
    [part] = topic.partitions
    assert (part.leader_id, part.leader_epoch) == (1, 0)
    assert (part.replica_nodes, part.isr_nodes) == ([1], [1])


def test_it_is_not_answered_before_it_is_durable(world: World) -> None:
    world.loop.holds = True
    request = MetadataRequest(topics=[MetadataRequestTopic(name="a")])
    call = world.start_call(metadata, request, NEWEST)
    assert call.answers == []
    world.loop.release()
    assert call.response.topics[0].error_code == 0


@pytest.mark.parametrize("by", ["setting", "request"])
def test_a_topic_is_not_made_where_that_is_not_wanted(by: str) -> None:
    world = World(auto_create_topics_enable=by != "setting")
    [topic] = describe(world, "a", allow_auto_topic_creation=by != "request").topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.catalog.topics == {}


def test_a_full_disk_makes_no_topic_on_the_way(world: World) -> None:
    world.fail_next_write()
    [topic] = describe(world, "a").topics
    assert topic.error_code != 0
    assert describe(world, "a").topics[0].error_code == 0


def test_a_topic_without_name_or_id_is_refused(world: World) -> None:
    [topic] = describe(world, None, version=12).topics
    assert topic.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("may_be_made", [True, False])
def test_an_impossible_name_is_refused(world: World, may_be_made: bool) -> None:
    [topic] = describe(world, "a b", allow_auto_topic_creation=may_be_made).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_null_asks_for_all_and_an_empty_list_for_none(world: World) -> None:
    world.create("a")
    everything = world.call(metadata, MetadataRequest(topics=None), NEWEST)
    assert [topic.name for topic in everything.topics] == ["a"]
    assert describe(world).topics == []


def test_in_version_zero_an_empty_list_asks_for_all(world: World) -> None:
    world.create("a")
    assert [topic.name for topic in describe(world, version=0).topics] == ["a"]


def test_a_topic_is_found_by_id(world: World) -> None:
    topic_id = world.create("a")
    topics = [
        MetadataRequestTopic(name=None, topic_id=wanted)
        for wanted in (topic_id, b"x" * 16)
    ]
    known, unknown = world.call(metadata, MetadataRequest(topics=topics), 12).topics
    assert (known.name, known.error_code) == ("a", 0)
    assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)


def test_every_node_is_listed_and_leads_its_share() -> None:
    world = World(nodes=3)
    world.create("a", partition_count=4, replication_factor=2)
    response = describe(world, "a")
    assert [broker.node_id for broker in response.brokers] == [1, 2, 3]
    assert response.controller_id == 1
    assert response.cluster_id == "test-cluster"
    [topic] = response.topics
    assert [part.leader_id for part in topic.partitions] == [1, 2, 3, 1]
    assert topic.partitions[2].replica_nodes == [3, 1]


def test_internal_topics_are_marked(world: World) -> None:
    world.data.ensure_offsets_topic(bytes(15) + b"\x99")
    [topic] = describe(world, "__consumer_offsets").topics
    assert topic.is_internal
    assert len(topic.partitions) == 50


def test_operations_are_listed_on_request(world: World) -> None:
    world.create("a")
    response = describe(
        world,
        "a",
        version=10,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    assert response.topics[0].topic_authorized_operations == 0b1101_1111_1000
    assert response.cluster_authorized_operations == 0b1_1111_1010_0000
    assert describe(world, "a").topics[0].topic_authorized_operations == -(2**31)


def test_a_topic_one_may_not_see_is_refused_by_name_and_left_out_of_all() -> None:
    world = World()
    world.create("a")
    world.authorizer = Only()
    [topic] = describe(world, "a").topics
    assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (topic.topic_id, topic.partitions) == (ZERO_UUID, [])
    everything = world.call(metadata, MetadataRequest(topics=None), NEWEST)
    assert everything.topics == []


def test_whoever_may_not_create_gets_no_topic(world: World) -> None:
    world.authorizer = Only(("DESCRIBE", "a"))
    [topic] = describe(world, "a").topics
    assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert world.catalog.topics == {}


# DescribeCluster and DescribeTopicPartitions.


def test_the_cluster_is_its_nodes() -> None:
    world = World(nodes=2)
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = world.call(describe_cluster, request, 2)
    assert [broker.broker_id for broker in response.brokers] == [1, 2]
    assert response.cluster_id == "test-cluster"
    assert response.cluster_authorized_operations > 0


@pytest.mark.parametrize(
    ("endpoint", "code"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_controllers_are_not_to_be_had_here(
    world: World, endpoint: int, code: ErrorCode
) -> None:
    request = DescribeClusterRequest(endpoint_type=endpoint)
    assert world.call(describe_cluster, request, 2).error_code == code


def page(world: World, limit: int, cursor: Cursor | None, *names: str) -> Any:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )
    return world.call(describe_topic_partitions, request, 0)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 100])
def test_partitions_come_page_by_page(world: World, limit: int) -> None:
    world.create("b", partition_count=2)
    world.create("a", partition_count=3)
    found: list[tuple[str, int]] = []
    cursor: Cursor | None = None
    for _ in range(10):
        response = page(world, limit, cursor)
        on_page = [
            (topic.name, part.partition_index)
            for topic in response.topics
            for part in topic.partitions
        ]
        assert len(on_page) <= limit
        found += on_page
        cursor = response.next_cursor
        if cursor is None:
            break
    assert found == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


def test_a_topic_there_is_not_is_refused_in_its_place(world: World) -> None:
    world.create("b")
    response = page(world, 10, None, "c", "b", "a")
    codes = [(topic.name, topic.error_code) for topic in response.topics]
    assert codes == [("a", 3), ("b", 0), ("c", 3)]
