"""Checks before a gateway node starts, against servers as the upstream cluster."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from coterie.auth.authorizer import AclAuthorizer
from coterie.cli.main import main
from coterie.cli.parser import make_parser
from coterie.cli.registry import find_command
from coterie.client.admin.acls import Acls
from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.topics import NewTopic
from coterie.client.options import ClientOptions
from coterie.client.sasl import Plain
from coterie.client.secret import Secret
from coterie.errors import (
    ConnectionLost,
    OperationRefused,
    SettingError,
    UnsupportedByBroker,
)
from coterie.gateway.options import AuthorizerKind, GatewayOptions
from coterie.gateway.overview import check_nodes
from coterie.gateway.preflight import check_plan, check_upstream, replica_warnings
from coterie.gateway.view import FIRST_NODE_ID
from coterie.settings import Settings
from coterie.types import SecurityProtocol
from tests.broker.server.harness import ThreadServer

PLAN = GatewayOptions(
    settings=Settings(),
    bootstrap="127.0.0.1:1",
    node="gw-1",
    host="127.0.0.1",
    port=0,
    advertised_host="gw-1.example",
    partition_count=3,
    replication_factor=1,
)
SASL = ClientOptions(sasl=Plain("gateway", Secret("secret")))


@pytest.fixture(scope="module")
def upstream() -> Iterator[ThreadServer]:
    with ThreadServer() as server:
        yield server


def check(server: ThreadServer, plan: GatewayOptions = PLAN) -> list[str]:
    """Run the checks of a plan with a server as upstream."""

    async def run() -> list[str]:
        async with AdminClient(bootstrap_of(server)) as admin:
            return await check_upstream(plan, admin)

    return asyncio.run(run())


def bootstrap_of(server: ThreadServer) -> str:
    return ",".join(f"{host}:{port}" for host, port in server.addresses)


def create(server: ThreadServer, topic: NewTopic) -> None:
    async def run() -> None:
        async with AdminClient(bootstrap_of(server)) as admin:
            created = await admin.topics.create([topic])
            assert not created.errors

    asyncio.run(run())


# The plan.


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_an_advertised_address_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(SettingError, match=r"--advertise gateway-1\.example"):
        check_plan(replace(PLAN, advertised_host=host))


@pytest.mark.parametrize(
    ("options", "protocol", "advice"),
    [
        (SASL, SecurityProtocol.SSL, "--listen SASL_SSL://HOST:PORT"),
        (ClientOptions(), SecurityProtocol.SASL_SSL, "a listener of upstream with"),
    ],
)
def test_sasl_on_one_side_only_is_refused(
    options: ClientOptions, protocol: SecurityProtocol, advice: str
) -> None:
    with pytest.raises(SettingError, match=advice):
        check_plan(replace(PLAN, client=options, protocol=protocol))


def test_sasl_on_both_sides_needs_no_warning() -> None:
    plan = replace(PLAN, client=SASL, protocol=SecurityProtocol.SASL_SSL)
    assert check_plan(plan) == []


def test_certificates_of_clients_are_said_not_to_be_passed_on() -> None:
    settings = Settings(ssl_client_auth="required")
    plan = replace(PLAN, settings=settings, protocol=SecurityProtocol.SSL)
    [warning] = check_plan(plan)
    assert "upstream does not know these principals" in warning


def test_clients_are_said_to_share_the_certificate_of_the_gateway() -> None:
    client = ClientOptions(ssl=ssl.create_default_context())
    [warning] = check_plan(replace(PLAN, client=client))
    assert "every client of this gateway has the rights" in warning


def test_names_of_one_gateway_are_made_of_its_name() -> None:
    plan = replace(PLAN, name="eu")
    names = plan.topic, plan.group_id, plan.transactional_id(7)
    assert names == ("__coterie_eu", "coterie-eu", "coterie-eu-7")


# Upstream.


@pytest.mark.slow
def test_an_open_cluster_passes_and_its_lack_of_an_authorizer_is_said(
    upstream: ThreadServer,
) -> None:
    [warning] = check(upstream)
    assert warning.startswith("upstream has no authorizer")
    assert check(upstream, replace(PLAN, authorizer=AuthorizerKind.NONE)) == []


@pytest.mark.slow
def test_too_many_replicas_are_refused(upstream: ThreadServer) -> None:
    plan = replace(PLAN, replication_factor=3)
    with pytest.raises(SettingError, match="use --replication-factor with at most"):
        check(upstream, plan)


def test_a_topic_that_is_not_compacted_is_refused(upstream: ThreadServer) -> None:
    create(upstream, NewTopic("__coterie_deleting", 3))
    plan = replace(PLAN, name="deleting")
    with pytest.raises(SettingError) as refused:
        check(upstream, plan)
    words = (
        str(refused.value)
        .partition("coterie ")[2]
        .replace(PLAN.bootstrap, bootstrap_of(upstream))
    )
    assert main(words.split()) == 0  # the command of the message mends it
    check(upstream, plan)


def test_a_topic_keeps_its_number_of_partitions(upstream: ThreadServer) -> None:
    compacted = {"cleanup.policy": "compact"}
    create(upstream, NewTopic("__coterie_five", 5, configs=compacted))
    [warning, _] = check(upstream, replace(PLAN, name="five"))
    assert "so there are 5 shards; --partitions 3 has no effect" in warning


def test_an_address_for_this_machine_alone_is_warned_about() -> None:
    plan = replace(PLAN, host="0.0.0.0", advertised_host="localhost")
    [warning] = check_plan(plan)
    assert "only those on this machine can" in warning
    assert check_plan(replace(plan, host="127.0.0.1")) == []


def test_a_gateway_is_refused_as_upstream() -> None:
    check_nodes([1, 2, FIRST_NODE_ID - 1])
    with pytest.raises(OperationRefused, match="name the brokers behind it"):
        check_nodes([1, FIRST_NODE_ID])


def test_one_replica_in_a_larger_cluster_is_warned_about() -> None:
    [warning] = replica_warnings(1, brokers=3)
    assert "--replication-factor 3" in warning
    assert list(replica_warnings(1, brokers=1)) == []
    assert list(replica_warnings(3, brokers=3)) == []


@pytest.mark.slow
def test_all_missing_rights_are_named_with_the_commands_that_grant_them() -> None:
    with (
        ThreadServer(authorizer=AclAuthorizer()) as server,
        pytest.raises(OperationRefused) as refused,
    ):
        check(server)
    granting = str(refused.value).splitlines()[1:]
    for line in granting:
        words = line.split()[1:]
        make_parser(find_command(words)).parse_args(words)  # exits if it is no command
    prefix = "  coterie acls add --principal User:NAME --"
    assert {line.removeprefix(prefix) for line in granting} == {
        "topic __coterie_gateway --operation read --execute",
        "topic __coterie_gateway --operation write --execute",
        "topic __coterie_gateway --operation create --execute",
        "topic __coterie_gateway --operation describe-configs --execute",
        "group coterie-gateway --operation read --execute",
        "transactional-id coterie-gateway- --prefixed --operation write --execute",
        "cluster --operation describe --execute",
    }


@pytest.mark.slow
def test_a_cluster_without_acl_apis_needs_another_authorizer(
    upstream: ThreadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe = AsyncMock(side_effect=UnsupportedByBroker("no DescribeAcls"))
    monkeypatch.setattr(Acls, "describe", describe)
    with pytest.raises(SettingError, match=r"--authorizer own .* or --authorizer none"):
        check(upstream)


@pytest.mark.slow
@pytest.mark.parametrize("release", ["0.11", "2.8", "3.0"])
def test_a_release_without_topic_ids_is_refused(release: str) -> None:
    sentence = "upstream is older than Kafka 3.1, or has not all of its requests"
    with (
        ThreadServer(act_as=release) as server,
        pytest.raises(UnsupportedByBroker, match=sentence),
    ):
        check(server)


@pytest.mark.slow
def test_the_oldest_release_that_is_served() -> None:
    with ThreadServer(act_as="3.1") as server:
        check(server)


def test_an_unreachable_cluster_is_an_error_of_the_client() -> None:
    async def run() -> Any:
        options = ClientOptions(first_contact_ms=1, api_timeout_ms=1_000)
        async with AdminClient("127.0.0.1:1", options) as admin:
            return await check_upstream(PLAN, admin)

    with pytest.raises(ConnectionLost):
        asyncio.run(run())
