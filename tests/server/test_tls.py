"""TLS at the server's end: who is let in, as whom, and what a bad start says."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from coterie.auth.authorizer import ANONYMOUS, Principal
from coterie.auth.sasl import nobody
from coterie.errors import SettingError
from coterie.server.security import Security
from coterie.settings import Settings
from coterie.types import SecurityProtocol
from coterie.wire.messages.api_versions import ApiVersionsRequest
from coterie.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from coterie.wire.messages.metadata import MetadataRequest
from tests.server.harness import ThreadServer
from tests.server.secured import (
    Certificates,
    make_certificates,
    sign_in,
    users_file,
)

SSL, SASL_SSL = SecurityProtocol.SSL, SecurityProtocol.SASL_SSL


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
    return {each.principal for each in listener._sessions}


# In.


def test_a_client_that_knows_the_authority_is_served_as_anybody(
    server: ThreadServer, certificates: Certificates
) -> None:
    with server.client(tls=certificates.client()) as client:
        assert client.call(MetadataRequest(topics=[])).brokers
        assert principals(server) == {ANONYMOUS}


def test_a_certificate_says_who_calls(
    server: ThreadServer, certificates: Certificates
) -> None:
    tls = certificates.client(certificate=certificates.alice)
    with server.client(tls=tls) as client:
        client.call(ApiVersionsRequest(), 2)
        name = r"CN=alice,OU=Tests,O=Example\, Inc."
        assert principals(server) == {Principal("User", name)}


def test_rules_make_the_name_short(certificates: Certificates) -> None:
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
        client.call(ApiVersionsRequest(), 2)
        assert principals(server) == {Principal("User", "ALICE")}


def test_under_tls_a_client_may_say_its_name_by_sasl(
    certificates: Certificates, tmp_path: Path
) -> None:
    settings = settings_of(certificates, sasl_users_file=str(users_file(tmp_path)))
    with (
        ThreadServer(protocol=SASL_SSL, **settings) as server,
        server.client(tls=certificates.client()) as client,
    ):
        assert sign_in(client).error_code == 0
        assert principals(server) == {Principal("User", "alice")}


def test_where_to_connect_is_told_with_the_protocol(
    server: ThreadServer, certificates: Certificates
) -> None:
    wanted = DescribeConfigsResource(
        resource_type=4,
        resource_name="1",
        configuration_keys=["advertised.listeners", "ssl.key.password"],
    )
    with server.client(tls=certificates.client()) as client:
        answer = client.call(DescribeConfigsRequest(resources=[wanted]), 4)
    host, port = server.addresses[0]
    listeners, secret = answer.results[0].configs
    assert listeners.value == f"SSL://{host}:{port}"
    assert (secret.value, secret.is_sensitive) == (None, True)


# Not in.


def test_without_a_certificate_that_is_required_nobody_comes_in(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    settings = settings_of(certificates, ssl_client_auth="required")
    with (
        ThreadServer(protocol=SSL, **settings) as server,
        pytest.raises((ssl.SSLError, EOFError, OSError)),
        server.client(tls=certificates.client()) as client,
    ):
        client.call(ApiVersionsRequest(), 2)
    assert "a TLS handshake failed: PEER_DID_NOT_RETURN_A_CERTIFICATE" in caplog.text


def test_a_certificate_of_another_authority_is_none(
    server: ThreadServer, certificates: Certificates, tmp_path: Path
) -> None:
    foreign = make_certificates(tmp_path)
    tls = certificates.client(certificate=foreign.alice)
    with (
        pytest.raises((ssl.SSLError, EOFError, OSError)),
        server.client(tls=tls) as client,
    ):
        client.call(ApiVersionsRequest(), 2)


def test_a_name_that_no_rule_matches_is_cut_off(
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


def test_who_speaks_no_tls_harms_nobody(
    server: ThreadServer, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with server.client() as plain:
        plain.send(ApiVersionsRequest(), 2)
        while not _is_cut_off(plain.socket):
            pass  # an alert comes before the end
    with server.client(tls=certificates.client()) as client:
        assert client.call(ApiVersionsRequest(), 2).error_code == 0
    assert "a TLS handshake failed" in caplog.text
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_who_speaks_tls_to_a_plain_port_harms_nobody(
    certificates: Certificates,
) -> None:
    with ThreadServer() as server:
        with pytest.raises((ssl.SSLError, OSError)):
            server.client(tls=certificates.client())
        with server.client() as client:
            assert client.call(ApiVersionsRequest(), 2).error_code == 0


def test_who_only_connects_is_cut_off_in_time(certificates: Certificates) -> None:
    settings = settings_of(certificates, connection_authentication_timeout_ms=100)
    with (
        ThreadServer(protocol=SSL, **settings) as server,
        socket.create_connection(server.addresses[0], timeout=10) as silent,
    ):
        assert _is_cut_off(silent)


def _is_cut_off(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


# Starting.


def refusal(protocol: SecurityProtocol = SSL, **values: Any) -> str:
    with pytest.raises(SettingError) as refused:
        Security(protocol, Settings(**values), nobody, nobody)
    return str(refused.value)


def test_tls_needs_a_keystore_that_is_there(tmp_path: Path) -> None:
    assert "ssl.keystore.location must name a PEM file" in refusal()
    missing = refusal(ssl_keystore_location=str(tmp_path / "none.pem"))
    assert missing.endswith("none.pem cannot be read: No such file or directory")


def test_a_keystore_has_a_key_and_its_certificate(
    certificates: Certificates, tmp_path: Path
) -> None:
    for text, says in [
        ("nothing", "it has no certificate"),
        (certificates.authority.read_text(), "it has no key"),
        ("BEGIN CERTIFICATE, PRIVATE KEY", "it cannot be read"),
    ]:
        path = tmp_path / "wrong.pem"
        path.write_text(text)
        assert says in refusal(ssl_keystore_location=str(path))
    mixed = tmp_path / "mixed.pem"
    other = trustme.CA().issue_cert("other")
    other.private_key_pem.write_to_path(str(mixed))
    other_chain = certificates.server.read_text().partition("-----BEGIN CERTIFICATE")
    with mixed.open("a") as opened:
        opened.write("".join(other_chain[1:]))
    said = refusal(ssl_keystore_location=str(mixed))
    assert "its key is of another certificate" in said


@pytest.mark.parametrize(
    ("password", "says"),
    [
        ("", "its key is encrypted, and ssl.key.password is not set"),
        ("wrong", "ssl.key.password does not open its key"),
    ],
)
def test_an_encrypted_key_needs_its_password(
    tmp_path: Path, password: str, says: str
) -> None:
    path = encrypted(tmp_path)
    Security(
        SSL,
        Settings(ssl_keystore_location=str(path), ssl_key_password="right"),
        nobody,
        nobody,
    )
    said = refusal(ssl_keystore_location=str(path), ssl_key_password=password)
    assert says in said


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


def test_who_asks_for_certificates_says_whose(
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
    assert "no PEM file of certificates" in refusal(
        ssl_truststore_location=str(empty), **asked
    )


def test_beside_sasl_no_certificate_is_asked_for(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(
        ssl_keystore_location=str(certificates.server), ssl_client_auth="required"
    )
    made = Security(SASL_SSL, settings, nobody, nobody)
    assert made.tls is not None
    assert made.tls.verify_mode is ssl.CERT_NONE
    assert "SASL_SSL clients are asked for no certificate" in caplog.text
