"""What a client says when TLS does not come about, and whether it may pass."""

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
WAIT_S = 30
ALERT = b"\x15\x03\x03\x00\x02\x02\x46"


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@contextmanager
def listening(greet: Greeting) -> Iterator[Address]:
    """A listener that does this to the first who calls, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client, suppress(OSError):
                greet(client)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Address("127.0.0.1", server.getsockname()[1])
        thread.join(WAIT_S)


def connect(address: Address, context: ssl.SSLContext | None = None) -> None:
    async def once() -> None:
        connection = await BrokerConnection.open(address, ClientOptions(ssl=context))
        connection.close()

    asyncio.run(once())


def saying(words: bytes) -> Greeting:
    """Hear the client out, answer with these bytes."""

    def greet(client: socket.socket) -> None:
        client.recv(1 << 16)
        client.sendall(words)

    return greet


def asking_for_a_certificate(certificates: Certificates) -> Greeting:
    """Shake hands, and end with an alert when the client has none."""
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
        with plain:  # a close with bytes unread would be a reset, faster than the alert
            while plain.recv(1 << 16):
                pass

    return greet


def test_a_broker_that_wants_tls_complains_in_tls() -> None:
    with (
        listening(saying(ALERT)) as address,
        pytest.raises(AuthenticationFailed, match="wants TLS, which is not set up"),
    ):
        connect(address)


def test_a_broker_that_speaks_no_tls_is_told() -> None:
    with (
        listening(saying(b"\0\0\0\x04\0\0\0\0")) as address,
        pytest.raises(AuthenticationFailed, match="does not speak TLS"),
    ):
        connect(address, make_context(TlsOptions()))


def test_a_broker_that_hangs_up_in_between_may_do_better_next_time() -> None:
    with (
        listening(saying(b"")) as address,
        pytest.raises(ConnectionLost, match=r"it hung up \(does it speak TLS\?\)"),
    ):
        connect(address, make_context(TlsOptions()))


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_certificate_that_is_missed_is_told(
    version: str, certificates: Certificates
) -> None:
    context = make_context(TlsOptions(trust=certificates.ca))
    context.maximum_version = ssl.TLSVersion[version]
    with (
        listening(asking_for_a_certificate(certificates)) as address,
        pytest.raises(AuthenticationFailed, match=r"no TLS connection: .* alert"),
    ):
        connect(address, context)
