"""The copy of upstream's configurations of groups."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from coterie.client.cluster import Cluster
from coterie.errors import ApiError
from coterie.gateway.upstream.group_configs import GroupConfigFeed
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.configs import ConfigResourceType, ConfigSource
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.client.scripted_broker import OPTIONS, ScriptedBroker

from .read_model import ReadModel

pytestmark = pytest.mark.asyncio

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"


class World:
    """An upstream in which groups have configurations, and a feed of them."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.upstream: dict[str, dict[str, str]] = {}
        self.refused: set[str] = set()
        broker.answers[ApiKey.LIST_CONFIG_RESOURCES] = self.listed
        broker.answers[ApiKey.DESCRIBE_CONFIGS] = self.described
        self.cluster = Cluster(broker.bootstrap, OPTIONS)
        model = ReadModel()
        self.configs = model.catalog.group_configs
        self.feed = GroupConfigFeed(self.cluster, model.data)

    def listed(self, request: m.ListConfigResourcesRequest) -> Any:
        assert request.resource_types == [ConfigResourceType.GROUP]
        return m.ListConfigResourcesResponse(
            config_resources=[
                m.ConfigResource(
                    resource_name=group, resource_type=ConfigResourceType.GROUP
                )
                for group in self.upstream
            ]
        )

    def described(self, request: m.DescribeConfigsRequest) -> Any:
        return m.DescribeConfigsResponse(
            results=[self.result(each.resource_name) for each in request.resources]
        )

    def result(self, group: str) -> m.DescribeConfigsResult:
        own = self.upstream[group]
        refusal = ErrorCode.GROUP_AUTHORIZATION_FAILED if group in self.refused else 0
        values = {HEARTBEAT: "5000", SESSION: "45000", **own}
        return m.DescribeConfigsResult(
            error_code=refusal,
            resource_type=ConfigResourceType.GROUP,
            resource_name=group,
            configs=[
                m.DescribeConfigsResourceResult(
                    name=name,
                    value=value,
                    config_source=ConfigSource.GROUP
                    if name in own
                    else ConfigSource.DEFAULT,
                )
                for name, value in values.items()
                if not refusal
            ],
        )


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with ScriptedBroker() as broker:
        world = World(broker)
        yield world
        await world.feed.close()
        await world.cluster.close()


async def test_configurations_of_groups_are_copied_and_removed(world: World) -> None:
    world.upstream = {"a": {SESSION: "50000"}, "b": {HEARTBEAT: "6000"}}
    await world.feed.poll()

    assert world.configs.own("a") == {SESSION: 50_000}, "defaults are the gateway's"
    assert world.configs.session_timeout_ms("a") == 50_000
    assert world.configs.heartbeat_interval_ms("b") == 6_000
    version = world.configs.version
    await world.feed.poll()
    assert world.configs.version == version, "nothing has changed"

    world.upstream = {"a": {SESSION: "55000"}}
    await world.feed.poll()
    assert world.configs.session_timeout_ms("a") == 55_000
    assert set(world.configs.groups) == {"a"}


async def test_values_beyond_the_gateways_limits_are_limited(world: World) -> None:
    world.upstream = {"a": {SESSION: "1000"}}
    await world.feed.poll()

    assert world.configs.own("a") == {SESSION: 1_000}
    assert world.configs.session_timeout_ms("a") == 45_000


async def test_what_is_unknown_here_is_left_out(world: World) -> None:
    world.upstream = {"a": {"new.in.kafka.5": "1", SESSION: "?", HEARTBEAT: "7000"}}
    await world.feed.poll()

    assert world.configs.own("a") == {HEARTBEAT: 7_000}


async def test_a_group_that_cannot_be_described_keeps_its_configurations(
    world: World,
) -> None:
    world.upstream = {"a": {HEARTBEAT: "6000"}, "b": {HEARTBEAT: "6000"}}
    await world.feed.poll()
    world.upstream = {"a": {HEARTBEAT: "7000"}, "b": {HEARTBEAT: "7000"}}
    world.refused = {"a"}

    with pytest.raises(ApiError):
        await world.feed.poll()

    assert world.configs.heartbeat_interval_ms("a") == 6_000
    assert world.configs.heartbeat_interval_ms("b") == 7_000


async def test_an_older_upstream_is_not_asked_again(world: World) -> None:
    world.broker.versions[ApiKey.LIST_CONFIG_RESOURCES] = Versions(0, 0)

    await world.feed.start()

    assert not world.broker.asked_of(m.ListConfigResourcesRequest)


async def test_a_refusal_does_not_keep_a_node_from_starting(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.broker.answers[ApiKey.LIST_CONFIG_RESOURCES] = lambda _: (
        m.ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    )

    await world.feed.start()

    assert "are not read yet" in caplog.text
