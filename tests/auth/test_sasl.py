"""SASL mechanisms: successful authentication, and the errors of failed attempts."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping

import pytest
from scramp import ScramClient

from coterie.auth.sasl import PlainExchange, ScramExchange, mechanisms, no_credential
from coterie.auth.scram import make_credential, mock_credential
from coterie.errors import ApiError
from coterie.types import ScramCredential, ScramMechanism, ScramParameters
from coterie.wire.error_codes import ErrorCode
from tests.auth.test_scram import EXAMPLE, ITERATIONS, SALT

SHA_256, SHA_512 = ScramMechanism
INVALID = "Authentication failed: Invalid username or password"
USERS: Mapping[tuple[str, ScramMechanism], ScramCredential] = {
    ("user", SHA_256): EXAMPLE,
    ("ällie,=", SHA_512): make_credential(SHA_512, "p", SALT, ITERATIONS),
}


def lookup(user: str, mechanism: ScramMechanism) -> ScramCredential | None:
    return USERS.get((user, mechanism))


def plain(token: bytes) -> PlainExchange:
    exchange = PlainExchange(lookup)
    assert exchange.respond(token)() == b""
    return exchange


def refusal(exchange: PlainExchange | ScramExchange, token: bytes) -> str | None:
    with pytest.raises(ApiError) as refused:
        exchange.respond(token)()
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert exchange.user is None
    return refused.value.message


# PLAIN.


@pytest.mark.parametrize("acts_as", ["", "user"])
def test_the_correct_password_authenticates_the_user(acts_as: str) -> None:
    assert plain(f"{acts_as}\0user\0pencil".encode()).user == "user"


def test_plain_accepts_a_user_with_only_a_sha_512_credential() -> None:
    assert plain("\0ällie,=\0p".encode()).user == "ällie,="


@pytest.mark.parametrize(
    ("token", "says"),
    [
        (b"\0user\0pencils", INVALID),
        (b"\0nobody\0pencil", INVALID),
        (b"\0nobody\0\xff", INVALID),
        (b"\0\0pencil", "Authentication failed: username not specified"),
        (b"\0user\0", "Authentication failed: password not specified"),
        (
            b"admin\0user\0pencil",
            "Authentication failed: Client requested an authorization id that is "
            "different from username",
        ),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0user", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_plain_fails_with_kafkas_messages(token: bytes, says: str) -> None:
    assert refusal(PlainExchange(lookup), token) == says


# SCRAM.


def test_the_scram_exchange_equals_the_example_of_the_rfc() -> None:
    exchange = ScramExchange(SHA_256, lookup, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert exchange.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")() == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert exchange.user is None
    last = exchange.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert last() == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.user == "user"


@pytest.mark.parametrize(
    ("user", "password", "mechanism"),
    [("user", "pencil", SHA_256), ("ällie,=", "p", SHA_512)],
)
def test_a_client_with_another_scram_implementation_authenticates(
    user: str, password: str, mechanism: ScramMechanism
) -> None:
    client = ScramClient([mechanism.sasl_name], user, password)
    exchange = mechanisms([mechanism.sasl_name], lookup)[mechanism.sasl_name]()
    client.set_server_first(
        exchange.respond(client.get_client_first().encode())().decode()
    )
    client.set_server_final(
        exchange.respond(client.get_client_final().encode())().decode()
    )
    assert exchange.user == user


@pytest.mark.parametrize("name", ["\ufb01", "a\u00adb", "\U0001f600", "=2C,"])
def test_user_names_are_not_normalized(name: str) -> None:
    """Use names that SASLprep (RFC 4013) would change or reject."""
    held = {name: EXAMPLE}
    exchange = ScramExchange(SHA_256, lambda user, _: held.get(user))
    talk(exchange, name, "pencil")
    assert exchange.user == name


def talk(exchange: ScramExchange, name: str, password: str) -> bytes:
    client = ScramClient(["SCRAM-SHA-256"], "user", password)
    front, _, nonce = client.get_client_first().rpartition("n=user")
    client.client_first_bare = f"n={escaped(name)}{nonce}"
    first = exchange.respond(f"{front}{client.client_first_bare}".encode())()
    client.set_server_first(first.decode())
    return exchange.respond(client.get_client_final().encode())()


def escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def shown(user: str, mechanism: ScramMechanism) -> ScramCredential:
    return mock_credential(
        mechanism, user, ScramParameters(len(SALT), ITERATIONS), b"secret"
    )


def test_an_unknown_user_is_refused_like_a_wrong_password() -> None:
    for name in ("user", "no_credential", "ällie,="):
        exchange = ScramExchange(SHA_256, lookup, shown, nonce="nonce")
        first = exchange.respond(f"n,,n={escaped(name)},r=abc".encode())()
        parts = dict(part.split("=", 1) for part in first.decode().split(","))
        assert (parts["r"], parts["i"]) == ("abcnonce", str(ITERATIONS))
        assert len(b64decode(parts["s"])) == len(SALT)
        exchange = ScramExchange(SHA_256, lookup, shown)
        with pytest.raises(ApiError) as refused:
            talk(exchange, name, "pen")
        assert refused.value.message is None
        assert exchange.user is None


def test_a_decoy_credential_never_authenticates() -> None:
    exchange = ScramExchange(SHA_256, no_credential, lambda *_: EXAMPLE)
    with pytest.raises(ApiError):
        talk(exchange, "no_credential", "pencil")
    assert exchange.user is None
    plain = PlainExchange(no_credential, lambda *_: EXAMPLE)
    assert refusal(plain, b"\0nobody\0pencil") == INVALID


def test_plain_also_hashes_the_password_of_an_unknown_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked = []

    def check(mechanism: ScramMechanism, held: ScramCredential, _: str) -> bool:
        checked.append((mechanism, held.iterations))
        return False

    monkeypatch.setattr("coterie.auth.sasl.password_matches", check)

    def slow(user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        shape = ScramParameters(len(SALT), 9_999)
        return (
            None
            if mechanism is SHA_256
            else mock_credential(mechanism, user, shape, b"")
        )

    assert refusal(PlainExchange(no_credential, slow), b"\0nobody\0pencil") == INVALID
    assert refusal(PlainExchange(no_credential), b"\0nobody\0pencil") == INVALID
    assert checked == [(SHA_512, 9_999), (SHA_256, 4_096)]


def test_a_wrong_password_fails_at_the_final_message_without_a_reason() -> None:
    client = ScramClient(["SCRAM-SHA-256"], "user", "pen")
    exchange = ScramExchange(SHA_256, lookup)
    first = exchange.respond(client.get_client_first().encode())()
    client.set_server_first(first.decode())
    assert refusal(exchange, client.get_client_final().encode()) is None


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n,,",
        b"\xff\xfe",
        b"n,,n=no_credential,r=abc",
        b"n,,n=u=ser,r=abc",
        b"n,a=admin,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=\xc3\xa4llie=2C=3D,r=abc",  # no credential for this mechanism
    ],
)
def test_a_malformed_first_token_is_refused_like_an_unknown_user(
    token: bytes,
) -> None:
    assert refusal(ScramExchange(SHA_256, lookup), token) is None


@pytest.mark.parametrize("token", [b"", b"c=biws", b"c=biws,r=abcd,p=AAAA", b"\xff"])
def test_a_malformed_last_token_is_refused_like_a_wrong_password(
    token: bytes,
) -> None:
    exchange = ScramExchange(SHA_256, lookup, nonce="d")
    exchange.respond(b"n,,n=user,r=abc")()
    assert refusal(exchange, token) is None


def test_only_enabled_mechanisms_can_be_started() -> None:
    made = mechanisms(["SCRAM-SHA-512", "PLAIN"], lookup)
    assert list(made) == ["SCRAM-SHA-512", "PLAIN"]
    assert made["PLAIN"]().is_slow
    assert not made["SCRAM-SHA-512"]().is_slow
