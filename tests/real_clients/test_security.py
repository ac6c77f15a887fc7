"""Authentication of real clients: TLS, certificates, PLAIN and SCRAM."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.broker.server.secured import (
    MECHANISMS,
    USERS,
    Certificates,
    make_certificates,
    users_file,
)
from tests.real_clients.client_settings import ANSWER_S, ROUNDS, Access
from tests.support.server_process import start_server
from tests.support.waiting import eventually

from .conftest import SETTINGS

pytestmark = pytest.mark.slow

Start = Callable[..., Access]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def start(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[Start]:
    """A function that starts a server for a security protocol, or returns a running
    one.
    """
    running: dict[tuple[str, Sequence[str]], Access] = {}

    def begin(protocol: str, *settings: str) -> Access:
        if (protocol, settings) not in running:
            users = users_file(tmp_path_factory.mktemp("server"))
            server = start_server(
                *(part for setting in settings for part in ("--set", setting)),
                settings={
                    **SETTINGS,
                    # Wrong passwords of one test must not delay the others.
                    "sasl.failure.backoff.ms": 0,
                    "sasl.users.file": users,
                    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                    "ssl.keystore.location": certificates.server,
                    "ssl.truststore.location": certificates.authority,
                },
                listen=f"{protocol}://127.0.0.1:0",
            )
            stack.enter_context(server)
            access = Access(server.bootstrap, protocol, certificates)
            running[protocol, settings] = access
        return running[protocol, settings]

    with ExitStack() as stack:
        yield begin


def known(access: Access, mechanism: str, user: str = "bob") -> Access:
    return replace(access, mechanism=mechanism, user=user, password=USERS[user])


# Successful authentication.


@pytest.mark.parametrize("client", ROUNDS)
def test_a_client_works_over_tls(start: Start, client: str, name: str) -> None:
    assert ROUNDS[client](start("SSL"), name, name) == [f"by {client}".encode()]


@pytest.mark.parametrize("client", ROUNDS)
def test_a_client_works_with_a_required_certificate(
    start: Start, client: str, name: str
) -> None:
    access = start("SSL", "ssl.client.auth=required")
    access = replace(access, with_certificate=True)
    assert ROUNDS[client](access, name, name) == [f"by {client}".encode()]


@pytest.mark.fact("G4-05")
@pytest.mark.parametrize("client", ROUNDS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_client_works_with_a_password(
    start: Start, protocol: str, mechanism: str, client: str, name: str
) -> None:
    access = known(start(protocol), mechanism)
    assert ROUNDS[client](access, name, name) == [f"by {client}".encode()]


def test_clients_re_authenticate_without_losing_records(
    start: Start, name: str
) -> None:
    """Run past the SASL session: librdkafka re-authenticates after 90 % (KIP-368)."""
    access = known(
        start("SASL_PLAINTEXT", "connections.max.reauth.ms=6000"), "SCRAM-SHA-256"
    )
    lost: list[str] = []
    sent: list[bytes] = []
    settings = access.librdkafka(error_cb=lambda error: lost.append(str(error)))
    producer = Producer(settings)

    def deliver(error: object, message: object) -> None:
        assert error is None
        sent.append(b"")

    def has_sent() -> bool:
        producer.produce(name, b"x", on_delivery=deliver)
        assert producer.flush(ANSWER_S) == 0
        return len(sent) >= 130

    eventually(has_sent, expected="130 records over two sessions")
    assert lost == []


# Failed authentication.


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_confluent_reports_a_wrong_password(
    start: Start, protocol: str, mechanism: str
) -> None:
    access = replace(known(start(protocol), mechanism), password="wrong")
    errors: list[KafkaError] = []
    producer = Producer(access.librdkafka(error_cb=errors.append))
    eventually(lambda: bool(producer.poll(0.1) or errors), expected="an error")
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert "Authentication failed" in errors[0].str()


def test_kafka_python_reports_a_wrong_password(start: Start) -> None:
    """Use a separate process: a failed start leaves sockets open."""
    access = replace(known(start("SASL_PLAINTEXT"), "SCRAM-SHA-512"), password="wrong")
    program = (
        "import logging, kafka; logging.basicConfig(); "
        f"kafka.KafkaProducer(bootstrap_timeout_ms=60_000, **{access.python()!r})"
    )
    command = [sys.executable, "-W", "ignore", "-c", program]
    error = "SaslAuthenticationFailedError: Authentication failed"
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as client:
        assert client.stderr is not None
        # The client logs the error at once, and tries again until its time-out.
        assert any(error in line for line in client.stderr)
        client.kill()


def test_aiokafka_reports_a_wrong_password(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    access = replace(known(start("SASL_PLAINTEXT"), "PLAIN"), password="wrong")

    async def begin() -> None:
        producer = AIOKafkaProducer(**access.python())
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(KafkaConnectionError):
        asyncio.run(begin())
    assert "SaslAuthenticationFailed: Authentication failed: Invalid" in caplog.text


@pytest.mark.parametrize(
    ("server", "client"),
    [
        ("SSL", "PLAINTEXT"),
        ("SASL_PLAINTEXT", "PLAINTEXT"),
        ("SASL_PLAINTEXT", "SSL"),
        ("SASL_SSL", "SASL_PLAINTEXT"),
    ],
)
def test_a_wrong_security_protocol_does_not_affect_other_clients(
    start: Start, server: str, client: str, name: str
) -> None:
    access = known(start(server), "PLAIN")
    errors: list[KafkaError] = []
    wrong = replace(access, protocol=client).librdkafka(error_cb=errors.append)
    producer = Producer(wrong)
    eventually(lambda: bool(producer.poll(0.1) or errors), expected="an error")
    if not access.protocol.startswith("SASL"):
        access = replace(access, mechanism="")
    assert ROUNDS["aiokafka"](access, name, name) == [b"by aiokafka"]


# Users.


def test_a_client_creates_and_deletes_users(start: Start, name: str) -> None:
    """Create a user with confluent-kafka, and authenticate it with kafka-python."""
    access = known(start("SASL_SSL"), "SCRAM-SHA-256", "alice")
    admin = AdminClient(access.librdkafka())
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8_192)
    added = UserScramCredentialUpsertion(name, info, b"the new secret")
    admin.alter_user_scram_credentials([added])[name].result(ANSWER_S)
    described: Any = admin.describe_user_scram_credentials([name])
    (held,) = described[name].result(ANSWER_S).scram_credential_infos
    assert (held.mechanism, held.iterations) == (ScramMechanism.SCRAM_SHA_512, 8_192)
    them = replace(
        access, mechanism="SCRAM-SHA-512", user=name, password="the new secret"
    )
    assert ROUNDS["kafka-python"](them, name, name) == [b"by kafka-python"]
    plain = replace(them, mechanism="PLAIN")
    assert ROUNDS["aiokafka"](plain, name, f"{name}-2") == [b"by kafka-python"]
    gone = UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([gone])[name].result(ANSWER_S)
    errors: list[KafkaError] = []
    producer = Producer(them.librdkafka(error_cb=errors.append))
    eventually(lambda: bool(producer.poll(0.1) or errors), expected="an error")
    assert errors[0].code() == KafkaError._AUTHENTICATION


def test_an_acknowledged_credential_survives_a_killed_server(
    tmp_path: Path, certificates: Certificates
) -> None:
    data = tmp_path / "data"
    settings = {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    listen = "SASL_PLAINTEXT://127.0.0.1:0"
    server = start_server(
        data=data,
        settings={**settings, "sasl.users.file": users_file(tmp_path)},
        listen=listen,
    )
    access = Access(server.bootstrap, "SASL_PLAINTEXT", certificates)
    admin = AdminClient(known(access, "SCRAM-SHA-256", "alice").librdkafka())
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096)
    added = UserScramCredentialUpsertion("carol", info, b"carol's secret")
    admin.alter_user_scram_credentials([added])["carol"].result(ANSWER_S)
    server.kill()
    with start_server(data=data, settings=settings, listen=listen) as restarted:
        access = replace(access, bootstrap=restarted.bootstrap)
        for user, password in [*USERS.items(), ("carol", "carol's secret")]:
            them = replace(
                access, mechanism="SCRAM-SHA-256", user=user, password=password
            )
            admin = AdminClient(them.librdkafka())
            admin.create_topics([NewTopic(user, 1, 1)])[user].result(ANSWER_S)
