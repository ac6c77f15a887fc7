"""Tests for deriving client options from the settings of a command line."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from coterie.client.oauth import (
    ClientCredentials,
    FixedToken,
    TokenFile,
    UnsecuredToken,
)
from coterie.client.sasl import OAuthBearer, Plain, Scram
from coterie.client.secret import Secret
from coterie.errors import SettingError
from tests.cli.settings_home import SettingsHome
from tests.client.certificates import PASSWORD, Certificates

URL = "sasl.oauthbearer.token.endpoint.url"


@pytest.fixture
def named(home: SettingsHome) -> SettingsHome:
    """Return settings that name a cluster."""
    home.environ["COTERIE_BOOTSTRAP_SERVER"] = "a:1"
    return home


def sasl(home: SettingsHome, mechanism: str, **variables: str) -> object:
    home.environ |= {
        "COTERIE_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "COTERIE_SASL_MECHANISM": mechanism,
        **{f"COTERIE_{name}": value for name, value in variables.items()},
    }
    return home.target().options.sasl


def tls(home: SettingsHome, **variables: object) -> ssl.SSLContext:
    home.environ["COTERIE_SECURITY_PROTOCOL"] = "ssl"
    home.environ |= {f"COTERIE_SSL_{key}": str(each) for key, each in variables.items()}
    context = home.target().options.ssl
    assert context is not None
    return context


def test_the_error_for_a_missing_cluster_contains_the_option(
    home: SettingsHome,
) -> None:
    with pytest.raises(SettingError, match="use --bootstrap-server HOST:PORT"):
        home.target()


def test_the_default_is_plaintext(named: SettingsHome) -> None:
    bootstrap, options, warnings, known_as = named.target()
    assert (bootstrap, options.ssl, options.sasl) == ("a:1", None, None)
    assert (options.client_id, options.api_timeout_ms) == ("coterie", 60_000)
    assert (warnings, known_as) == ((), None)


def test_no_timeout_exceeds_the_timeout_of_the_call(named: SettingsHome) -> None:
    options = named.target("--timeout", "5000").options
    assert options.api_timeout_ms == 5_000
    assert options.request_timeout_ms == 5_000
    assert options.connect_timeout_ms == 5_000


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        (
            "security.protocol=SASL-SSL",
            "did you mean SASL_SSL? use one of PLAINTEXT,",
        ),
        ("security.protocol=", "use one of PLAINTEXT,"),
        ("request.timeout.ms=soon", "a whole number from 1 to 2147483647, not 'soon'"),
        ("socket.timeout.ms=0", "a whole number from 1 to 2147483647, not '0'"),
    ],
)
def test_the_error_of_an_invalid_value_contains_its_source(
    flag: str, why: str, named: SettingsHome
) -> None:
    with pytest.raises(SettingError) as refused:
        named.target("-X", flag)
    assert str(refused.value).startswith(
        f"{flag.partition('=')[0]} (flag -X) is invalid"
    )
    assert why in str(refused.value)


def test_an_overridden_value_is_not_validated(named: SettingsHome) -> None:
    named.environ["COTERIE_REQUEST_TIMEOUT_MS"] = "soon"
    target = named.target("-X", "request.timeout.ms=7")
    assert target.options.request_timeout_ms == 7


@pytest.mark.parametrize(
    ("mechanism", "servers", "is_warned"),
    [
        ("PLAIN", "kafka.example:9092", True),
        ("PLAIN", "localhost:1,kafka.example:9092", True),
        ("PLAIN", "localhost:1,127.0.0.1:2,[::1]:3", False),
        ("SCRAM-SHA-256", "kafka.example:9092", False),
    ],
)
def test_plain_without_tls_is_a_warning(
    home: SettingsHome, mechanism: str, servers: str, is_warned: bool
) -> None:
    home.environ["COTERIE_BOOTSTRAP_SERVER"] = servers
    sasl(home, mechanism, SASL_USERNAME="alice", SASL_PASSWORD="secret")
    warnings = home.target().warnings
    assert [each.startswith("PLAIN without TLS") for each in warnings] == (
        [True] if is_warned else []
    )
    home.environ["COTERIE_SECURITY_PROTOCOL"] = "SASL_SSL"
    assert home.target().warnings == ()


def test_sasl_settings_without_a_sasl_protocol_are_a_warning(
    named: SettingsHome,
) -> None:
    flags = ("-X", "sasl.mechanism=PLAIN", "-X", "ssl.ca.location=ca.pem")
    first, second = named.target(*flags).warnings
    assert "SASL_SSL or SASL_PLAINTEXT is needed" in first
    assert second.startswith("ssl.ca.location (flag -X) has no effect")


# SASL.


def test_plain_and_scram_have_user_name_and_password(named: SettingsHome) -> None:
    known = {"SASL_USERNAME": "alice", "SASL_PASSWORD": "hunter2"}
    assert sasl(named, "plain", **known) == Plain("alice", Secret("hunter2"))
    assert sasl(named, "SCRAM-SHA-512", **known) == Scram(
        "SCRAM-SHA-512", "alice", Secret("hunter2")
    )


@pytest.mark.parametrize(
    ("mechanism", "variables", "why"),
    [
        ("GSSAPI", {}, "use one of PLAIN, SCRAM-SHA-256"),
        ("SCRAM-SHA-215", {}, "did you mean SCRAM-SHA-2"),
        ("PLAIN", {}, "PLAIN needs sasl.username"),
        ("PLAIN", {"SASL_USERNAME": "a"}, "PLAIN needs sasl.password"),
        ("PLAIN", {"SASL_USERNAME": "a", "SASL_PASSWORD": ""}, "needs sasl.password"),
        ("OAUTHBEARER", {}, "OAUTHBEARER needs a token"),
    ],
)
def test_a_missing_setting_of_a_mechanism_is_refused(
    mechanism: str, variables: dict[str, str], why: str, named: SettingsHome
) -> None:
    with pytest.raises(SettingError) as refused:
        sasl(named, mechanism, **variables)
    assert why in str(refused.value)


def test_a_missing_sasl_mechanism_is_refused(
    named: SettingsHome,
) -> None:
    with pytest.raises(SettingError, match="Kafka's default, GSSAPI, is not"):
        named.target("-X", "security.protocol=SASL_SSL")


def test_a_token_is_fixed_or_unsigned_or_read_from_a_file(named: SettingsHome) -> None:
    made = sasl(named, "OAUTHBEARER", SASL_OAUTHBEARER_UNSECURED_PRINCIPAL="carol")
    assert isinstance(made, OAuthBearer)
    assert made.token == UnsecuredToken("carol")
    made = sasl(
        named,
        "OAUTHBEARER",
        SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL="file:///run/a%20token",
        SASL_OAUTHBEARER_EXTENSIONS="tenant=7, zone=b",
    )
    assert isinstance(made, OAuthBearer)
    assert made.token == TokenFile(Path("/run/a token"))
    assert made.extensions == {"tenant": "7", "zone": "b"}
    made = sasl(named, "OAUTHBEARER", SASL_OAUTHBEARER_ACCESS_TOKEN="t.o.k")
    assert isinstance(made, OAuthBearer)
    assert asyncio.run(FixedToken(Secret("t.o.k"))()) == Secret("t.o.k")
    assert made.token == FixedToken(Secret("t.o.k"))


def test_a_token_is_fetched_with_client_credentials(named: SettingsHome) -> None:
    named.environ["COTERIE_SASL_OAUTHBEARER_CLIENT_SECRET"] = "hunter2"
    flags = ["-X", f"{URL}=https://idp.example/token"]
    named.environ |= {
        "COTERIE_SECURITY_PROTOCOL": "SASL_SSL",
        "COTERIE_SASL_MECHANISM": "OAUTHBEARER",
    }
    with pytest.raises(
        SettingError, match=r"needs sasl\.oauthbearer\.client\.credentials\.client\.id"
    ):
        named.target(*flags)
    flags += ["-X", "sasl.oauthbearer.client.id=us"]
    made = named.target(*flags).options.sasl
    assert isinstance(made, OAuthBearer)
    assert isinstance(made.token, ClientCredentials)
    with pytest.raises(
        SettingError, match=r"endpoint\.url: .* use an https:// address"
    ):
        named.target(*flags, "-X", f"{URL}=http://idp.example/token")


def test_sasl_extensions_are_pairs(named: SettingsHome) -> None:
    named.environ["COTERIE_SASL_OAUTHBEARER_EXTENSIONS"] = "tenant"
    with pytest.raises(SettingError, match="write NAME=VALUE"):
        sasl(named, "OAUTHBEARER", SASL_OAUTHBEARER_ACCESS_TOKEN="t")


# TLS.


@pytest.mark.slow
def test_tls_verifies_certificate_and_host_name_by_default(
    named: SettingsHome,
) -> None:
    context = tls(named)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    for unchecked in ("", "none"):
        context = tls(named, ENDPOINT_IDENTIFICATION_ALGORITHM=unchecked)
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert not context.check_hostname
    named.environ["COTERIE_ENABLE_SSL_CERTIFICATE_VERIFICATION"] = "FALSE"
    assert tls(named).verify_mode is ssl.CERT_NONE
    named.environ["COTERIE_ENABLE_SSL_CERTIFICATE_VERIFICATION"] = "no"
    with pytest.raises(SettingError, match="true or false, not 'no'"):
        tls(named)


@pytest.mark.parametrize(
    ("listed", "least"),
    [
        ("TLSv1.2,TLSv1.3", ssl.TLSVersion.TLSv1_2),
        ("TLSv1.3", ssl.TLSVersion.TLSv1_3),
        ("TLSv1.1, TLSv1.2", ssl.TLSVersion.TLSv1_2),
    ],
)
def test_the_lowest_listed_tls_version_is_the_minimum(
    listed: str, least: ssl.TLSVersion, named: SettingsHome
) -> None:
    assert tls(named, ENABLED_PROTOCOLS=listed).minimum_version is least


def test_old_tls_versions_are_refused(named: SettingsHome) -> None:
    with pytest.raises(SettingError, match=r"use TLSv1\.2 or TLSv1\.3"):
        tls(named, ENABLED_PROTOCOLS="TLSv1.1")


@pytest.mark.slow
def test_java_cipher_names_are_passed_to_openssl(named: SettingsHome) -> None:
    usual = [each["name"] for each in tls(named).get_ciphers()]
    java = tls(named, CIPHER_SUITES="TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
    assert [each["name"] for each in java.get_ciphers()] == usual
    listed = "ECDHE-RSA-AES256-GCM-SHA384,ECDHE-RSA-AES128-GCM-SHA256"
    chosen = [each["name"] for each in tls(named, CIPHER_SUITES=listed).get_ciphers()]
    assert [each for each in chosen if not each.startswith("TLS_")] == listed.split(",")


def test_java_keystores_and_librdkafka_files_are_supported(named: SettingsHome) -> None:
    made = Certificates(named.folder)
    opens = PASSWORD.decode()
    stores = {
        "TRUSTSTORE_LOCATION": made.trust_store(),
        "TRUSTSTORE_PASSWORD": opens,
        "KEYSTORE_LOCATION": made.key_store(),
        "KEYSTORE_PASSWORD": opens,
    }
    files = {
        "CA_LOCATION": made.ca,
        "CERTIFICATE_LOCATION": made.write("chain.pem", made.chain),
        "KEY_LOCATION": made.write("key.pem", made.encrypted_key),
        "KEY_PASSWORD": opens,
    }
    texts = {
        "CA_PEM": made.ca_text,
        "CERTIFICATE_PEM": made.chain.decode(),
        "KEY_PEM": made.key.decode(),
    }
    base = dict(named.environ)
    for each in (stores, files, texts):
        named.environ = dict(base)
        assert len(tls(named, **each).get_ca_certs()) == 1
        assert named.target().principal == "its certificate"


def test_an_unresponsive_address_times_out_early_unless_a_timeout_is_set(
    named: SettingsHome,
) -> None:
    options = named.target().options
    assert (options.api_timeout_ms, options.first_contact_ms) == (60_000, 5_000)
    options = named.target("--timeout", "90000").options
    assert (options.api_timeout_ms, options.first_contact_ms) == (90_000, 90_000)
