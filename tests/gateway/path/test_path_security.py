"""TLS on both sides of the data path, and SASL through it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.auth.acl import ANONYMOUS, Principal
from coterie.broker.runtime.system import steady_clock
from coterie.broker.server.connections import Connections
from coterie.gateway.path.sasl import SaslExchange
from coterie.types import SecurityProtocol
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import ThreadServer, WireClient
from tests.broker.server.secured import (
    Certificates,
    handshake,
    make_certificates,
    plain_token,
    send_bare,
    sign_in,
    users_file,
)
from tests.gateway.path.gateway import ThreadGateway, brokers_of
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    """A server that requires SASL."""
    users = users_file(tmp_path_factory.mktemp("users"))
    with ThreadServer(
        protocol=SecurityProtocol.SASL_PLAINTEXT,
        sasl_users_file=str(users),
        sasl_enabled_mechanisms=("PLAIN", "SCRAM-SHA-256"),
        connection_failed_authentication_delay_ms=0,
    ) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(secured: ThreadServer) -> Iterator[ThreadGateway]:
    clock = steady_clock()
    with ThreadGateway(
        brokers_of(secured.addresses),
        has_topics=False,
        new_exchange=lambda: SaslExchange(clock),
    ) as running:
        yield running


def heartbeat(client: WireClient) -> int:
    sent = m.HeartbeatRequest(group_id="g", member_id="m")
    code: int = client.call(sent).error_code
    return code


def _authenticate(token: bytes) -> m.SaslAuthenticateRequest:
    return m.SaslAuthenticateRequest(auth_bytes=token)


async def _abort(connections: Connections) -> None:
    connections.abort()


def principals(gateway: ThreadGateway) -> list[Principal]:
    return [
        side._groups.principal for side in gateway.sides() if side._groups is not None
    ]


def test_tls_on_both_sides(certificates: Certificates) -> None:
    files: dict[str, Any] = {
        "ssl_keystore_location": str(certificates.server),
        "ssl_truststore_location": str(certificates.authority),
        "ssl_client_auth": "requested",
    }
    with (
        ThreadServer(protocol=SecurityProtocol.SSL, **files) as upstream,
        ThreadGateway(
            brokers_of(upstream.addresses),
            protocol=SecurityProtocol.SSL,
            tls=certificates.client(),
            **files,
        ) as gateway,
        gateway.client(0, tls=certificates.client()) as anonymous,
        gateway.client(
            tls=certificates.client(certificate=certificates.alice)
        ) as alice,
    ):
        for client in (anonymous, alice):
            client.send(m.MetadataRequest())
            client.send(m.HeartbeatRequest(group_id="g", member_id="m"))
            assert client.receive().brokers
            assert client.receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID
        names = sorted(each.name for each in principals(gateway))
    assert names[0] == "ANONYMOUS"
    assert "CN=alice" in names[1]


def test_a_node_that_stops_closes_what_its_clients_left_upstream(
    certificates: Certificates,
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        ThreadGateway(
            brokers_of([listener.getsockname()]),
            has_topics=False,
            tls=certificates.client(),
        ) as gateway,
    ):
        with gateway.client(0):
            accepted, _ = listener.accept()
            broker = context.wrap_socket(accepted, server_side=True)
            eventually(lambda: gateway.path.connected, expected="the TLS handshake")
        with broker:  # which does not answer that the gateway closes
            eventually(lambda: not gateway.path.connections, expected="a lost client")
            assert gateway.path.connected
            gateway.run(gateway._stop())
            assert not gateway.path.connected


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("broker", [None, 0])
def test_sasl_is_forwarded_and_names_the_principal(
    gateway: ThreadGateway, mechanism: str, broker: int | None
) -> None:
    with gateway.client(broker) as client:
        assert sign_in(client, mechanism=mechanism).error_code == 0
        assert heartbeat(client) == ErrorCode.UNKNOWN_MEMBER_ID
        assert client.call(m.MetadataRequest()).brokers
        assert Principal("User", "alice") in principals(gateway)
        assert ANONYMOUS not in principals(gateway)


def test_bare_tokens_are_forwarded(gateway: ThreadGateway) -> None:
    with gateway.client(0) as client:
        assert handshake(client, "PLAIN", 0).error_code == 0
        assert send_bare(client, plain_token("alice", "alice's secret")) == b""
        assert heartbeat(client) == ErrorCode.UNKNOWN_MEMBER_ID
        assert client.call(m.MetadataRequest()).brokers


def test_a_request_for_a_group_needs_authentication(gateway: ThreadGateway) -> None:
    with gateway.client() as client:
        client.send(m.HeartbeatRequest(group_id="g", member_id="m"))
        assert client.is_closed()


def test_a_request_for_a_group_does_not_overtake_the_authentication(
    gateway: ThreadGateway,
) -> None:
    with gateway.client(0) as client:
        assert handshake(client, "PLAIN").error_code == 0
        token = plain_token("alice", "wrong")
        sent = client.frame(_authenticate(token), 2)[0]
        sent += client.frame(m.HeartbeatRequest(group_id="g", member_id="m"))[0]
        client.socket.sendall(sent)

        code = client.receive().error_code
        assert code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed()


def test_a_pipelined_request_is_served_after_the_authentication(
    gateway: ThreadGateway,
) -> None:
    with gateway.client(0) as client:
        assert handshake(client, "PLAIN").error_code == 0
        token = plain_token("alice", "alice's secret")
        sent = client.frame(_authenticate(token), 2)[0]
        sent += client.frame(m.HeartbeatRequest(group_id="g", member_id="m"))[0]
        sent += client.frame(m.MetadataRequest())[0]
        client.socket.sendall(sent)

        assert client.receive().error_code == 0
        assert client.receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert client.receive().brokers


def test_a_token_that_the_gateway_cannot_read_is_refused(
    gateway: ThreadGateway,
) -> None:
    with gateway.client(0) as client:
        assert handshake(client, "PLAIN").error_code == 0
        refused = client.call(_authenticate(b"bob\0alice\0alice's secret"), 2)
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed()


def test_authenticated_coordination_closes_only_to_forward(tmp_path: Path) -> None:
    users = users_file(tmp_path)
    clock = steady_clock()
    with (
        ThreadServer(
            protocol=SecurityProtocol.SASL_PLAINTEXT, sasl_users_file=str(users)
        ) as upstream,
        ThreadGateway(
            brokers_of(upstream.addresses),
            has_topics=False,
            new_exchange=lambda: SaslExchange(clock),
        ) as gateway,
        gateway.client() as client,
    ):
        assert sign_in(client).error_code == 0
        assert heartbeat(client) == ErrorCode.UNKNOWN_MEMBER_ID
        listener = upstream.server._listener
        assert listener is not None
        upstream.run(_abort(listener.connections))
        (side,) = gateway.sides()
        eventually(lambda: side._upstream is None, expected="upstream is lost")

        assert heartbeat(client) == ErrorCode.UNKNOWN_MEMBER_ID
        client.send(m.MetadataRequest())
        assert client.is_closed()


def test_a_failed_reauthentication_ends_the_requests_for_groups(
    gateway: ThreadGateway,
) -> None:
    before = gateway.sides()
    with gateway.client() as client:
        assert sign_in(client).error_code == 0
        assert heartbeat(client) == ErrorCode.UNKNOWN_MEMBER_ID
        (side,) = gateway.sides() - before
        assert side._exchange is not None
        side._exchange._principal = None
        client.send(m.HeartbeatRequest(group_id="g", member_id="m"))
        assert client.is_closed()
