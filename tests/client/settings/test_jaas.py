"""The parsers of `sasl.jaas.config` and of librdkafka's unsecured tokens."""

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
def test_user_name_and_password_are_parsed(text: str) -> None:
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
def test_quoted_values_have_javas_escapes(written: str, password: str | None) -> None:
    found = read_jaas(f'{PLAIN} required username="u" password="{written}";')
    assert found.get("sasl.password") == password


def test_client_credentials_are_parsed() -> None:
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


def test_an_unsecured_token_is_parsed() -> None:
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
        ("", "lacks its semicolon"),
        (";", 'lacks "required"'),
        (f'{PLAIN} required password="hunter2"', "lacks its semicolon"),
        (f'{PLAIN} required password="hunter2;', "a quotation .* is not closed"),
        (f'{PLAIN} password="hunter2";', 'lacks "required"'),
        (f"{PLAIN} required password hunter2 ;", "other than NAME="),
        (f'{PLAIN} required password="hunter2" user;', "after 1 options"),
        (f'{PLAIN} required password="hunter2"; {PLAIN} required;', "several entries"),
        ("com.sun.security.auth.module.Krb5LoginModule required;", "not supported"),
        (f"{PLAIN} required tokenauth=true;", "delegation tokens"),
    ],
)
def test_the_error_of_an_invalid_jaas_entry_does_not_contain_its_values(
    text: str, why: str
) -> None:
    with pytest.raises(SettingError, match=why) as refused:
        read_jaas(text)
    assert "hunter2" not in str(refused.value)
