"""CreateTopics, DeleteTopics and CreatePartitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.errors import LogFull
from coterie.wire import messages as m
from coterie.wire.configs import ConfigSource
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.fake_broker import FakeBroker, FakePeer, allow_only

NEWEST = 13


def describe(
    broker: FakeBroker, *names: str | None, version: int = NEWEST, **options: Any
) -> Any:
    topics = [m.MetadataRequestTopic(name=name) for name in names]
    return broker.call(m.MetadataRequest(topics=topics, **options), version)


# CreateTopics.


def create(broker: FakeBroker, *topics: m.CreatableTopic, **options: Any) -> list[Any]:
    request = m.CreateTopicsRequest(topics=list(topics), **options)
    results: list[Any] = broker.call(request, 7).topics
    return results


def new(name: str, partitions: int = 1, **configs: str | None) -> m.CreatableTopic:
    return m.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=-1,
        configs=[
            m.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def test_topics_are_created_with_their_configs(broker: FakeBroker) -> None:
    [result] = create(broker, new("a", 3, retention_ms="7"))
    assert (result.error_code, result.error_message) == (0, None)
    assert result.topic_id == broker.catalog.topic_id("a")
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    configs = {config.name: config for config in result.configs}
    assert configs["retention.ms"].value == "7"
    assert configs["retention.ms"].config_source == ConfigSource.DYNAMIC_TOPIC
    assert configs["cleanup.policy"].config_source == ConfigSource.DEFAULT


def test_a_created_topic_survives_a_restart(broker: FakeBroker) -> None:
    create(broker, new("a", 3, retention_ms="7"))
    before = broker.catalog.topics["a"]
    broker.restart()
    assert broker.catalog.topics["a"] == before


def test_each_topic_has_its_own_result(broker: FakeBroker) -> None:
    broker.create("old")
    results = create(broker, new("old"), new("a", 0), new("b"))
    codes = {result.name: result.error_code for result in results}
    assert codes == {
        "old": ErrorCode.TOPIC_ALREADY_EXISTS,
        "a": ErrorCode.INVALID_PARTITIONS,
        "b": ErrorCode.NONE,
    }


def test_a_repeated_topic_is_not_created(broker: FakeBroker) -> None:
    [result] = create(broker, new("a"), new("a"))
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert broker.catalog.topics == {}


def test_validate_only_creates_nothing(broker: FakeBroker) -> None:
    [result] = create(broker, new("a"), validate_only=True)
    assert result.error_code == 0
    assert broker.catalog.topics == {}


def test_creating_topics_needs_create_permission(broker: FakeBroker) -> None:
    broker.authorizer = allow_only(("CREATE", "a"))
    first, second = create(broker, new("a"), new("b"))
    assert first.error_code == 0
    assert first.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert second.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_write_that_fails_between_two_slices_is_the_error_of_all_topics(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(self: FakePeer, token: object, slices: Iterator[None]) -> None:
        next(slices)
        next(slices)
        broker.fail_next_write()
        with pytest.raises(LogFull):
            broker.flusher.flush()
        for _ in slices:
            pass

    monkeypatch.setattr(FakePeer, "run_in_slices", run)
    results = create(broker, new("a"), new("b"))
    assert [each.error_code for each in results] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert "a" not in broker.catalog.topics


def test_a_full_disk_is_an_error_and_creates_no_topic(broker: FakeBroker) -> None:
    broker.fail_next_write()
    [result] = create(broker, new("a"))
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.catalog.topics == {}
    assert create(broker, new("a"))[0].error_code == 0


# DeleteTopics and CreatePartitions.


def test_a_topic_is_deleted_by_name_and_by_id(broker: FakeBroker) -> None:
    broker.create("a")
    topic_id = broker.create("b")
    request = m.DeleteTopicsRequest(
        topics=[
            m.DeleteTopicState(name="a"),
            m.DeleteTopicState(topic_id=topic_id),
            m.DeleteTopicState(name="c"),
            m.DeleteTopicState(topic_id=b"x" * 16),
            m.DeleteTopicState(),
        ]
    )
    results = broker.call(request, 6).responses
    assert [result.error_code for result in results] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
    ]
    assert results[1].name == "b"
    assert broker.catalog.topics == {}
    assert list(broker.log.partitions()) == []


def test_delete_topics_before_version_6_has_topic_names_in_another_field(
    broker: FakeBroker,
) -> None:
    broker.create("a")
    request = m.DeleteTopicsRequest(topic_names=["a"])
    [result] = broker.call(request, 5).responses
    assert (result.name, result.error_code) == ("a", 0)


def test_topic_deletion_is_refused_when_disabled() -> None:
    broker = FakeBroker(delete_topic_enable=False)
    broker.create("a")
    request = m.DeleteTopicsRequest(topic_names=["a"])
    codes = [
        broker.call(request, version).responses[0].error_code for version in (2, 3)
    ]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.TOPIC_DELETION_DISABLED]


def test_the_offsets_topic_cannot_be_deleted(broker: FakeBroker) -> None:
    broker.data.ensure_offsets_topic(bytes(15) + b"\x99")
    request = m.DeleteTopicsRequest(topic_names=["__consumer_offsets"])
    [result] = broker.call(request, 5).responses
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (m.DeleteTopicState(name="a"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (
            m.DeleteTopicState(topic_id=(2).to_bytes(16, "big")),
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ),
        (
            m.DeleteTopicState(name="a", topic_id=(2).to_bytes(16, "big")),
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_deleting_topics_needs_delete_permission_and_either_a_name_or_an_id(
    broker: FakeBroker, state: m.DeleteTopicState, code: ErrorCode
) -> None:
    broker.create("a")
    broker.authorizer = allow_only()
    [result] = broker.call(m.DeleteTopicsRequest(topics=[state]), 6).responses
    assert result.error_code == code
    assert "a" in broker.catalog.topics


@pytest.mark.parametrize(
    ("allowed", "exists", "code"),
    [
        (("DESCRIBE", "a"), True, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (("DESCRIBE", "a"), False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("DESCRIBE", "b"), False, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (("DELETE", "kafka-cluster"), True, ErrorCode.NONE),
        (("DELETE", "kafka-cluster"), False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_an_unknown_topic_is_revealed_to_principals_that_may_describe_it(
    broker: FakeBroker, allowed: tuple[str, str], exists: bool, code: ErrorCode
) -> None:
    if exists:
        broker.create("a")
    broker.authorizer = allow_only(allowed)
    request = m.DeleteTopicsRequest(topics=[m.DeleteTopicState(name="a")])
    [result] = broker.call(request, 6).responses
    assert result.error_code == code


def grow(broker: FakeBroker, name: str, count: int, **options: Any) -> ErrorCode:
    assignments = options.pop("assignments", None)
    topic = m.CreatePartitionsTopic(name=name, count=count, assignments=assignments)
    request = m.CreatePartitionsRequest(topics=[topic], **options)
    [result] = broker.call(request, 3).results
    return ErrorCode(result.error_code)


def test_partitions_are_added_to_a_topic(broker: FakeBroker) -> None:
    broker.create("a")
    assert grow(broker, "a", 3, validate_only=True) is ErrorCode.NONE
    assert broker.catalog.partition_count("a") == 1
    assert grow(broker, "a", 3) is ErrorCode.NONE
    assert broker.catalog.partition_count("a") == 3
    assert len(broker.log.partitions()) == 3


def test_adding_partitions_is_refused_as_in_kafka(broker: FakeBroker) -> None:
    broker.create("a")
    broker.data.ensure_offsets_topic(bytes(15) + b"\x99")
    two = [m.CreatePartitionsAssignment(broker_ids=[1])] * 2
    elsewhere = [m.CreatePartitionsAssignment(broker_ids=[9])]
    assert grow(broker, "a", 1) is ErrorCode.INVALID_PARTITIONS
    assert grow(broker, "b", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert grow(broker, "__consumer_offsets", 60) is ErrorCode.INVALID_PARTITIONS
    refused = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(broker, "a", 2, assignments=two) is refused
    assert grow(broker, "a", 2, assignments=elsewhere) is refused


# Limits.

POLICY_VIOLATION = ErrorCode.POLICY_VIOLATION


def test_all_topics_of_a_request_have_at_most_10_000_partitions(
    broker: FakeBroker,
) -> None:
    five = [new(f"t{at}", 10_000) for at in range(5)]
    results = create(broker, *five)
    assert [result.error_code for result in results] == [POLICY_VIOLATION] * 5
    assert broker.catalog.topics == {}
    [result] = create(broker, new("a", 10_000), validate_only=True)
    assert result.error_code == 0


def test_one_request_adds_at_most_10_000_partitions(broker: FakeBroker) -> None:
    broker.create("a")
    broker.create("b")
    request = m.CreatePartitionsRequest(
        topics=[
            m.CreatePartitionsTopic(name=name, count=count, assignments=None)
            for name, count in (("a", 6_001), ("b", 4_002))
        ],
        validate_only=True,
    )
    codes = [result.error_code for result in broker.call(request, 3).results]
    assert codes == [0, POLICY_VIOLATION]


def test_topics_have_at_most_max_partitions() -> None:
    broker = FakeBroker(max_partitions=5)
    first, second = create(broker, new("a", 4), new("b", 2))
    assert (first.error_code, second.error_code) == (0, POLICY_VIOLATION)
    assert "max.partitions (5)" in second.error_message
    assert grow(broker, "a", 6) == POLICY_VIOLATION
    assert grow(broker, "a", 5) == 0
    broker.restart()
    assert create(broker, new("b"))[0].error_code == POLICY_VIOLATION
    broker.call(m.DeleteTopicsRequest(topics=[m.DeleteTopicState(name="a")]), 6)
    assert create(broker, new("b", 5))[0].error_code == 0
