"""Topics created, deleted and grown through the APIs."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.server.apis import (
    create_partitions,
    create_topics,
    delete_topics,
    metadata,
)
from coterie.wire.config_kinds import ConfigSource
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
from coterie.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
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
