"""Real clients say who they are: TLS, certificates, PLAIN, SCRAM, right and wrong."""

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

from tests.server.secured import (
    MECHANISMS,
    USERS,
    Certificates,
    make_certificates,
    users_file,
)

from .conftest import ARGUMENTS
from .process import ServerProcess
from .secured import ANSWER_S, ROUNDS, Access
from .waiting import eventually

pytestmark = pytest.mark.slow

Start = Callable[..., Access]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def start(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[Start]:
    """Starts a server of a protocol, or gives the one that runs already."""
    running: dict[tuple[str, Sequence[str]], Access] = {}

    def begin(protocol: str, *settings: str) -> Access:
        if (protocol, settings) not in running:
            directory = tmp_path_factory.mktemp("server")
            given = [
                f"sasl.users.file={users_file(directory)}",
                f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
                f"ssl.keystore.location={certificates.server}",
                f"ssl.truststore.location={certificates.authority}",
                *settings,
            ]
            server = ServerProcess(
                directory,
                "--memory",
                *ARGUMENTS,
                *(part for one in given for part in ("--set", one)),
                listen=f"{protocol}://127.0.0.1:0",
            )
            stack.callback(server.stop)
            running[protocol, settings] = Access(server.address, protocol, certificates)
        return running[protocol, settings]

    with ExitStack() as stack:
        yield begin


def known(access: Access, mechanism: str, user: str = "bob") -> Access:
    return replace(access, mechanism=mechanism, user=user, password=USERS[user])


# In.


@pytest.mark.parametrize("client", ROUNDS)
def test_over_tls_a_client_works_as_ever(start: Start, client: str, name: str) -> None:
    assert ROUNDS[client](start("SSL"), name, name) == [f"by {client}".encode()]


@pytest.mark.parametrize("client", ROUNDS)
def test_with_a_certificate_that_is_asked_for_a_client_works(
    start: Start, client: str, name: str
) -> None:
    access = start("SSL", "ssl.client.auth=required")
    access = replace(access, with_certificate=True)
    assert ROUNDS[client](access, name, name) == [f"by {client}".encode()]


@pytest.mark.fact("G4-05")
@pytest.mark.parametrize("client", ROUNDS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_with_a_password_a_client_works(
    start: Start, protocol: str, mechanism: str, client: str, name: str
) -> None:
    access = known(start(protocol), mechanism)
    assert ROUNDS[client](access, name, name) == [f"by {client}".encode()]


def test_clients_say_again_who_they_are_and_lose_nothing(
    start: Start, name: str
) -> None:
    """librdkafka begins again when nine tenths of a session are over (KIP-368)."""
    access = known(
        start("SASL_PLAINTEXT", "connections.max.reauth.ms=3000"), "SCRAM-SHA-256"
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
        return len(sent) >= 70

    eventually(has_sent, wanted="70 records over three sessions")
    assert lost == []


# Not in.


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_confluent_hears_that_its_password_is_wrong(
    start: Start, protocol: str, mechanism: str
) -> None:
    access = replace(known(start(protocol), mechanism), password="wrong")
    errors: list[KafkaError] = []
    producer = Producer(access.librdkafka(error_cb=errors.append))
    eventually(lambda: bool(producer.poll(0.1) or errors), wanted="an error")
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert "Authentication failed" in errors[0].str()


def test_kafka_python_hears_that_its_password_is_wrong(start: Start) -> None:
    """In a process of its own: it leaves its sockets open when it cannot begin."""
    access = replace(known(start("SASL_PLAINTEXT"), "SCRAM-SHA-512"), password="wrong")
    program = (
        "import logging, kafka; logging.basicConfig(); "
        f"kafka.KafkaProducer(bootstrap_timeout_ms=2_000, **{access.python()!r})"
    )
    command = [sys.executable, "-W", "ignore", "-c", program]
    ended = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert "SaslAuthenticationFailedError: Authentication failed" in ended.stderr


def test_aiokafka_hears_that_its_password_is_wrong(
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
def test_a_client_of_another_protocol_hears_no_and_harms_nobody(
    start: Start, server: str, client: str, name: str
) -> None:
    access = known(start(server), "PLAIN")
    errors: list[KafkaError] = []
    wrong = replace(access, protocol=client).librdkafka(error_cb=errors.append)
    producer = Producer(wrong)
    eventually(lambda: bool(producer.poll(0.1) or errors), wanted="an error")
    if not access.protocol.startswith("SASL"):
        access = replace(access, mechanism="")
    assert ROUNDS["aiokafka"](access, name, name) == [b"by aiokafka"]


# Users.


def test_users_are_made_and_taken_away_by_a_client(start: Start, name: str) -> None:
    """confluent-kafka's admin client; the user then comes in by kafka-python."""
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
    eventually(lambda: bool(producer.poll(0.1) or errors), wanted="an error")
    assert errors[0].code() == KafkaError._AUTHENTICATION


def test_a_user_is_kept_when_the_server_is_killed(
    tmp_path: Path, certificates: Certificates
) -> None:
    """A credential that was answered for is durable (kill -9)."""
    settings = (
        *("--data", str(tmp_path / "data")),
        *("--set", "sasl.enabled.mechanisms=SCRAM-SHA-256"),
    )
    listen = "SASL_PLAINTEXT://127.0.0.1:0"
    file = ("--set", f"sasl.users.file={users_file(tmp_path)}")
    server = ServerProcess(tmp_path / "first", *settings, *file, listen=listen)
    access = Access(server.address, "SASL_PLAINTEXT", certificates)
    admin = AdminClient(known(access, "SCRAM-SHA-256", "alice").librdkafka())
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096)
    added = UserScramCredentialUpsertion("carol", info, b"carol's secret")
    admin.alter_user_scram_credentials([added])["carol"].result(ANSWER_S)
    server.kill()
    again = ServerProcess(tmp_path / "second", *settings, listen=listen)
    try:
        access = replace(access, bootstrap=again.address)
        for user, password in [*USERS.items(), ("carol", "carol's secret")]:
            them = replace(
                access, mechanism="SCRAM-SHA-256", user=user, password=password
            )
            admin = AdminClient(them.librdkafka())
            admin.create_topics([NewTopic(user, 1, 1)])[user].result(ANSWER_S)
    finally:
        again.stop()
