"""Metadata and the administration of topics and configurations, through the APIs."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.server.apis import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_topic_partitions,
    incremental_alter_configs,
    metadata,
)
from coterie.server.config_source import ConfigSource, ResourceKind
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from coterie.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from coterie.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from coterie.wire.messages.describe_cluster import DescribeClusterRequest
from coterie.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from coterie.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from coterie.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
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


# Metadata.


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


def test_an_impossible_name_is_refused(world: World) -> None:
    [topic] = describe(world, "a b").topics
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


# CreateTopics.


def create(world: World, *topics: CreatableTopic, **options: Any) -> list[Any]:
    request = CreateTopicsRequest(topics=list(topics), **options)
    results: list[Any] = world.call(create_topics, request, 7).topics
    return results


def new(name: str, partitions: int = 1, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=-1,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def test_topics_are_created_with_their_configs(world: World) -> None:
    [result] = create(world, new("a", 3, retention_ms="7"))
    assert (result.error_code, result.error_message) == (0, None)
    assert result.topic_id == world.catalog.topic_id("a")
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    configs = {config.name: config for config in result.configs}
    assert configs["retention.ms"].value == "7"
    assert configs["retention.ms"].config_source == ConfigSource.DYNAMIC_TOPIC
    assert configs["cleanup.policy"].config_source == ConfigSource.DEFAULT


def test_a_created_topic_is_there_after_a_restart(world: World) -> None:
    create(world, new("a", 3, retention_ms="7"))
    before = world.catalog.topics["a"]
    world.restart()
    assert world.catalog.topics["a"] == before


def test_each_topic_has_its_own_outcome(world: World) -> None:
    world.create("old")
    results = create(world, new("old"), new("a", 0), new("b"))
    codes = {result.name: result.error_code for result in results}
    assert codes == {
        "old": ErrorCode.TOPIC_ALREADY_EXISTS,
        "a": ErrorCode.INVALID_PARTITIONS,
        "b": ErrorCode.NONE,
    }


def test_a_topic_named_twice_is_made_never(world: World) -> None:
    [result] = create(world, new("a"), new("a"))
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert world.catalog.topics == {}


def test_validate_only_makes_nothing(world: World) -> None:
    [result] = create(world, new("a"), validate_only=True)
    assert result.error_code == 0
    assert world.catalog.topics == {}


def test_creation_needs_permission(world: World) -> None:
    world.authorizer = Only(("CREATE", "a"))
    first, second = create(world, new("a"), new("b"))
    assert first.error_code == 0
    assert first.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert second.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_full_disk_is_an_error_and_no_topic(world: World) -> None:
    world.fail_next_write()
    [result] = create(world, new("a"))
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.catalog.topics == {}
    assert create(world, new("a"))[0].error_code == 0


# DeleteTopics and CreatePartitions.


def test_a_topic_is_deleted_by_name_and_by_id(world: World) -> None:
    world.create("a")
    topic_id = world.create("b")
    request = DeleteTopicsRequest(
        topics=[
            DeleteTopicState(name="a"),
            DeleteTopicState(topic_id=topic_id),
            DeleteTopicState(name="c"),
            DeleteTopicState(topic_id=b"x" * 16),
            DeleteTopicState(),
        ]
    )
    results = world.call(delete_topics, request, 6).responses
    assert [result.error_code for result in results] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
    ]
    assert results[1].name == "b"
    assert world.catalog.topics == {}
    assert list(world.log.partitions()) == []


def test_old_versions_name_topics_in_another_field(world: World) -> None:
    world.create("a")
    request = DeleteTopicsRequest(topic_names=["a"])
    [result] = world.call(delete_topics, request, 5).responses
    assert (result.name, result.error_code) == ("a", 0)


def test_deletion_can_be_switched_off() -> None:
    world = World(delete_topic_enable=False)
    world.create("a")
    request = DeleteTopicsRequest(topic_names=["a"])
    codes = [
        world.call(delete_topics, request, version).responses[0].error_code
        for version in (2, 3)
    ]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.TOPIC_DELETION_DISABLED]


def test_the_log_of_groups_is_not_deleted(world: World) -> None:
    world.data.ensure_offsets_topic(bytes(15) + b"\x99")
    request = DeleteTopicsRequest(topic_names=["__consumer_offsets"])
    [result] = world.call(delete_topics, request, 5).responses
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (DeleteTopicState(name="a"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (
            DeleteTopicState(topic_id=(2).to_bytes(16, "big")),
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ),
        (
            DeleteTopicState(name="a", topic_id=(2).to_bytes(16, "big")),
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_deletion_needs_permission_and_one_name(
    world: World, state: DeleteTopicState, code: ErrorCode
) -> None:
    world.create("a")
    world.authorizer = Only()
    [result] = world.call(
        delete_topics, DeleteTopicsRequest(topics=[state]), 6
    ).responses
    assert result.error_code == code
    assert "a" in world.catalog.topics


@pytest.mark.parametrize("value", ["no", "-1", None])
def test_a_dynamic_setting_has_limits_and_a_default(
    world: World, value: str | None
) -> None:
    if value is None:
        alter(world, BROKER, "1", ("message.max.bytes", SET, "77"))
        alter(world, BROKER, "1", ("message.max.bytes", DELETE, None))
        assert world.catalog.settings.message_max_bytes == 1_048_588
    else:
        result = alter(world, BROKER, "1", ("message.max.bytes", SET, value))
        assert result.error_code == ErrorCode.INVALID_CONFIG


def grow(world: World, name: str, count: int, **options: Any) -> ErrorCode:
    assignments = options.pop("assignments", None)
    topic = CreatePartitionsTopic(name=name, count=count, assignments=assignments)
    request = CreatePartitionsRequest(topics=[topic], **options)
    [result] = world.call(create_partitions, request, 3).results
    return ErrorCode(result.error_code)


def test_a_topic_grows(world: World) -> None:
    world.create("a")
    assert grow(world, "a", 3, validate_only=True) is ErrorCode.NONE
    assert world.catalog.partition_count("a") == 1
    assert grow(world, "a", 3) is ErrorCode.NONE
    assert world.catalog.partition_count("a") == 3
    assert len(world.log.partitions()) == 3


def test_growth_is_refused_as_kafka_does(world: World) -> None:
    world.create("a")
    world.data.ensure_offsets_topic(bytes(15) + b"\x99")
    two = [CreatePartitionsAssignment(broker_ids=[1])] * 2
    elsewhere = [CreatePartitionsAssignment(broker_ids=[9])]
    assert grow(world, "a", 1) is ErrorCode.INVALID_PARTITIONS
    assert grow(world, "b", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert grow(world, "__consumer_offsets", 60) is ErrorCode.INVALID_PARTITIONS
    refused = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(world, "a", 2, assignments=two) is refused
    assert grow(world, "a", 2, assignments=elsewhere) is refused


# Configurations.


def configs_of(
    world: World,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    **options: Any,
) -> Any:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[resource], **options)
    [result] = world.call(describe_configs, request, 4).results
    return result


def alter(
    world: World, kind: int, name: str, *changes: tuple[str, int, str | None]
) -> Any:
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    [result] = world.call(incremental_alter_configs, request, 1).responses
    return result


SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, GROUP = ResourceKind.TOPIC, ResourceKind.BROKER, ResourceKind.GROUP


def value_of(world: World, name: str = "retention.ms") -> tuple[str, int]:
    [config] = configs_of(world, TOPIC, "a", [name]).configs
    return config.value, config.config_source


def test_a_topics_configs_are_set_and_taken_back(world: World) -> None:
    world.create("a")
    assert value_of(world) == ("604800000", ConfigSource.DEFAULT)
    assert alter(world, TOPIC, "a", ("retention.ms", SET, "5")).error_code == 0
    assert value_of(world) == ("5", ConfigSource.DYNAMIC_TOPIC)
    assert alter(world, TOPIC, "a", ("retention.ms", DELETE, None)).error_code == 0
    assert value_of(world) == ("604800000", ConfigSource.DEFAULT)


def test_a_list_is_appended_to_and_subtracted_from(world: World) -> None:
    world.create("a")
    alter(world, TOPIC, "a", ("cleanup.policy", APPEND, "compact"))
    assert value_of(world, "cleanup.policy")[0] == "delete,compact"
    alter(world, TOPIC, "a", ("cleanup.policy", SUBTRACT, "delete"))
    assert value_of(world, "cleanup.policy")[0] == "compact"


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        (TOPIC, "a", ("no.such", SET, "5"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "a", ("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "a", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (TOPIC, "a", ("retention.ms", APPEND, "5"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "a", ("retention.ms", 4, "5"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "b", ("retention.ms", SET, "5"), 3),
        (TOPIC, "", ("retention.ms", SET, "5"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("num.partitions", SET, "5"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("message.max.bytes", SET, "-1"), ErrorCode.INVALID_CONFIG),
        (BROKER, "2", ("message.max.bytes", SET, "5"), ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ("x", SET, "5"), ErrorCode.INVALID_REQUEST),
        (99, "g", ("x", SET, "5"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_impossible_change_is_refused(
    world: World,
    kind: int,
    name: str,
    change: tuple[str, int, str | None],
    code: int,
) -> None:
    world.create("a")
    result = alter(world, kind, name, change)
    assert result.error_code == code
    assert result.error_message


def test_a_config_named_twice_is_refused(world: World) -> None:
    world.create("a")
    change = ("retention.ms", SET, "5")
    assert alter(world, TOPIC, "a", change, change).error_code == 42


def test_a_broker_setting_changes_while_running_and_over_a_restart(
    world: World,
) -> None:
    world.create("a")
    alter(world, BROKER, "1", ("message.max.bytes", SET, "77"))
    world.restart()
    assert value_of(world, "max.message.bytes")[0] == "77"
    [config] = configs_of(world, BROKER, "", None).configs
    assert (config.name, config.value) == ("message.max.bytes", "77")
    assert not config.read_only


def test_a_brokers_settings_are_described_under_kafkas_names(world: World) -> None:
    result = configs_of(world, BROKER, "1")
    configs = {config.name: config for config in result.configs}
    assert configs["num.partitions"].value == "1"
    assert configs["num.partitions"].read_only
    assert configs["auto.create.topics.enable"].value == "true"


def test_synonyms_and_documentation_come_on_request(world: World) -> None:
    world.create("a")
    plain = configs_of(world, TOPIC, "a", ["retention.ms"]).configs[0]
    assert (plain.synonyms, plain.documentation) == ([], None)
    full = configs_of(
        world,
        TOPIC,
        "a",
        ["retention.ms"],
        include_synonyms=True,
        include_documentation=True,
    ).configs[0]
    assert [found.name for found in full.synonyms] == ["log.retention.ms"]
    assert full.documentation


def test_configs_of_what_is_not_there_are_refused(world: World) -> None:
    assert configs_of(world, TOPIC, "b").error_code == 3
    assert configs_of(world, BROKER, "7").error_code == ErrorCode.INVALID_REQUEST
    assert configs_of(world, GROUP, "g").error_code == ErrorCode.INVALID_REQUEST


def test_configs_need_permission(world: World) -> None:
    world.create("a")
    world.authorizer = Only()
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert configs_of(world, TOPIC, "a").error_code == refused
    assert alter(world, TOPIC, "a").error_code == refused
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert configs_of(world, BROKER, "1").error_code == refused
    assert alter(world, BROKER, "1").error_code == refused


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
