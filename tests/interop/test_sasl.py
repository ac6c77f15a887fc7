"""SASL exchanges token by token: Coterie and Apache Kafka send equal responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scramp import ScramClient

from coterie.auth.scram import salted_password
from coterie.types import ScramMechanism
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import WireClient
from tests.broker.server.secured import handshake, plain_token, send_bare, send_token
from tests.support.waiting import eventually

from .conftest import Broker
from .node import PASSWORDS
from .sasl_listener import SaslListener

pytestmark = pytest.mark.slow

SALT = b"a salt that is long enough"
SHA_256, SHA_512 = ScramMechanism
REFUSED = ErrorCode.SASL_AUTHENTICATION_FAILED
ILLEGAL = ErrorCode.ILLEGAL_SASL_STATE
GENERIC = (
    "Authentication failed during authentication due to invalid credentials with SASL "
    "mechanism SCRAM-SHA-256"
)


def connected(address: str) -> WireClient:
    host, _, port = address.rpartition(":")
    return WireClient(host, int(port))


@pytest.fixture
def client(sasl: SaslListener) -> Iterator[WireClient]:
    with connected(sasl.address) as opened:
        yield opened


@pytest.fixture
def admin(sasl: SaslListener) -> Iterator[WireClient]:
    with sasl.client("admin") as opened:
        yield opened


def upsertion(
    user: str,
    mechanism: int = SHA_256,
    *,
    iterations: int = 4_096,
    password: str = "secret",
) -> m.ScramCredentialUpsertion:
    return m.ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=SALT,
        salted_password=salted_password(SHA_256, password, SALT, 4_096),
    )


def deletion(user: str, mechanism: int = SHA_256) -> m.ScramCredentialDeletion:
    return m.ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(
    admin: WireClient,
    *upsertions: m.ScramCredentialUpsertion,
    deletions: tuple[m.ScramCredentialDeletion, ...] = (),
) -> dict[str, tuple[int, str | None]]:
    request = m.AlterUserScramCredentialsRequest(
        deletions=list(deletions), upsertions=list(upsertions)
    )
    results = admin.call(request).results
    return {each.user: (each.error_code, each.error_message) for each in results}


def describe(admin: WireClient, *users: str) -> dict[str, Any]:
    request = m.DescribeUserScramCredentialsRequest(
        users=[m.UserName(name=user) for user in users]
    )
    return {
        each.user: (each.error_code, each.error_message)
        if each.error_code
        else {info.mechanism: info.iterations for info in each.credential_infos}
        for each in admin.call(request).results
    }


# Requests out of order.


def test_sasl_on_a_plaintext_listener_is_an_illegal_state(broker: Broker) -> None:
    with connected(broker.bootstrap) as client:
        assert handshake(client, "PLAIN").error_code == ILLEGAL
        assert send_token(client, b"").error_code == ILLEGAL
        assert client.call(m.MetadataRequest(topics=[]), 12).brokers


@pytest.mark.parametrize(
    "request_",
    [m.MetadataRequest(topics=[]), m.SaslAuthenticateRequest(auth_bytes=b"")],
)
def test_no_other_request_is_served_before_authentication(
    client: WireClient, request_: Any
) -> None:
    client.send(request_, 2)
    assert client.is_closed()


def test_an_unknown_mechanism_gets_the_list_of_enabled_mechanisms(
    client: WireClient,
) -> None:
    answer = handshake(client, "NONE")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} <= set(answer.mechanisms)
    assert client.is_closed()


@pytest.mark.parametrize(
    ("request_", "version"),
    [(m.ApiVersionsRequest(), 2), (m.SaslHandshakeRequest(mechanism="PLAIN"), 1)],
)
def test_after_the_handshake_other_requests_are_an_illegal_state(
    client: WireClient, request_: Any, version: int
) -> None:
    handshake(client, "PLAIN")
    assert client.call(request_, version).error_code == ILLEGAL
    assert client.is_closed()


def test_a_second_handshake_keeps_an_authenticated_session(admin: WireClient) -> None:
    again = handshake(admin, "PLAIN")
    assert (again.error_code, again.mechanisms) == (ILLEGAL, [])
    answer = send_token(admin, b"")
    assert (answer.error_code, answer.error_message) == (
        ILLEGAL,
        "SaslAuthenticate request received after successful authentication",
    )
    assert admin.call(m.MetadataRequest(topics=[]), 12).brokers


# PLAIN.


@pytest.mark.parametrize(
    ("token", "says"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"admin\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is "
            "different from username",
        ),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_plain_authentication_fails_with_the_same_message(
    client: WireClient, token: bytes, says: str
) -> None:
    handshake(client, "PLAIN")
    refused = send_token(client, token)
    assert (refused.error_code, refused.error_message) == (REFUSED, says)
    assert client.is_closed()


def test_plain_accepts_an_equal_authorization_id(client: WireClient) -> None:
    handshake(client, "PLAIN")
    authenticated = send_token(client, b"alice\0alice\0alice-secret")
    assert (authenticated.error_code, authenticated.auth_bytes) == (0, b"")
    assert client.call(m.MetadataRequest(topics=[]), 12).brokers


def test_handshake_v0_is_followed_by_raw_tokens(client: WireClient) -> None:
    assert handshake(client, "PLAIN", version=0).error_code == 0
    assert send_bare(client, plain_token("alice", PASSWORDS["alice"])) == b""
    assert client.call(m.MetadataRequest(topics=[]), 12).brokers


def test_a_wrong_raw_token_closes_the_connection(client: WireClient) -> None:
    handshake(client, "PLAIN", version=0)
    with pytest.raises(EOFError):
        send_bare(client, plain_token("alice", "wrong"))


# SCRAM.


def test_a_created_user_authenticates_by_scram(
    admin: WireClient, sasl: SaslListener, name: str
) -> None:
    assert alter(admin, upsertion(name)) == {name: (0, None)}

    def is_accepted() -> bool:
        with connected(sasl.address) as client:
            return bool(scram(client, name, "secret").error_code == 0)

    eventually(is_accepted, expected="the user known to the broker")
    with connected(sasl.address) as client:
        refused = scram(client, name, "wrong")
        assert (refused.error_code, refused.error_message) == (REFUSED, GENERIC)
        assert client.is_closed()
    alter(admin, deletions=(deletion(name),))


def scram(client: WireClient, user: str, password: str) -> Any:
    """Run a SCRAM exchange; return the last response."""
    talk = ScramClient(["SCRAM-SHA-256"], user, password)
    handshake(client, "SCRAM-SHA-256")
    first = send_token(client, talk.get_client_first().encode())
    if first.error_code:
        return first
    talk.set_server_first(first.auth_bytes.decode())
    return send_token(client, talk.get_client_final().encode())


def test_an_unknown_scram_user_is_refused(client: WireClient) -> None:
    """Expect the error after the first message from Kafka, after the last from Coterie.

    Coterie treats an unknown user like a wrong password, so that responses do not
    reveal which users exist.
    """
    refused = scram(client, "nobody", "wrong")
    assert (refused.error_code, refused.error_message) == (REFUSED, GENERIC)
    assert client.is_closed()


@pytest.mark.parametrize("token", [b"", b"y,,n=alice,r=abc,"])
def test_scram_authentication_fails_with_the_same_messages(
    client: WireClient, token: bytes
) -> None:
    handshake(client, "SCRAM-SHA-256")
    refused = send_token(client, token)
    assert (refused.error_code, refused.error_message) == (REFUSED, GENERIC)
    assert client.is_closed()


# Users.


def test_alterations_of_users_are_refused_with_the_same_messages(
    admin: WireClient, name: str
) -> None:
    assert alter(
        admin,
        upsertion(""),
        upsertion(f"{name}-0", 0),
        upsertion(f"{name}-few", iterations=4_095),
        upsertion(f"{name}-many", iterations=16_385),
        upsertion(f"{name}-twice"),
        upsertion(f"{name}-twice", SHA_512),
        deletions=(deletion(f"{name}-gone"), deletion(f"{name}-10", 10)),
    ) == {
        "": (93, "Username must not be empty"),
        f"{name}-0": (33, "Unknown SCRAM mechanism"),
        f"{name}-10": (33, "Unknown SCRAM mechanism"),
        f"{name}-few": (93, "Too few iterations"),
        f"{name}-many": (93, "Too many iterations"),
        f"{name}-twice": (
            92,
            "A user credential cannot be altered twice in the same request",
        ),
        f"{name}-gone": (
            91,
            "Attempt to delete a user credential that does not exist",
        ),
    }


def test_descriptions_of_users_are_equal(admin: WireClient, name: str) -> None:
    alter(admin, upsertion(name))
    alter(admin, upsertion(name, SHA_512, iterations=8_192))
    eventually(
        lambda: describe(admin, name) == {name: {1: 4_096, 2: 8_192}},
        expected="both credentials",
    )
    assert describe(admin, f"{name}-gone", name, name) == {
        f"{name}-gone": (
            91,
            f"Attempt to describe a user credential that does not exist: {name}-gone",
        ),
        name: (
            92,
            "Cannot describe SCRAM credentials for the same user twice in a single "
            f"request: {name}",
        ),
    }
    for mechanism in ScramMechanism:
        alter(admin, deletions=(deletion(name, mechanism),))


def test_managing_users_needs_permissions_on_the_cluster(sasl: SaslListener) -> None:
    with sasl.client("alice") as client:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        answers = alter(client, upsertion("b"), deletions=(deletion("a"),))
        assert {user: error for user, (error, _) in answers.items()} == {
            "a": code,
            "b": code,
        }
        answer = client.call(m.DescribeUserScramCredentialsRequest())
        assert (answer.error_code, answer.results) == (code, [])
