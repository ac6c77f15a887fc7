"""Clients with another security protocol than the listener fail without retries, with
an error that names the protocol to use."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.client import AdminClient
from coterie.client.options import ClientOptions
from coterie.client.sasl import Plain
from coterie.client.secret import Secret
from coterie.client.tls import TlsOptions, make_context
from coterie.errors import AuthenticationFailed, ConnectionLost
from coterie.types import SecurityProtocol
from tests.broker.server.harness import ThreadServer
from tests.broker.server.secured import (
    MECHANISMS,
    USERS,
    make_certificates,
    users_file,
)

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = SecurityProtocol
WAIT_S = 60
TLS = "requires TLS, which is not configured: security.protocol is {}; set it to {}"
NO_TLS = "does not use TLS: security.protocol is {}; .*, or set it to {}"
SASL = (
    "requires SASL, which is not configured: security.protocol is {}; set it to {}, "
    "with credentials, and sasl.mechanism to one that it supports: PLAIN, SCRAM-SHA-256"
)
NO_SASL = "is a listener without SASL: security.protocol is {}; .*, or set it to {}$"

pytestmark = pytest.mark.slow


class Listeners:
    """A server with each security protocol, and options of clients."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        certificates = make_certificates(folder)
        self._trust = certificates.authority
        self.addresses = {}
        for protocol in SecurityProtocol:
            settings: dict[str, Any] = {}
            if protocol.has_tls:
                settings["ssl_keystore_location"] = str(certificates.server)
            if protocol.has_sasl:
                settings["sasl_enabled_mechanisms"] = MECHANISMS
                settings["sasl_users_file"] = str(users_file(folder))
            server = stack.enter_context(ThreadServer(protocol=protocol, **settings))
            self.addresses[protocol] = "{}:{}".format(*server.addresses[0])

    def describe(self, listener: SecurityProtocol, client: SecurityProtocol) -> int:
        """Return the number of nodes that a client describes."""
        tls = make_context(TlsOptions(trust=self._trust)) if client.has_tls else None
        alice = Plain("alice", Secret(USERS["alice"])) if client.has_sasl else None
        # The test's own limit ends a client that retries.
        options = ClientOptions(ssl=tls, sasl=alice, api_timeout_ms=10**9)

        async def describe() -> int:
            async with AdminClient(self.addresses[listener], options) as admin:
                return len((await admin.brokers.describe()).nodes)

        return asyncio.run(describe())


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    with contextlib.ExitStack() as stack:
        yield Listeners(tmp_path_factory.mktemp("listeners"), stack)


@pytest.mark.parametrize(
    ("listener", "client", "message", "wanted"),
    [
        (PLAINTEXT, SSL, NO_TLS, "PLAINTEXT"),
        (PLAINTEXT, SASL_PLAINTEXT, NO_SASL, "PLAINTEXT"),
        (PLAINTEXT, SASL_SSL, NO_TLS, "SASL_PLAINTEXT"),
        (SSL, PLAINTEXT, TLS, "SSL, or SASL_SSL with credentials"),
        (SSL, SASL_PLAINTEXT, TLS, "SASL_SSL"),
        (SSL, SASL_SSL, NO_SASL, "SSL"),
        (SASL_PLAINTEXT, PLAINTEXT, SASL, "SASL_PLAINTEXT"),
        (SASL_PLAINTEXT, SSL, NO_TLS, "PLAINTEXT"),
        (SASL_PLAINTEXT, SASL_SSL, NO_TLS, "SASL_PLAINTEXT"),
        (SASL_SSL, PLAINTEXT, TLS, "SSL, or SASL_SSL with credentials"),
        (SASL_SSL, SSL, SASL, "SASL_SSL"),
        (SASL_SSL, SASL_PLAINTEXT, TLS, "SASL_SSL"),
    ],
    ids=lambda each: each if isinstance(each, SecurityProtocol) else "",
)
def test_another_protocol_than_the_listener_s_is_not_retried(
    listeners: Listeners,
    listener: SecurityProtocol,
    client: SecurityProtocol,
    message: str,
    wanted: str,
) -> None:
    with pytest.raises(AuthenticationFailed, match=message.format(client, wanted)):
        listeners.describe(listener, client)


@pytest.mark.parametrize("protocol", SecurityProtocol)
def test_the_protocol_of_the_listener_is_accepted(
    listeners: Listeners, protocol: SecurityProtocol
) -> None:
    assert listeners.describe(protocol, protocol) == 1


@pytest.mark.parametrize("client", [PLAINTEXT, SSL])
def test_a_listener_that_closes_every_connection_is_retried(
    client: SecurityProtocol, listeners: Listeners
) -> None:
    # A proxy accepts and closes connections while the broker behind it restarts.
    context = make_context(TlsOptions()) if client.has_tls else None
    options = ClientOptions(ssl=context, api_timeout_ms=10**9)

    async def describe() -> bool:
        accepted: list[int] = []
        is_retried = asyncio.Event()

        async def accept(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            accepted.append(1)
            if len(accepted) >= 6:  # the request and its probe, of several attempts
                is_retried.set()
            await reader.read(1)
            writer.close()

        proxy = await asyncio.start_server(accept, "127.0.0.1", 0)
        host, port = proxy.sockets[0].getsockname()
        async with AdminClient(f"{host}:{port}", options) as admin:
            call = asyncio.create_task(admin.brokers.describe())
            await asyncio.wait_for(is_retried.wait(), WAIT_S)
            is_pending = not call.done()
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionLost):
                await call
        proxy.close()
        return is_pending

    assert asyncio.run(describe())
