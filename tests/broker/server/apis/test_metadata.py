"""Metadata, DescribeCluster and DescribeTopicPartitions."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.server.apis import metadata
from coterie.wire import messages as m
from coterie.wire.codec import encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import ZERO_UUID
from tests.broker.server.apis.fake_broker import FakeBroker, allow_only

NEWEST = 13


def describe(
    broker: FakeBroker, *names: str | None, version: int = NEWEST, **options: Any
) -> Any:
    topics = [m.MetadataRequestTopic(name=name) for name in names]
    return broker.call(m.MetadataRequest(topics=topics, **options), version)


def test_a_missing_topic_is_created_and_described(broker: FakeBroker) -> None:
    [topic] = describe(broker, "a").topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "a", False)
    assert topic.topic_id == broker.catalog.topic_id("a")
    [part] = topic.partitions
    assert (part.leader_id, part.leader_epoch) == (1, 0)
    assert (part.replica_nodes, part.isr_nodes) == ([1], [1])


def test_a_created_topic_is_described_once_it_is_durable(broker: FakeBroker) -> None:
    broker.loop.holds = True
    request = m.MetadataRequest(topics=[m.MetadataRequestTopic(name="a")])
    call = broker.start_call(request, NEWEST)
    assert call.responses == []
    broker.loop.release()
    assert call.response.topics[0].error_code == 0


@pytest.mark.parametrize("by", ["setting", "request"])
def test_no_topic_is_created_when_auto_creation_is_disabled(by: str) -> None:
    broker = FakeBroker(auto_create_topics_enable=by != "setting")
    [topic] = describe(broker, "a", allow_auto_topic_creation=by != "request").topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.catalog.topics == {}


def test_a_full_disk_creates_no_topic(broker: FakeBroker) -> None:
    broker.fail_next_write()
    [topic] = describe(broker, "a").topics
    assert topic.error_code != 0
    assert describe(broker, "a").topics[0].error_code == 0


def test_a_topic_without_name_or_id_is_refused(broker: FakeBroker) -> None:
    [topic] = describe(broker, None, version=12).topics
    assert topic.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("may_be_made", [True, False])
def test_an_invalid_topic_name_is_refused(
    broker: FakeBroker, may_be_made: bool
) -> None:
    [topic] = describe(broker, "a b", allow_auto_topic_creation=may_be_made).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_null_topics_return_all_topics_and_an_empty_list_returns_none(
    broker: FakeBroker,
) -> None:
    broker.create("a")
    everything = broker.call(m.MetadataRequest(topics=None), NEWEST)
    assert [topic.name for topic in everything.topics] == ["a"]
    assert describe(broker).topics == []


def test_metadata_version_0_with_an_empty_list_returns_all_topics(
    broker: FakeBroker,
) -> None:
    broker.create("a")
    assert [topic.name for topic in describe(broker, version=0).topics] == ["a"]


def test_a_topic_is_described_by_id(broker: FakeBroker) -> None:
    topic_id = broker.create("a")
    topics = [
        m.MetadataRequestTopic(name=None, topic_id=requested_id)
        for requested_id in (topic_id, b"x" * 16)
    ]
    known, unknown = broker.call(m.MetadataRequest(topics=topics), 12).topics
    assert (known.name, known.error_code) == ("a", 0)
    assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(("name", "topic_id"), [(None, bytes(16)), ("a", b"x" * 16)])
def test_versions_10_and_11_refuse_a_request_with_a_topic_without_a_name_or_with_an_id(
    broker: FakeBroker, version: int, name: str | None, topic_id: bytes
) -> None:
    broker.create("a")
    topics = [
        m.MetadataRequestTopic(name="a"),
        m.MetadataRequestTopic(name=name, topic_id=topic_id),
    ]
    response = broker.call(m.MetadataRequest(topics=topics), version)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a", ErrorCode.INVALID_REQUEST),
        (name or "", ErrorCode.INVALID_REQUEST),
    ]
    assert not response.brokers


def test_every_node_is_listed_and_leads_partitions() -> None:
    broker = FakeBroker(nodes=3)
    broker.create("a", partition_count=4, replication_factor=2)
    response = describe(broker, "a")
    assert [broker.node_id for broker in response.brokers] == [1, 2, 3]
    assert response.controller_id == 1
    assert response.cluster_id == "test-cluster"
    [topic] = response.topics
    assert [part.leader_id for part in topic.partitions] == [1, 2, 3, 1]
    assert topic.partitions[2].replica_nodes == [3, 1]


def test_internal_topics_are_marked(broker: FakeBroker) -> None:
    broker.data.ensure_offsets_topic(bytes(15) + b"\x99")
    [topic] = describe(broker, "__consumer_offsets").topics
    assert topic.is_internal
    assert topic.partitions.count == 50


def test_authorized_operations_of_topics_are_returned_on_request(
    broker: FakeBroker,
) -> None:
    broker.create("a")
    response = describe(
        broker,
        "a",
        version=10,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    assert response.topics[0].topic_authorized_operations == 0b1101_1111_1000
    assert response.cluster_authorized_operations == 0b1_1111_1010_0000
    assert describe(broker, "a").topics[0].topic_authorized_operations == -(2**31)


def test_metadata_refuses_or_omits_topics_without_describe_permission() -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.authorizer = allow_only()
    [topic] = describe(broker, "a").topics
    assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (topic.topic_id, topic.partitions) == (ZERO_UUID, [])
    everything = broker.call(m.MetadataRequest(topics=None), NEWEST)
    assert everything.topics == []


def test_auto_creation_needs_create_permission(broker: FakeBroker) -> None:
    broker.authorizer = allow_only(("DESCRIBE", "a"))
    [topic] = describe(broker, "a").topics
    assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert broker.catalog.topics == {}


# DescribeCluster and DescribeTopicPartitions.


def test_describe_cluster_lists_the_nodes() -> None:
    broker = FakeBroker(nodes=2)
    request = m.DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = broker.call(request, 2)
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
def test_a_request_for_controllers_is_refused(
    broker: FakeBroker, endpoint: int, code: ErrorCode
) -> None:
    request = m.DescribeClusterRequest(endpoint_type=endpoint)
    assert broker.call(request, 2).error_code == code


def page(broker: FakeBroker, limit: int, cursor: m.Cursor | None, *names: str) -> Any:
    request = m.DescribeTopicPartitionsRequest(
        topics=[m.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )
    return broker.call(request, 0)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 100])
def test_partitions_are_described_in_pages(broker: FakeBroker, limit: int) -> None:
    broker.create("b", partition_count=2)
    broker.create("a", partition_count=3)
    found: list[tuple[str, int]] = []
    cursor: m.Cursor | None = None
    for _ in range(10):
        response = page(broker, limit, cursor)
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


def test_a_missing_topic_has_an_error_in_its_position(broker: FakeBroker) -> None:
    broker.create("b")
    response = page(broker, 10, None, "c", "b", "a")
    codes = [(topic.name, topic.error_code) for topic in response.topics]
    assert codes == [("a", 3), ("b", 0), ("c", 3)]


# Limits.


def test_no_topic_is_created_when_a_request_names_more_than_10_000_missing_ones(
    broker: FakeBroker,
) -> None:
    names = [f"t{at}" for at in range(10_001)]
    codes = {topic.error_code for topic in describe(broker, *names).topics}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert broker.catalog.topics == {}


def test_no_topic_is_created_beyond_max_partitions() -> None:
    broker = FakeBroker(max_partitions=3, num_partitions=2)
    codes = [topic.error_code for topic in describe(broker, "a", "b").topics]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


# Topics with many partitions.


@pytest.mark.parametrize("node_count", [1, 3])
@pytest.mark.parametrize("version", range(NEWEST + 1))
def test_prepared_partitions_are_encoded_as_others(
    monkeypatch: pytest.MonkeyPatch, version: int, node_count: int
) -> None:
    broker = FakeBroker(nodes=node_count)
    counts = {"a": 40, "b": 70, "c": 12, "d": 300, "e": 9}
    for name, count in counts.items():
        broker.create(name, partition_count=count)
    requests = [
        m.MetadataRequest(topics=[m.MetadataRequestTopic(name=name)]) for name in counts
    ]
    prepared = [encode(broker.call(each, version), version) for each in requests]
    monkeypatch.setattr(metadata, "_PREPARED_SINCE", 1_000)
    plain = [broker.call(each, version) for each in requests]
    assert [len(each.topics[0].partitions) for each in plain] == list(counts.values())
    assert prepared == [encode(each, version) for each in plain]


def test_the_partitions_of_all_topics_are_encoded_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    described: list[int] = []
    describe_one = metadata._partition

    def count(call: Any, topic: Any, index: int) -> Any:
        described.append(index)
        return describe_one(call, topic, index)

    monkeypatch.setattr(metadata, "_partition", count)
    monkeypatch.setattr(metadata, "_prepared", {})
    broker = FakeBroker()
    for name in ("a", "b", "c"):
        broker.create(name, partition_count=1_000)
    for _ in range(100):
        describe(broker, "a", "b", "c")
    assert len(described) == 1_000 + 300, "the first partition tells the size"


@pytest.mark.parametrize(
    ("names", "cursor"),
    [
        (["a"], m.Cursor(topic_name="b", partition_index=0)),
        (["a"], m.Cursor(topic_name="", partition_index=0)),
        (["a"], m.Cursor(topic_name="a", partition_index=-1)),
        ([], m.Cursor(topic_name="a", partition_index=-1)),
    ],
)
def test_an_invalid_cursor_is_refused(
    broker: FakeBroker, names: list[str], cursor: m.Cursor
) -> None:
    broker.create("a")
    request = m.DescribeTopicPartitionsRequest(
        topics=[m.TopicRequest(name=name) for name in names], cursor=cursor
    )
    response = broker.call(request, 0)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        (name, ErrorCode.INVALID_REQUEST) for name in names
    ]
