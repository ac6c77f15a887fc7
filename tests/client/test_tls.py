"""TLS contexts from PEM and PKCS12 files; JKS is refused."""

from __future__ import annotations

import builtins
import ssl
from pathlib import Path
from typing import Any

import pytest

from coterie.client.secret import Secret
from coterie.client.tls import TlsOptions, make_context
from coterie.errors import SettingError
from tests.client.certificates import PASSWORD, Certificates

OPENS = Secret(PASSWORD.decode())


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def client_subject(client: ssl.SSLContext, certificates: Certificates) -> str | None:
    """Return the certificate subject that a client presents in a handshake over
    memory."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates.authority.issue_cert("kafka.example").configure_cert(server)
    certificates.authority.configure_trust(server)
    server.verify_mode = ssl.CERT_OPTIONAL
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(down, up, server_hostname="kafka.example")
    theirs = server.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    subject: Any = (theirs.getpeercert() or {}).get("subject", ())
    names = {key: value for ((key, value),) in subject}
    return names.get("commonName")


def test_by_default_system_certificates_are_trusted_and_names_checked() -> None:
    context = make_context(TlsOptions())
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_verification_of_names_and_certificates_can_be_disabled() -> None:
    context = make_context(TlsOptions(checks_name=False))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)
    context = make_context(TlsOptions(checks_certificate=False))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize("form", ["file", "text", "pkcs12"])
def test_trusted_certificates_are_read_in_each_form(
    form: str, certificates: Certificates
) -> None:
    trust: dict[str, TlsOptions] = {
        "file": TlsOptions(trust=certificates.ca),
        "text": TlsOptions(trust=certificates.ca_text),
        "pkcs12": TlsOptions(trust=certificates.trust_store(), trust_password=OPENS),
    }
    assert client_subject(make_context(trust[form]), certificates) is None


def test_a_directory_of_certificates_is_trusted(tmp_path: Path) -> None:
    context = make_context(TlsOptions(trust=tmp_path))
    assert context.get_ca_certs() == []  # OpenSSL reads the directory on demand


def test_other_certificates_are_not_trusted(certificates: Certificates) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        client_subject(make_context(TlsOptions()), certificates)


@pytest.mark.parametrize(
    "form", ["one file", "two files", "encrypted", "text", "encrypted text", "pkcs12"]
)
def test_a_client_certificate_is_read_in_each_form(
    form: str, certificates: Certificates
) -> None:
    made = certificates
    chain, key = made.chain.decode(), Secret(made.key.decode())
    encrypted = Secret(made.encrypted_key.decode())
    forms: dict[str, dict[str, Any]] = {
        "one file": {"certificate": made.write("both.pem", made.key + made.chain)},
        "two files": {
            "certificate": made.write("chain.pem", made.chain),
            "key": made.write("key.pem", made.key),
        },
        "encrypted": {
            "certificate": made.write("sealed.pem", made.encrypted_key + made.chain),
            "key_password": OPENS,
        },
        "text": {"certificate": chain, "key": key},
        "encrypted text": {
            "certificate": chain,
            "key": encrypted,
            "key_password": OPENS,
        },
        "pkcs12": {"certificate": made.key_store(), "certificate_password": OPENS},
    }
    context = make_context(TlsOptions(trust=made.ca, **forms[form]))
    assert client_subject(context, made) == "alice"


def test_the_error_of_a_java_keystore_contains_the_command_to_convert_it(
    tmp_path: Path,
) -> None:
    store = tmp_path / "client.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    for options in (TlsOptions(trust=store), TlsOptions(certificate=store)):
        with pytest.raises(SettingError) as refused:
            make_context(options)
        assert f"keytool -importkeystore -srckeystore {store}" in str(refused.value)
        assert "client.p12 -deststoretype pkcs12" in str(refused.value)


@pytest.mark.parametrize("password", [None, Secret("wrong")])
def test_the_error_of_a_wrong_store_password_does_not_contain_it(
    password: Secret | None, certificates: Certificates
) -> None:
    store = certificates.key_store()
    with pytest.raises(SettingError, match="cannot be opened with") as refused:
        make_context(TlsOptions(certificate=store, certificate_password=password))
    assert str(store) in str(refused.value)
    assert "wrong:" not in str(refused.value)


def test_a_store_without_the_needed_entries_is_reported(
    certificates: Certificates,
) -> None:
    store = certificates.trust_store()
    with pytest.raises(SettingError, match="no private key with its certificate"):
        make_context(TlsOptions(certificate=store, certificate_password=OPENS))


def test_pkcs12_without_the_required_library_is_reported(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = certificates.trust_store()
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SettingError, match=r"pip install '\.\[pkcs12\]'"):
        make_context(TlsOptions(trust=store, trust_password=OPENS))


def test_an_encrypted_key_requires_its_password(certificates: Certificates) -> None:
    both = certificates.write(
        "both.pem", certificates.encrypted_key + certificates.chain
    )
    with pytest.raises(SettingError, match=r"is encrypted; .*ssl\.key\.password"):
        make_context(TlsOptions(certificate=both))
    with pytest.raises(SettingError, match="a wrong password"):
        make_context(TlsOptions(certificate=both, key_password=Secret("wrong")))


def test_a_key_must_match_its_certificate(certificates: Certificates) -> None:
    other = certificates.authority.issue_cert("bob@kafka.example")
    with pytest.raises(SettingError, match="does not match the certificate"):
        make_context(
            TlsOptions(
                certificate=certificates.write("chain.pem", certificates.chain),
                key=certificates.write("key.pem", other.private_key_pem.bytes()),
            )
        )
    with pytest.raises(SettingError, match="needs its certificate"):
        make_context(TlsOptions(key=Secret("...")))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"hello", "is neither PEM nor PKCS12"),
        (b"-----BEGIN NOTHING-----\n", "holds no PEM certificate"),
    ],
)
def test_an_invalid_certificate_is_reported(
    data: bytes, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(data)
    with pytest.raises(SettingError, match=why):
        make_context(TlsOptions(trust=file))


def test_the_error_of_a_missing_file_contains_its_name(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"none\.pem cannot be read: No such file"):
        make_context(TlsOptions(trust=tmp_path / "none.pem"))


def test_a_certificate_without_a_key_is_reported(certificates: Certificates) -> None:
    with pytest.raises(SettingError, match="no private key and chain"):
        make_context(TlsOptions(certificate=certificates.ca))


def test_ciphers_have_openssl_names() -> None:
    make_context(TlsOptions(ciphers="ECDHE-RSA-AES256-GCM-SHA384"))
    # OpenSSL 3.6 takes the names of RFCs (TLS_...) too, but not the older ones of Java.
    with pytest.raises(SettingError, match="use OpenSSL's names"):
        make_context(TlsOptions(ciphers="SSL_RSA_WITH_AES_256_CBC_SHA"))


def test_no_private_key_file_remains(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    options = TlsOptions(
        certificate=certificates.key_store(), certificate_password=OPENS
    )
    make_context(options)
    assert list(scratch.iterdir()) == []
