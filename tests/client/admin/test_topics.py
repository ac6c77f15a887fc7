"""Topics on scripted brokers."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.client.admin.routing import UNKNOWN_TRIES
from coterie.client.admin.topics import (
    CreatedTopic,
    NewTopic,
    Topics,
)
from coterie.errors import (
    ApiError,
    ConnectionLost,
    RequestTimedOut,
    UnsupportedByBroker,
)
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.configs import ConfigResourceType
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.client.admin.scripted_cluster import NOBODY, ScriptedCluster
from tests.client.scripted_broker import BRIEF, HANG_UP, IMPATIENT, SILENCE, in_turn

pytestmark = pytest.mark.asyncio


def created(code: int = 0, **said: Any) -> m.CreateTopicsResponse:
    result = m.CreatableTopicResult(name="t", error_code=code, configs=None, **said)
    return m.CreateTopicsResponse(topics=[result])


async def test_topics_are_described_in_the_requested_order() -> None:
    async with ScriptedCluster() as nodes:
        nodes.lead(1, "b", 1, 0)
        nodes.lead(NOBODY, "a", 0)
        results = await Topics(nodes.client()).describe(["b", "a", "b"])
        assert list(results.all()) == ["b", "a"]
        topic = results.one("b")
        assert topic.topic_id is None
        assert [each.partition for each in topic.partitions] == [0, 1]
        assert topic.partitions[0].replicas == (1, 2)
        assert topic.partitions[0].in_sync == (1,)
        assert results.one("a").partitions[0].leader_id == NOBODY
        [request] = nodes.brokers[0].asked_of(m.MetadataRequest)
        assert not request.allow_auto_topic_creation


async def test_null_topic_names_describe_all_topics() -> None:
    async with ScriptedCluster() as nodes:
        nodes.lead(1, "b", 0)
        nodes.lead(1, "a", 0)
        nodes.refused["b"] = ErrorCode.LEADER_NOT_AVAILABLE
        results = await Topics(nodes.client()).describe()
        assert list(results.values) == ["a"]
        assert list(results.errors) == ["b"]


async def test_a_topic_that_was_just_created_is_requested_again() -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        nodes.lead(1, "old", 0)
        before = nodes.metadata
        asked = []

        def later(request: m.MetadataRequest) -> Any:
            asked.append([each.name for each in request.topics or []])
            answer = before(request)
            nodes.lead(1, "new", 0)
            return answer

        broker.answers[ApiKey.METADATA] = later
        results = await Topics(nodes.client()).describe(["old", "new"])
        assert set(results.all()) == {"old", "new"}
        assert asked == [["new", "old"], ["new"]]


async def test_a_missing_topic_has_its_own_error() -> None:
    async with ScriptedCluster() as nodes:
        nodes.lead(1, "t", 0)
        results = await Topics(nodes.client()).describe(["gone", "t"])
        assert list(results.values) == ["t"]
        with pytest.raises(ApiError, match="topic gone does not exist"):
            results.one("gone")
        assert len(nodes.brokers[0].asked_of(m.MetadataRequest)) == UNKNOWN_TRIES


async def test_a_topic_is_created_by_the_controller() -> None:
    async with ScriptedCluster(2) as nodes:
        nodes.controller_id = 2
        nodes.brokers[1].answers[ApiKey.CREATE_TOPICS] = lambda _: created(
            topic_id=b"i" * 16, num_partitions=3, replication_factor=1
        )
        topic = NewTopic("t", 3, 1, configs={"cleanup.policy": "compact"})
        results = await Topics(nodes.client()).create([topic])
        assert results.one("t") == CreatedTopic("t", b"i" * 16, 3, 1)
        [request] = nodes.brokers[1].asked_of(m.CreateTopicsRequest)
        [asked] = request.topics
        assert (asked.num_partitions, asked.replication_factor) == (3, 1)
        assert [(each.name, each.value) for each in asked.configs] == [
            ("cleanup.policy", "compact")
        ]


async def test_not_controller_is_retried_on_the_new_controller() -> None:
    async with ScriptedCluster(2) as nodes:
        first, second = nodes.brokers
        refused = created(ErrorCode.NOT_CONTROLLER)
        second.answers[ApiKey.CREATE_TOPICS] = lambda _: created()

        def elected(_: Any) -> Any:
            nodes.controller_id = 2
            return refused

        first.answers[ApiKey.CREATE_TOPICS] = elected
        results = await Topics(nodes.client()).create([NewTopic("t", 1, 1)])
        assert list(results.all()) == ["t"]


async def test_a_missing_controller_is_an_error_at_the_deadline() -> None:
    async with ScriptedCluster() as nodes:
        refused = created(ErrorCode.NOT_CONTROLLER)
        nodes.brokers[0].answers[ApiKey.CREATE_TOPICS] = lambda _: refused
        results = await Topics(nodes.client(BRIEF)).create([NewTopic("t", 1, 1)])
        with pytest.raises(ApiError, match="NOT_CONTROLLER"):
            results.one("t")


async def test_the_last_response_is_returned_when_the_controller_disappears() -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers

        def resign(_: Any) -> Any:
            nodes.controller_id = 9
            return created(ErrorCode.NOT_CONTROLLER)

        broker.answers[ApiKey.CREATE_TOPICS] = resign
        results = await Topics(nodes.client(BRIEF)).create([NewTopic("t", 1, 1)])
        with pytest.raises(ApiError, match="NOT_CONTROLLER"):
            results.one("t")
        nodes.controller_id = 9
        with pytest.raises(ConnectionLost, match="no node 9"):
            await Topics(nodes.client(BRIEF)).create([NewTopic("t", 1, 1)])


@pytest.mark.parametrize(
    ("said", "error"), [(HANG_UP, ConnectionLost), (SILENCE, RequestTimedOut)]
)
async def test_a_change_with_a_lost_response_is_not_retried(
    said: object, error: type[Exception]
) -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        broker.answers[ApiKey.CREATE_TOPICS] = lambda _: said
        with pytest.raises(error):
            await Topics(nodes.client(IMPATIENT)).create([NewTopic("t", 1, 1)])
        assert len(broker.asked_of(m.CreateTopicsRequest)) == 1


async def test_the_brokers_error_message_is_included() -> None:
    async with ScriptedCluster() as nodes:
        refused = created(ErrorCode.TOPIC_ALREADY_EXISTS, error_message="It is there.")
        nodes.brokers[0].answers[ApiKey.CREATE_TOPICS] = lambda _: refused
        results = await Topics(nodes.client()).create([NewTopic("t", 1, 1)])
        text = "topic t: TOPIC_ALREADY_EXISTS: It is there."
        assert str(results.errors["t"]) == text


def broker_settings(**settings: str) -> m.DescribeConfigsResponse:
    return m.DescribeConfigsResponse(
        results=[
            m.DescribeConfigsResult(
                resource_type=ConfigResourceType.BROKER,
                resource_name="1",
                configs=[
                    m.DescribeConfigsResourceResult(
                        name=name.replace("_", "."), value=value
                    )
                    for name, value in settings.items()
                ],
            )
        ]
    )


async def test_numbers_are_those_of_the_controller_before_kafka_2_4() -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        broker.versions[ApiKey.CREATE_TOPICS] = Versions(0, 3)
        broker.answers[ApiKey.CREATE_TOPICS] = lambda _: created()
        found = broker_settings(num_partitions="7", default_replication_factor="3")
        broker.answers[ApiKey.DESCRIBE_CONFIGS] = lambda _: found
        cluster = nodes.client()
        (await Topics(cluster).create([NewTopic("t")])).all()
        (await Topics(cluster).create([NewTopic("t", 2)])).all()
        requests = broker.asked_of(m.CreateTopicsRequest)
    numbers = [
        (topic.num_partitions, topic.replication_factor)
        for request in requests
        for topic in request.topics
    ]
    assert numbers == [(7, 3), (2, 3)]


async def test_assigned_replicas_need_no_numbers_before_kafka_2_4() -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        broker.versions[ApiKey.CREATE_TOPICS] = Versions(0, 3)
        broker.answers[ApiKey.CREATE_TOPICS] = lambda _: created()
        cluster = nodes.client()
        placed = NewTopic("t", 1, 1, assignments={0: [1]})
        results = await Topics(cluster).create([placed])
        assert results.one("t") == CreatedTopic("t")
        [request] = broker.asked_of(m.CreateTopicsRequest)
        [asked] = request.topics
        assert (asked.num_partitions, asked.replication_factor) == (-1, -1)
        assert asked.assignments[0].broker_ids == [1]


@pytest.mark.parametrize("version", [1, 5, 6])
async def test_topics_are_deleted_in_each_version(version: int) -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        broker.versions[ApiKey.DELETE_TOPICS] = Versions(1, version)
        broker.answers[ApiKey.DELETE_TOPICS] = in_turn(
            m.DeleteTopicsResponse(
                responses=[
                    m.DeletableTopicResult(name="t"),
                    m.DeletableTopicResult(name="u", error_code=3),
                ]
            )
        )
        results = await Topics(nodes.client()).delete(["t", "u", "t"])
        assert (list(results.values), list(results.errors)) == (["t"], ["u"])
        [request] = broker.asked_of(m.DeleteTopicsRequest)
        named = [each.name for each in request.topics] or request.topic_names
        assert named == ["t", "u"]


async def test_an_old_broker_without_create_partitions_is_an_error() -> None:
    async with ScriptedCluster() as nodes:
        del nodes.brokers[0].versions[ApiKey.CREATE_PARTITIONS]
        with pytest.raises(UnsupportedByBroker, match="CreatePartitions"):
            await Topics(nodes.client()).create_partitions({"t": 4})
