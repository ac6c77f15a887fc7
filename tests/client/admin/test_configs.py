"""Describe, alter and list configurations on scripted brokers."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.client.admin import configs
from coterie.client.admin.configs import (
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    alter_configs,
    describe_configs,
    list_config_resources,
)
from coterie.errors import (
    ApiError,
    ConnectionLost,
    MalformedFrame,
    UnsupportedByBroker,
)
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.codec import decode, encode
from coterie.wire.configs import ConfigResourceType, ConfigSource, ConfigType
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.client.admin.scripted_cluster import ScriptedCluster
from tests.client.scripted_broker import BRIEF, HANG_UP, in_turn

pytestmark = pytest.mark.asyncio

GROUP = ConfigResource(ConfigResourceType.GROUP, "g")
TOPIC = ConfigResource(ConfigResourceType.TOPIC, "t")
FIRST = ConfigResource(ConfigResourceType.BROKER, "1")
SECOND = ConfigResource(ConfigResourceType.BROKER, "2")
ALL_BROKERS = ConfigResource(ConfigResourceType.BROKER, "")
SAID: dict[str, Any] = {
    "name": "retention.ms",
    "value": "5",
    "config_source": 1,
    "config_type": 5,
    "documentation": "How long.",
    "synonyms": [m.DescribeConfigsSynonym(name="retention.ms", value="5", source=1)],
}


def described(request: m.DescribeConfigsRequest) -> m.DescribeConfigsResponse:
    """Return two configurations of each requested resource."""
    return m.DescribeConfigsResponse(
        results=[
            m.DescribeConfigsResult(
                error_message=None,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                configs=[
                    m.DescribeConfigsResourceResult(**SAID),
                    m.DescribeConfigsResourceResult(
                        name="a", value=None, is_sensitive=True, is_default=True
                    ),
                ],
            )
            for each in request.resources
        ]
    )


def altered(request: Any, code: int = 0, message: str | None = None) -> Any:
    return m.IncrementalAlterConfigsResponse(
        responses=[
            m.AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in request.resources
        ]
    )


async def test_configurations_have_all_their_fields() -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        broker.answers[ApiKey.DESCRIBE_CONFIGS] = described
        results = await describe_configs(
            nodes.client(),
            [GROUP],
            names=["retention.ms"],
            with_synonyms=True,
            with_documentation=True,
        )
        secret, entry = results.one(GROUP)
        source = ConfigSource.DYNAMIC_TOPIC
        assert entry == ConfigEntry(
            name="retention.ms",
            value="5",
            source=source,
            type=ConfigType.LONG,
            documentation="How long.",
            synonyms=(ConfigSynonym("retention.ms", "5", source),),
        )
        assert secret.is_sensitive
        assert secret.value is None
        [request] = broker.asked_of(m.DescribeConfigsRequest)
        assert (request.include_synonyms, request.include_documentation) == (True, True)
        [asked] = request.resources
        assert (asked.resource_type, asked.resource_name) == (32, "g")
        assert asked.configuration_keys == ["retention.ms"]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_older_brokers_return_fewer_config_fields(version: int) -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        broker.versions[ApiKey.DESCRIBE_CONFIGS] = Versions(0, version)
        broker.answers[ApiKey.DESCRIBE_CONFIGS] = described
        results = await describe_configs(nodes.client(), [TOPIC])
        secret, entry = results.one(TOPIC)
        assert not secret.is_default
        assert entry.source is ConfigSource.DYNAMIC_TOPIC
        assert entry.type is (ConfigType.LONG if version > 2 else ConfigType.UNKNOWN)


async def test_kafka_0_11_returns_only_is_default_as_the_source() -> None:
    said = described(m.DescribeConfigsRequest(resources=[m.DescribeConfigsResource()]))
    read, _ = decode(m.DescribeConfigsResponse, 0, encode(said, 0))
    entry, secret = map(configs._entry, read.results[0].configs)
    assert (entry.source, secret.source) == (ConfigSource.UNKNOWN, ConfigSource.DEFAULT)
    assert entry.value == "5"


async def test_broker_configs_are_requested_from_that_broker() -> None:
    async with ScriptedCluster(2) as nodes:
        for broker in nodes.brokers:
            broker.answers[ApiKey.DESCRIBE_CONFIGS] = described
        told: list[tuple[int, int]] = []
        wanted = [SECOND, TOPIC, FIRST, ALL_BROKERS, GROUP, TOPIC]
        results = await describe_configs(
            nodes.client(), wanted, progress=lambda done, of: told.append((done, of))
        )
        assert list(results.all()) == [SECOND, TOPIC, FIRST, ALL_BROKERS, GROUP]
        asked = [
            [each.resource_name for each in request.resources]
            for broker in nodes.brokers
            for request in broker.asked_of(m.DescribeConfigsRequest)
        ]
        assert asked == [["t", "", "g"], ["1"], ["2"]]
        assert told[-1] == (5, 5)


async def test_an_unavailable_broker_fails_its_own_resources_only() -> None:
    async with ScriptedCluster(2) as nodes:
        first, second = nodes.brokers
        first.answers[ApiKey.DESCRIBE_CONFIGS] = described
        second.answers[ApiKey.DESCRIBE_CONFIGS] = lambda _: HANG_UP
        third = ConfigResource(ConfigResourceType.BROKER, "3")
        results = await describe_configs(nodes.client(), [FIRST, SECOND, third, TOPIC])
        assert list(results.values) == [FIRST, TOPIC]
        assert isinstance(results.errors[SECOND], ConnectionLost)
        assert "no node 3" in str(results.errors[third])


async def test_many_resources_are_requested_in_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(configs, "RESOURCES_PER_REQUEST", 2)
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        broker.answers[ApiKey.DESCRIBE_CONFIGS] = described
        wanted = [ConfigResource(ConfigResourceType.GROUP, f"g{n}") for n in range(5)]
        results = await describe_configs(nodes.client(), wanted)
        assert len(results.all()) == 5
        assert len(broker.asked_of(m.DescribeConfigsRequest)) == 3


async def test_a_resource_may_be_refused_or_missing_in_the_response() -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        refused = altered(m.DescribeConfigsRequest())
        refused.responses = [
            m.AlterConfigsResourceResponse(
                error_code=ErrorCode.INVALID_CONFIG,
                error_message="x is none",
                resource_type=32,
                resource_name="g",
            )
        ]
        broker.answers[ApiKey.INCREMENTAL_ALTER_CONFIGS] = lambda _: refused
        results = await alter_configs(nodes.client(), {GROUP: {"x": "1"}, TOPIC: {}})
        assert str(results.errors[GROUP]) == "group g: INVALID_CONFIG: x is none"
        assert isinstance(results.errors[TOPIC], MalformedFrame)
        assert "response omits topic t" in str(results.errors[TOPIC])


async def test_config_changes_are_sent_one_by_one() -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        broker.answers[ApiKey.INCREMENTAL_ALTER_CONFIGS] = altered
        changes: dict[ConfigResource, dict[str, str | None]] = {
            GROUP: {"a": "1", "b": None},
            ALL_BROKERS: {"c": ""},
        }
        results = await alter_configs(nodes.client(), changes, validate_only=True)
        assert list(results.all()) == [GROUP, ALL_BROKERS]
        [request] = broker.asked_of(m.IncrementalAlterConfigsRequest)
        assert request.validate_only
        group, brokers = request.resources
        assert [
            (each.name, each.config_operation, each.value) for each in group.configs
        ] == [("a", 0, "1"), ("b", 1, None)]
        assert (brokers.resource_type, brokers.resource_name) == (4, "")


async def test_an_idempotent_change_is_retried() -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        answers = in_turn(lambda _: HANG_UP, altered)
        broker.answers[ApiKey.INCREMENTAL_ALTER_CONFIGS] = lambda asked: answers(asked)(
            asked
        )
        results = await alter_configs(nodes.client(), {GROUP: {"a": "1"}})
        assert list(results.all()) == [GROUP]


async def test_brokers_before_kafka_2_3_lack_incremental_alter_configs() -> None:
    async with ScriptedCluster() as nodes:
        del nodes.brokers[0].versions[ApiKey.INCREMENTAL_ALTER_CONFIGS]
        with pytest.raises(UnsupportedByBroker, match="IncrementalAlterConfigs"):
            await alter_configs(nodes.client(), {GROUP: {"a": "1"}})


async def test_a_call_raises_when_no_broker_is_reachable() -> None:
    async with ScriptedCluster() as nodes:
        nodes.brokers[0].answers[ApiKey.DESCRIBE_CONFIGS] = lambda _: HANG_UP
        with pytest.raises(ConnectionLost):
            await describe_configs(nodes.client(BRIEF), [GROUP])


async def test_resources_with_configurations_are_listed() -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        broker.answers[ApiKey.LIST_CONFIG_RESOURCES] = in_turn(
            m.ListConfigResourcesResponse(
                config_resources=[
                    m.ConfigResource(resource_name="t", resource_type=2),
                    m.ConfigResource(resource_name="g", resource_type=32),
                    m.ConfigResource(resource_name="f", resource_type=32),
                ]
            ),
            m.ListConfigResourcesResponse(error_code=31),
        )
        cluster = nodes.client()
        kinds = {ConfigResourceType.GROUP, ConfigResourceType.TOPIC}
        assert await list_config_resources(cluster, kinds) == (
            TOPIC,
            ConfigResource(ConfigResourceType.GROUP, "f"),
            GROUP,
        )
        [request] = broker.asked_of(m.ListConfigResourcesRequest)
        assert request.resource_types == [2, 32]
        with pytest.raises(ApiError, match="to list configurations is not authorized"):
            await list_config_resources(cluster)


async def test_brokers_before_kafka_4_1_list_client_metrics_only() -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        broker.versions[ApiKey.LIST_CONFIG_RESOURCES] = Versions(0, 0)
        broker.answers[ApiKey.LIST_CONFIG_RESOURCES] = lambda _: (
            m.ListConfigResourcesResponse(
                config_resources=[m.ConfigResource(resource_name="m")]
            )
        )
        cluster = nodes.client()
        metrics = ConfigResource(ConfigResourceType.CLIENT_METRICS, "m")
        assert await list_config_resources(cluster, {metrics.kind}) == (metrics,)
        with pytest.raises(UnsupportedByBroker, match="ListConfigResources 0 to 0"):
            await list_config_resources(cluster, {ConfigResourceType.GROUP})
