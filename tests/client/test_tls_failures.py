"""Errors of failed TLS handshakes, and whether they are retriable."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from coterie.client.connection import Address, BrokerConnection
from coterie.client.options import ClientOptions
from coterie.client.tls import TlsOptions, make_context
from coterie.errors import AuthenticationFailed, ConnectionLost
from tests.client.certificates import Certificates

Greeting = Callable[[socket.socket], None]
WAIT_S = 120.0
ALERT = b"\x15\x03\x03\x00\x02\x02\x46"


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@contextmanager
def listening(greet: Greeting) -> Iterator[Address]:
    """Listen, run a function on the first connection, and refuse further ones."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            server.close()
            with client, suppress(OSError):
                greet(client)

        address = Address("127.0.0.1", server.getsockname()[1])
        thread = threading.Thread(target=serve)
        thread.start()
        yield address
        thread.join(WAIT_S)


def connect(address: Address, context: ssl.SSLContext | None = None) -> None:
    async def once() -> None:
        connection = await BrokerConnection.open(address, ClientOptions(ssl=context))
        connection.close()

    asyncio.run(once())


def sending(words: bytes) -> Greeting:
    """Return a function that reads the client's bytes, then sends the given bytes."""

    def greet(client: socket.socket) -> None:
        client.recv(1 << 16)
        client.sendall(words)

    return greet


def asking_for_a_certificate(certificates: Certificates) -> Greeting:
    """Return a function that runs a handshake, which ends with an alert when the client
    has no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates.authority.issue_cert("127.0.0.1").configure_cert(context)
    certificates.authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED

    def greet(client: socket.socket) -> None:
        secured = context.wrap_socket(
            client, server_side=True, do_handshake_on_connect=False
        )
        with suppress(ssl.SSLError):
            secured.do_handshake()
        plain = socket.socket(fileno=secured.detach())
        with plain:  # a close with unread bytes sends a reset, before the alert
            while plain.recv(1 << 16):
                pass

    return greet


def test_a_tls_alert_is_reported_as_required_tls() -> None:
    with (
        listening(sending(ALERT)) as address,
        pytest.raises(
            AuthenticationFailed, match="requires TLS, which is not configured"
        ),
    ):
        connect(address)


def test_a_broker_without_tls_is_reported() -> None:
    with (
        listening(sending(b"\0\0\0\x04\0\0\0\0")) as address,
        pytest.raises(AuthenticationFailed, match="does not use TLS"),
    ):
        connect(address, make_context(TlsOptions()))


def test_a_connection_reset_during_the_tls_handshake_is_retriable() -> None:
    with (
        listening(sending(b"")) as address,
        pytest.raises(
            ConnectionLost,
            match=r"the connection was reset \(does the listener use TLS\?\)",
        ),
    ):
        connect(address, make_context(TlsOptions()))


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_missing_client_certificate_is_reported(
    version: str, certificates: Certificates
) -> None:
    context = make_context(TlsOptions(trust=certificates.ca))
    context.maximum_version = ssl.TLSVersion[version]
    with (
        listening(asking_for_a_certificate(certificates)) as address,
        pytest.raises(AuthenticationFailed, match=r"no TLS connection: .* alert"),
    ):
        connect(address, context)
