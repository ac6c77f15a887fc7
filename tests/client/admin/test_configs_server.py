"""Configurations on a server of two nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.configs import ConfigResource
from coterie.errors import ApiError
from coterie.wire.configs import ConfigResourceType, ConfigSource, ConfigType
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS

pytestmark = pytest.mark.asyncio

GROUP = ConfigResource(ConfigResourceType.GROUP, "g")
BROKERS = [ConfigResource(ConfigResourceType.BROKER, str(number)) for number in (1, 2)]
SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"


@pytest_asyncio.fixture
async def admin() -> AsyncIterator[AdminClient]:
    with ThreadServer(node_count=2) as server:
        host, port = server.addresses[0]
        async with AdminClient(f"{host}:{port}", OPTIONS) as admin:
            yield admin


@pytest.mark.fact("E21-02", "E21-04a", "E21-10")
async def test_a_group_is_configured_before_it_exists(admin: AdminClient) -> None:
    assert await admin.configs.list_resources({ConfigResourceType.GROUP}) == ()
    before = (await admin.configs.describe([GROUP])).one(GROUP)
    assert {each.source for each in before} == {ConfigSource.DEFAULT}
    changed = await admin.configs.alter({GROUP: {SESSION: "50000", HEARTBEAT: "6000"}})
    assert list(changed.all()) == [GROUP]
    changed = await admin.configs.alter({GROUP: {HEARTBEAT: None}})
    assert list(changed.all()) == [GROUP]
    after = (await admin.configs.describe([GROUP], with_synonyms=True)).one(GROUP)
    [own] = [each for each in after if not each.is_default]
    assert (own.name, own.value) == (SESSION, "50000")
    assert (own.source, own.type) == (ConfigSource.GROUP, ConfigType.INT)
    assert [each.value for each in own.synonyms] == ["50000", "45000"]
    assert await admin.configs.list_resources({ConfigResourceType.GROUP}) == (GROUP,)


@pytest.mark.fact("E21-06a", "E21-07", "E21-07b")
async def test_an_invalid_group_configuration_is_rejected(admin: AdminClient) -> None:
    for changes, words in (
        ({"no.such": "1"}, "Unknown group config name: no.such"),
        ({SESSION: "1"}, "must be in the range 45000 to 60000"),
    ):
        results = await admin.configs.alter({GROUP: changes}, validate_only=True)
        error = results.errors[GROUP]
        assert isinstance(error, ApiError)
        assert error.code is ErrorCode.INVALID_CONFIG
        assert words in str(error)
    nameless = ConfigResource(ConfigResourceType.GROUP, "")
    [error] = (await admin.configs.alter({nameless: {SESSION: "1"}})).errors.values()
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.INVALID_REQUEST


async def test_each_brokers_own_configuration_is_described(admin: AdminClient) -> None:
    results = await admin.configs.describe(BROKERS, names=["node.id"])
    values = [[each.value for each in found] for found in results.all().values()]
    assert values == [["1"], ["2"]]


async def test_a_missing_topic_does_not_affect_others(admin: AdminClient) -> None:
    gone = ConfigResource(ConfigResourceType.TOPIC, "gone")
    results = await admin.configs.describe([gone, GROUP], names=[SESSION])
    assert list(results.values) == [GROUP]
    error = results.errors[gone]
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "topic gone" in str(error)
