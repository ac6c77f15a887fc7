"""`sasl.jaas.config`, and librdkafka's description of an unsecured token."""

from __future__ import annotations

import pytest

from coterie.client.settings.jaas import read_jaas, read_unsecured
from coterie.errors import SettingError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.mark.parametrize(
    "text",
    [
        f'{PLAIN} required username="alice" password="p w";',
        f"{PLAIN} REQUIRED username='alice' password='p w' ;",
        f'{PLAIN} required\n  username = alice\n  password="p w"\n;\n',
        f'// ours\n{PLAIN} /* or not */ required username="alice" password="p w";',
        'a.b.ScramLoginModule optional serviceName="x" username="alice" '
        'password="p\\40w";',
    ],
)
def test_name_and_password_are_found(text: str) -> None:
    assert read_jaas(text) == {"sasl.username": "alice", "sasl.password": "p w"}


@pytest.mark.parametrize(
    ("written", "password"),
    [
        (r"a\"b", 'a"b'),
        (r"a\\b", "a\\b"),
        (r"a\tb", "a\tb"),
        (r"a\101b", "aAb"),
        (r"a\xb", "axb"),
        ("a;b=c", "a;b=c"),
        ("a//b", "a//b"),
        ("", None),
    ],
)
def test_quotations_have_javas_escapes(written: str, password: str | None) -> None:
    found = read_jaas(f'{PLAIN} required username="u" password="{written}";')
    assert found.get("sasl.password") == password


def test_client_credentials_are_found() -> None:
    found = read_jaas(
        f'{OAUTH} required clientId="us" clientSecret="s" scope="kafka" '
        'extension_tenant="7" extension_zone="b";'
    )
    assert found == {
        "sasl.oauthbearer.client.credentials.client.id": "us",
        "sasl.oauthbearer.client.credentials.client.secret": "s",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "tenant=7,zone=b",
    }


def test_an_unsecured_token_is_found() -> None:
    found = read_jaas(f'{OAUTH} required unsecuredLoginStringClaim_sub="carol";')
    assert found == {"sasl.oauthbearer.unsecured.principal": "carol"}
    said = "principal=carol scope=a,b lifeSeconds=60 extension_tenant=7"
    assert read_unsecured(said) == {
        "sasl.oauthbearer.unsecured.principal": "carol",
        "sasl.oauthbearer.scope": "a b",
        "sasl.oauthbearer.unsecured.lifetime.seconds": "60",
        "sasl.oauthbearer.extensions": "tenant=7",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no end"),
        (";", 'says no "required"'),
        (f'{PLAIN} required password="hunter2"', "has no end"),
        (f'{PLAIN} required password="hunter2;', "a quotation .* has no end"),
        (f'{PLAIN} password="hunter2";', 'says no "required"'),
        (f"{PLAIN} required password hunter2 ;", "no NAME="),
        (f'{PLAIN} required password="hunter2" user;', "after 1 options"),
        (f'{PLAIN} required password="hunter2"; {PLAIN} required;', "several entries"),
        ("com.sun.security.auth.module.Krb5LoginModule required;", "not built in"),
        (f"{PLAIN} required tokenauth=true;", "delegation tokens"),
    ],
)
def test_what_cannot_be_read_is_told_without_its_values(text: str, why: str) -> None:
    with pytest.raises(SettingError, match=why) as refused:
        read_jaas(text)
    assert "hunter2" not in str(refused.value)
