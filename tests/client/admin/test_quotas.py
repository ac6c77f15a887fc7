"""Client quotas, on a server and on scripted brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.quotas import (
    QuotaEntity,
    QuotaName,
    alter_client_quotas,
    describe_client_quotas,
)
from coterie.errors import ApiError
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import ThreadServer
from tests.client.admin.scripted_cluster import ScriptedCluster
from tests.client.scripted_broker import OPTIONS

pytestmark = pytest.mark.asyncio

ANY, DEFAULT = QuotaName.ANY, QuotaName.DEFAULT
USER = QuotaEntity(user="u")
PAIR = QuotaEntity(user="u", client_id=DEFAULT)
ADDRESS = QuotaEntity(ip="10.0.0.1")
ALL = {
    USER: {"producer_byte_rate": 1024.0, "request_percentage": 12.5},
    PAIR: {"consumer_byte_rate": 2048.0},
    ADDRESS: {"connection_creation_rate": 5.0},
}


@pytest_asyncio.fixture
async def admin() -> AsyncIterator[AdminClient]:
    with ThreadServer() as server:
        host, port = server.addresses[0]
        async with AdminClient(f"{host}:{port}", OPTIONS) as admin:
            yield admin


async def test_quotas_are_set_described_and_removed(admin: AdminClient) -> None:
    results = await admin.alter_client_quotas({**ALL, QuotaEntity(user=""): {}})
    assert list(results.values) == list(ALL)
    [error] = results.errors.values()
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.INVALID_REQUEST
    assert await admin.describe_client_quotas() == ALL
    gone = {USER: {"producer_byte_rate": None}, PAIR: {"consumer_byte_rate": None}}
    (await admin.alter_client_quotas(gone)).all()
    left = {USER: {"request_percentage": 12.5}, ADDRESS: ALL[ADDRESS]}
    assert await admin.describe_client_quotas() == left


async def test_quotas_are_described_by_a_filter(admin: AdminClient) -> None:
    (await admin.alter_client_quotas(ALL)).all()

    async def described(match: QuotaEntity, *, strict: bool = False) -> set[str]:
        return set(map(str, await admin.describe_client_quotas(match, strict=strict)))

    assert await described(USER) == {"user u", "user u client-id <default>"}
    assert await described(USER, strict=True) == {"user u"}
    assert await described(QuotaEntity(client_id=DEFAULT)) == {str(PAIR)}
    assert await described(QuotaEntity(ip=ANY)) == {"ip 10.0.0.1"}
    assert await described(QuotaEntity(user=DEFAULT)) == set()


async def test_a_validated_quota_is_not_set(admin: AdminClient) -> None:
    (await admin.alter_client_quotas(ALL, validate_only=True)).all()
    assert await admin.describe_client_quotas() == {}


async def test_any_name_has_no_quota(admin: AdminClient) -> None:
    with pytest.raises(ValueError, match="user <any>: ANY has no quota"):
        await admin.alter_client_quotas({QuotaEntity(user=ANY): {}})


async def test_quotas_are_altered_by_the_controller() -> None:
    async with ScriptedCluster(2) as nodes:
        nodes.controller_id = 2
        broker = nodes.brokers[1]
        answer = m.AlterClientQuotasResponse()
        broker.answers[ApiKey.ALTER_CLIENT_QUOTAS] = lambda _: answer
        changes = {USER: {"producer_byte_rate": None}}
        cluster = nodes.client()
        results = await alter_client_quotas(cluster, changes, validate_only=False)
        [sent] = broker.asked_of(m.AlterClientQuotasRequest)
        assert sent.entries[0].ops[0].remove
        assert "the broker's response omits user u" in str(results.errors[USER])


async def test_a_refused_description_is_an_error() -> None:
    async with ScriptedCluster() as nodes:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        answer = m.DescribeClientQuotasResponse(error_code=code, entries=None)
        key = ApiKey.DESCRIBE_CLIENT_QUOTAS
        nodes.brokers[0].answers[key] = lambda _: answer
        with pytest.raises(ApiError, match="to describe client quotas is not author"):
            await describe_client_quotas(nodes.client(), QuotaEntity(), strict=False)
