"""Settings as text become the options of a client."""

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
from tests.cli.connect.world import World
from tests.client.certificates import PASSWORD, Certificates

URL = "sasl.oauthbearer.token.endpoint.url"


@pytest.fixture
def named(world: World) -> World:
    """A world whose cluster is named."""
    world.environ["COTERIE_BOOTSTRAP_SERVER"] = "a:1"
    return world


def sasl(world: World, mechanism: str, **variables: str) -> object:
    world.environ |= {
        "COTERIE_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "COTERIE_SASL_MECHANISM": mechanism,
        **{f"COTERIE_{name}": value for name, value in variables.items()},
    }
    return world.target().options.sasl


def tls(world: World, **variables: object) -> ssl.SSLContext:
    world.environ["COTERIE_SECURITY_PROTOCOL"] = "ssl"
    world.environ |= {
        f"COTERIE_SSL_{key}": str(each) for key, each in variables.items()
    }
    context = world.target().options.ssl
    assert context is not None
    return context


def test_without_a_cluster_the_sentence_says_how_to_name_one(world: World) -> None:
    with pytest.raises(SettingError, match="say --bootstrap-server HOST:PORT"):
        world.target()


def test_the_defaults_are_plain_connections(named: World) -> None:
    bootstrap, options, warnings, known_as = named.target()
    assert (bootstrap, options.ssl, options.sasl) == ("a:1", None, None)
    assert (options.client_id, options.api_timeout_ms) == ("coterie", 60_000)
    assert (warnings, known_as) == ((), None)


def test_nothing_takes_longer_than_the_whole_call(named: World) -> None:
    options = named.target("--timeout", "5000").options
    assert options.api_timeout_ms == 5_000
    assert options.request_timeout_ms == 5_000
    assert options.connect_timeout_ms == 5_000


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        (
            "security.protocol=SASL-SSL",
            "did you mean SASL_SSL? it is one of PLAINTEXT,",
        ),
        ("security.protocol=", "it is one of PLAINTEXT,"),
        ("request.timeout.ms=soon", "a whole number from 1 to 2147483647, not 'soon'"),
        ("socket.timeout.ms=0", "a whole number from 1 to 2147483647, not '0'"),
    ],
)
def test_a_value_that_cannot_be_is_told_with_its_place(
    flag: str, why: str, named: World
) -> None:
    with pytest.raises(SettingError) as refused:
        named.target("-X", flag)
    assert str(refused.value).startswith(
        f"{flag.partition('=')[0]} (flag -X) cannot be"
    )
    assert why in str(refused.value)


def test_a_value_that_does_not_count_is_not_judged(named: World) -> None:
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
def test_a_password_that_others_can_read_on_its_way_is_a_warning(
    world: World, mechanism: str, servers: str, is_warned: bool
) -> None:
    world.environ["COTERIE_BOOTSTRAP_SERVER"] = servers
    sasl(world, mechanism, SASL_USERNAME="alice", SASL_PASSWORD="secret")
    warnings = world.target().warnings
    assert [each.startswith("PLAIN without TLS") for each in warnings] == (
        [True] if is_warned else []
    )
    world.environ["COTERIE_SECURITY_PROTOCOL"] = "SASL_SSL"
    assert world.target().warnings == ()


def test_sasl_that_is_not_switched_on_is_doubted(named: World) -> None:
    flags = ("-X", "sasl.mechanism=PLAIN", "-X", "ssl.ca.location=ca.pem")
    first, second = named.target(*flags).warnings
    assert "SASL_SSL or SASL_PLAINTEXT is needed" in first
    assert second.startswith("ssl.ca.location (flag -X) does nothing")


# SASL.


def test_plain_and_scram_have_name_and_password(named: World) -> None:
    known = {"SASL_USERNAME": "alice", "SASL_PASSWORD": "hunter2"}
    assert sasl(named, "plain", **known) == Plain("alice", Secret("hunter2"))
    assert sasl(named, "SCRAM-SHA-512", **known) == Scram(
        "SCRAM-SHA-512", "alice", Secret("hunter2")
    )


@pytest.mark.parametrize(
    ("mechanism", "variables", "why"),
    [
        ("GSSAPI", {}, "it is one of PLAIN, SCRAM-SHA-256"),
        ("SCRAM-SHA-215", {}, "did you mean SCRAM-SHA-2"),
        ("PLAIN", {}, "sasl.username is missing, which PLAIN needs"),
        ("PLAIN", {"SASL_USERNAME": "a"}, "sasl.password is missing"),
        ("PLAIN", {"SASL_USERNAME": "a", "SASL_PASSWORD": ""}, "sasl.password is miss"),
        ("OAUTHBEARER", {}, "OAUTHBEARER needs a token"),
    ],
)
def test_what_a_mechanism_lacks_is_told(
    mechanism: str, variables: dict[str, str], why: str, named: World
) -> None:
    with pytest.raises(SettingError) as refused:
        sasl(named, mechanism, **variables)
    assert why in str(refused.value)


def test_without_a_mechanism_those_there_are_are_told(named: World) -> None:
    with pytest.raises(SettingError, match="Kafka's own default, GSSAPI, is not"):
        named.target("-X", "security.protocol=SASL_SSL")


def test_a_token_may_be_given_read_or_made_up(named: World) -> None:
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


def test_a_token_may_be_asked_for(named: World) -> None:
    named.environ["COTERIE_SASL_OAUTHBEARER_CLIENT_SECRET"] = "hunter2"
    flags = ["-X", f"{URL}=https://idp.example/token"]
    named.environ |= {
        "COTERIE_SECURITY_PROTOCOL": "SASL_SSL",
        "COTERIE_SASL_MECHANISM": "OAUTHBEARER",
    }
    with pytest.raises(
        SettingError, match=r"client\.credentials\.client\.id is missin"
    ):
        named.target(*flags)
    flags += ["-X", "sasl.oauthbearer.client.id=us"]
    made = named.target(*flags).options.sasl
    assert isinstance(made, OAuthBearer)
    assert isinstance(made.token, ClientCredentials)
    with pytest.raises(
        SettingError, match=r"endpoint\.url: .* an https:// address can"
    ):
        named.target(*flags, "-X", f"{URL}=http://idp.example/token")


def test_extensions_are_pairs(named: World) -> None:
    named.environ["COTERIE_SASL_OAUTHBEARER_EXTENSIONS"] = "tenant"
    with pytest.raises(SettingError, match="write NAME=VALUE"):
        sasl(named, "OAUTHBEARER", SASL_OAUTHBEARER_ACCESS_TOKEN="t")


# TLS.


@pytest.mark.slow
def test_tls_checks_certificate_and_name_until_told_otherwise(named: World) -> None:
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
def test_the_oldest_version_listed_is_the_least(
    listed: str, least: ssl.TLSVersion, named: World
) -> None:
    assert tls(named, ENABLED_PROTOCOLS=listed).minimum_version is least


def test_versions_that_are_too_old_are_refused(named: World) -> None:
    with pytest.raises(SettingError, match=r"name TLSv1\.2 or TLSv1\.3"):
        tls(named, ENABLED_PROTOCOLS="TLSv1.1")


@pytest.mark.slow
def test_ciphers_of_javas_names_are_left_to_openssl(named: World) -> None:
    usual = [each["name"] for each in tls(named).get_ciphers()]
    java = tls(named, CIPHER_SUITES="TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
    assert [each["name"] for each in java.get_ciphers()] == usual
    listed = "ECDHE-RSA-AES256-GCM-SHA384,ECDHE-RSA-AES128-GCM-SHA256"
    chosen = [each["name"] for each in tls(named, CIPHER_SUITES=listed).get_ciphers()]
    assert [each for each in chosen if not each.startswith("TLS_")] == listed.split(",")


def test_javas_stores_and_librdkafkas_files_are_both_read(named: World) -> None:
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
        assert named.target().known_as == "its certificate"


def test_an_address_that_never_answers_is_given_up_soon_or_as_late_as_is_said(
    named: World,
) -> None:
    options = named.target().options
    assert (options.api_timeout_ms, options.first_contact_ms) == (60_000, 5_000)
    options = named.target("--timeout", "90000").options
    assert (options.api_timeout_ms, options.first_contact_ms) == (90_000, 90_000)
