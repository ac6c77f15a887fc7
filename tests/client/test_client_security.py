"""Clients on a server with authentication and TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.client import AdminClient, GroupMember, MemberState
from coterie.client.connection import Address, BrokerConnection
from coterie.client.options import ClientOptions
from coterie.client.sasl import Credentials, Plain, Scram
from coterie.client.secret import Secret
from coterie.client.tls import TlsOptions, make_context
from coterie.errors import AuthenticationFailed, ConnectionLost
from coterie.types import SecurityProtocol
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from tests.broker.server.harness import ThreadServer
from tests.broker.server.secured import (
    MECHANISMS,
    USERS,
    Certificates,
    make_certificates,
    users_file,
)

SASL = SecurityProtocol.SASL_PLAINTEXT


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def secured(
    folder: Path, protocol: SecurityProtocol = SASL, **settings: Any
) -> ThreadServer:
    return ThreadServer(
        protocol=protocol,
        sasl_enabled_mechanisms=MECHANISMS,
        sasl_users_file=str(users_file(folder)),
        connection_failed_authentication_delay_ms=0,
        sasl_failure_backoff_ms=0,
        **settings,
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    with secured(tmp_path_factory.mktemp("users")) as running:
        yield running


def said_by(
    name: str, mechanism: str = "SCRAM-SHA-256", secret: str | None = None
) -> Credentials:
    password = Secret(USERS[name] if secret is None else secret)
    if mechanism == "PLAIN":
        return Plain(name, password)
    return Scram(mechanism, name, password)


def nodes_seen(server: ThreadServer, **options: Any) -> int:
    """Return the number of brokers that an authenticated client describes."""

    async def describe() -> int:
        host, port = server.addresses[0]
        asked = ClientOptions(api_timeout_ms=5_000, **options)
        async with AdminClient(f"{host}:{port}", asked) as admin:
            return len((await admin.describe_cluster()).nodes)

    return asyncio.run(describe())


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", USERS)
def test_correct_credentials_are_accepted(
    mechanism: str, name: str, server: ThreadServer
) -> None:
    assert nodes_seen(server, sasl=said_by(name, mechanism)) == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_credentials_are_rejected_without_retries(
    mechanism: str, server: ThreadServer
) -> None:
    with pytest.raises(AuthenticationFailed, match=f"rejects {mechanism}: Authenticat"):
        nodes_seen(server, sasl=said_by("alice", mechanism, "wrong"))


def ask_once(server: ThreadServer, **options: Any) -> None:
    """Send one request without retries."""

    async def send() -> None:
        address = Address(*server.addresses[0])
        connection = await BrokerConnection.open(address, ClientOptions(**options))
        await connection.call(m.ListGroupsRequest(), m.ListGroupsResponse)

    asyncio.run(send())


def test_the_error_of_a_connection_without_credentials_mentions_sasl(
    server: ThreadServer,
) -> None:
    with pytest.raises(AuthenticationFailed, match="requires SASL, which is not conf"):
        ask_once(server)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_brokers_before_kip_152_get_tokens_without_request_headers(
    mechanism: str, server: ThreadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn = BrokerConnection._learn

    def learn_less(connection: BrokerConnection, answer: Any) -> None:
        learn(connection, answer)
        del connection._versions[ApiKey.SASL_AUTHENTICATE]

    monkeypatch.setattr(BrokerConnection, "_learn", learn_less)
    assert nodes_seen(server, sasl=said_by("alice", mechanism)) == 1
    with pytest.raises(
        AuthenticationFailed, match="most likely it rejects the credentials"
    ):
        nodes_seen(server, sasl=said_by("alice", mechanism, "wrong"))


def test_a_group_member_authenticates(server: ThreadServer) -> None:
    bootstrap = "{}:{}".format(*server.addresses[0])

    async def join(credentials: Credentials) -> MemberState:
        options = ClientOptions(sasl=credentials)
        member = GroupMember(bootstrap, group_id="g", topics=["t"], client=options)
        await member.start()
        state = member.state
        await member.leave()
        return state

    assert asyncio.run(join(said_by("alice"))) is not MemberState.UNSUBSCRIBED
    with pytest.raises(AuthenticationFailed, match="rejects SCRAM-SHA-256"):
        asyncio.run(join(said_by("alice", secret="wrong")))


@pytest.mark.slow
def test_requests_continue_after_the_session_lifetime(tmp_path: Path) -> None:
    # The session expires before the second request; the client authenticates again
    # (KIP-368).

    async def describe(address: Address) -> tuple[float, bool]:
        options = ClientOptions(sasl=said_by("alice"))
        connection = await BrokerConnection.open(address, options)
        planned_s = connection._reauthenticate_at_s - asyncio.get_running_loop().time()
        connection._reauthenticate_at_s = 0.0
        await connection.call(m.ListGroupsRequest(), m.ListGroupsResponse)
        still = connection.is_open
        connection.close()
        return planned_s, still

    with secured(tmp_path, connections_max_reauth_ms=1_000_000) as running:
        planned_s, still = asyncio.run(describe(Address(*running.addresses[0])))
    assert 800 < planned_s < 860
    assert still


@pytest.mark.slow
def test_passwords_work_over_tls(certificates: Certificates, tmp_path: Path) -> None:
    context = make_context(TlsOptions(trust=certificates.authority))
    settings: dict[str, Any] = {"ssl_keystore_location": str(certificates.server)}
    with secured(tmp_path, SecurityProtocol.SASL_SSL, **settings) as running:
        assert nodes_seen(running, ssl=context, sasl=said_by("alice", "PLAIN")) == 1
        with pytest.raises(AuthenticationFailed, match="is not trusted"):
            nodes_seen(running, ssl=make_context(TlsOptions()), sasl=said_by("alice"))
        with pytest.raises(AuthenticationFailed, match="requires TLS, which is not"):
            ask_once(running, sasl=said_by("alice"))


@pytest.mark.slow
def test_the_error_mentions_a_required_client_certificate(
    certificates: Certificates,
) -> None:
    settings: dict[str, Any] = {
        "ssl_keystore_location": str(certificates.server),
        "ssl_truststore_location": str(certificates.authority),
        "ssl_client_auth": "required",
    }
    trust = certificates.authority
    shown = make_context(TlsOptions(trust=trust, certificate=certificates.alice))
    with ThreadServer(protocol=SecurityProtocol.SSL, **settings) as running:
        assert nodes_seen(running, ssl=shown) == 1
        with pytest.raises(ConnectionLost, match=r"require a client certificate\?"):
            ask_once(running, ssl=make_context(TlsOptions(trust=trust)))
