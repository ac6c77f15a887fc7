"""TLS: certificates, principals, and errors at start-up."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from coterie.auth.acl import ANONYMOUS, Principal
from coterie.auth.sasl import no_credential
from coterie.broker.server import log_limit
from coterie.broker.server.client_connection import ClientConnection
from coterie.broker.server.security import Security
from coterie.errors import SettingError
from coterie.settings import Settings
from coterie.types import SecurityProtocol
from coterie.wire import messages as m
from tests.broker.server.harness import ThreadServer
from tests.broker.server.secured import (
    Certificates,
    make_certificates,
    sign_in,
    users_file,
)

SSL, SASL_SSL = SecurityProtocol.SSL, SecurityProtocol.SASL_SSL


@pytest.fixture(autouse=True)
def _every_log_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_limit, "INTERVAL_S", 0.0)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def settings_of(certificates: Certificates, **more: Any) -> dict[str, Any]:
    return {
        "ssl_keystore_location": str(certificates.server),
        "ssl_truststore_location": str(certificates.authority),
        **more,
    }


@pytest.fixture(scope="module")
def server(certificates: Certificates) -> Iterator[ThreadServer]:
    asked = settings_of(certificates, ssl_client_auth="requested")
    with ThreadServer(protocol=SSL, **asked) as running:
        yield running


def principals(server: ThreadServer) -> set[Principal]:
    listener = server.server._listener
    assert listener is not None
    return {
        each.principal
        for each in listener.connections
        if isinstance(each, ClientConnection)
    }


# Accepted clients.


def test_a_client_that_trusts_the_authority_is_served_as_anonymous(
    server: ThreadServer, certificates: Certificates
) -> None:
    with server.client(tls=certificates.client()) as client:
        assert client.call(m.MetadataRequest(topics=[])).brokers
        assert principals(server) == {ANONYMOUS}


def test_a_client_certificate_sets_the_principal(
    server: ThreadServer, certificates: Certificates
) -> None:
    tls = certificates.client(certificate=certificates.alice)
    with server.client(tls=tls) as client:
        client.call(m.ApiVersionsRequest(), 2)
        name = r"CN=alice,OU=Tests,O=Example\, Inc."
        assert principals(server) == {Principal("User", name)}


def test_mapping_rules_shorten_the_principal(certificates: Certificates) -> None:
    settings = settings_of(
        certificates,
        ssl_client_auth="required",
        ssl_principal_mapping_rules="RULE:^CN=([^,]+),.*$/$1/U",
    )
    tls = certificates.client(certificate=certificates.alice)
    with (
        ThreadServer(protocol=SSL, **settings) as server,
        server.client(tls=tls) as client,
    ):
        client.call(m.ApiVersionsRequest(), 2)
        assert principals(server) == {Principal("User", "ALICE")}


def test_sasl_authenticates_over_tls(
    certificates: Certificates, tmp_path: Path
) -> None:
    settings = settings_of(certificates, sasl_users_file=str(users_file(tmp_path)))
    with (
        ThreadServer(protocol=SASL_SSL, **settings) as server,
        server.client(tls=certificates.client()) as client,
    ):
        assert sign_in(client).error_code == 0
        assert principals(server) == {Principal("User", "alice")}


def test_advertised_listeners_include_the_protocol(
    server: ThreadServer, certificates: Certificates
) -> None:
    wanted = m.DescribeConfigsResource(
        resource_type=4,
        resource_name="1",
        configuration_keys=["advertised.listeners", "ssl.key.password"],
    )
    with server.client(tls=certificates.client()) as client:
        answer = client.call(m.DescribeConfigsRequest(resources=[wanted]), 4)
    host, port = server.addresses[0]
    listeners, secret = answer.results[0].configs
    assert listeners.value == f"SSL://{host}:{port}"
    assert (secret.value, secret.is_sensitive) == (None, True)


# Refused clients.


def test_a_missing_required_certificate_is_refused(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    settings = settings_of(certificates, ssl_client_auth="required")
    with (
        ThreadServer(protocol=SSL, **settings) as server,
        pytest.raises((ssl.SSLError, EOFError, OSError)),
        server.client(tls=certificates.client()) as client,
    ):
        client.call(m.ApiVersionsRequest(), 2)
    assert "a TLS handshake failed: PEER_DID_NOT_RETURN_A_CERTIFICATE" in caplog.text


def test_a_certificate_of_another_authority_is_refused(
    server: ThreadServer, certificates: Certificates, tmp_path: Path
) -> None:
    foreign = make_certificates(tmp_path)
    tls = certificates.client(certificate=foreign.alice)
    with (
        pytest.raises((ssl.SSLError, EOFError, OSError)),
        server.client(tls=tls) as client,
    ):
        client.call(m.ApiVersionsRequest(), 2)


def test_a_certificate_that_no_rule_matches_is_disconnected(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_of(
        certificates,
        ssl_client_auth="required",
        ssl_principal_mapping_rules="RULE:^CN=bob$/bob/",
    )
    tls = certificates.client(certificate=certificates.alice)
    with (
        ThreadServer(protocol=SSL, **settings) as server,
        server.client(tls=tls) as client,
    ):
        assert client.is_closed()
    assert "no rule of ssl.principal.mapping.rules matches CN=alice" in caplog.text


def test_a_plaintext_client_of_a_tls_listener_does_not_affect_others(
    server: ThreadServer, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with server.client() as plain:
        plain.send(m.ApiVersionsRequest(), 2)
        while not _is_cut_off(plain.socket):
            pass  # a TLS alert precedes the end of the connection
    with server.client(tls=certificates.client()) as client:
        assert client.call(m.ApiVersionsRequest(), 2).error_code == 0
    assert "a TLS handshake failed" in caplog.text
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_a_tls_client_of_a_plaintext_listener_does_not_affect_others(
    certificates: Certificates,
) -> None:
    with ThreadServer() as server:
        with pytest.raises((ssl.SSLError, OSError)):
            server.client(tls=certificates.client())
        with server.client() as client:
            assert client.call(m.ApiVersionsRequest(), 2).error_code == 0


def test_a_connection_without_a_handshake_times_out(certificates: Certificates) -> None:
    settings = settings_of(certificates, connection_authentication_timeout_ms=100)
    with (
        ThreadServer(protocol=SSL, **settings) as server,
        socket.create_connection(server.addresses[0], timeout=300) as silent,
    ):
        assert _is_cut_off(silent)


def _is_cut_off(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


# Start-up.


def refusal(protocol: SecurityProtocol = SSL, **values: Any) -> str:
    with pytest.raises(SettingError) as refused:
        Security(protocol, Settings(**values), no_credential, no_credential)
    return str(refused.value)


def test_tls_needs_an_existing_keystore(tmp_path: Path) -> None:
    assert "ssl.keystore.location must name a PEM file" in refusal()
    missing = refusal(ssl_keystore_location=str(tmp_path / "none.pem"))
    assert missing.endswith("none.pem cannot be read: No such file or directory")


def test_a_keystore_needs_a_key_and_its_certificate(
    certificates: Certificates, tmp_path: Path
) -> None:
    for text, message in [
        ("nothing", "it has no certificate"),
        (certificates.authority.read_text(), "it has no private key"),
        ("BEGIN CERTIFICATE, PRIVATE KEY", "it cannot be read"),
    ]:
        path = tmp_path / "wrong.pem"
        path.write_text(text)
        assert message in refusal(ssl_keystore_location=str(path))
    mixed = tmp_path / "mixed.pem"
    other = trustme.CA().issue_cert("other")
    other.private_key_pem.write_to_path(str(mixed))
    other_chain = certificates.server.read_text().partition("-----BEGIN CERTIFICATE")
    with mixed.open("a") as opened:
        opened.write("".join(other_chain[1:]))
    text = refusal(ssl_keystore_location=str(mixed))
    assert "its key does not belong to its first certificate" in text


@pytest.mark.parametrize(
    ("password", "message"),
    [
        ("", "its key is encrypted, and ssl.key.password is not set"),
        ("wrong", "ssl.key.password does not decrypt its key"),
    ],
)
def test_an_encrypted_key_needs_its_password(
    tmp_path: Path, password: str, message: str
) -> None:
    path = encrypted(tmp_path)
    Security(
        SSL,
        Settings(ssl_keystore_location=str(path), ssl_key_password="right"),
        no_credential,
        no_credential,
    )
    text = refusal(ssl_keystore_location=str(path), ssl_key_password=password)
    assert message in text


def encrypted(directory: Path) -> Path:
    from cryptography.hazmat.primitives import serialization

    made = trustme.CA().issue_cert("localhost")
    key = serialization.load_pem_private_key(made.private_key_pem.bytes(), None)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"right"),
    )
    path = directory / "encrypted.pem"
    path.write_bytes(pem + made.cert_chain_pems[0].bytes())
    return path


def test_client_certificates_need_a_truststore(
    certificates: Certificates, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {
        "ssl_keystore_location": str(certificates.server),
        "ssl_client_auth": "required",
    }
    assert "as ssl.client.auth is required" in refusal(**asked)
    nowhere = refusal(ssl_truststore_location=str(tmp_path / "none"), **asked)
    assert "ssl.truststore.location" in nowhere
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    assert "not a PEM file of certificates" in refusal(
        ssl_truststore_location=str(empty), **asked
    )


def test_with_sasl_no_certificate_is_requested(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(
        ssl_keystore_location=str(certificates.server), ssl_client_auth="required"
    )
    made = Security(SASL_SSL, settings, no_credential, no_credential)
    assert made.tls is not None
    assert made.tls.verify_mode is ssl.CERT_NONE
    assert "ssl.client.auth has no effect: SASL_SSL clients" in caplog.text
