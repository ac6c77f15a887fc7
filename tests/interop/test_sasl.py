"""Saying who one is, token by token: Coterie and Apache Kafka answer the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scramp import ScramClient

from coterie.auth.scram import salted_password
from coterie.types import ScramMechanism
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from coterie.wire.messages.api_versions import ApiVersionsRequest
from coterie.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from coterie.wire.messages.metadata import MetadataRequest
from coterie.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from coterie.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.clients.waiting import eventually
from tests.server.harness import WireClient
from tests.server.secured import handshake, plain_token, send_bare, send_token

from .conftest import Broker
from .door import Door
from .node import PASSWORDS

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
def client(door: Door) -> Iterator[WireClient]:
    with connected(door.address) as opened:
        yield opened


@pytest.fixture
def admin(door: Door) -> Iterator[WireClient]:
    with door.client("admin") as opened:
        yield opened


def put(
    user: str,
    mechanism: int = SHA_256,
    *,
    iterations: int = 4_096,
    password: str = "secret",
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=SALT,
        salted_password=salted_password(SHA_256, password, SALT, 4_096),
    )


def drop(user: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(
    admin: WireClient,
    *upsertions: ScramCredentialUpsertion,
    deletions: tuple[ScramCredentialDeletion, ...] = (),
) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=list(deletions), upsertions=list(upsertions)
    )
    results = admin.call(request).results
    return {each.user: (each.error_code, each.error_message) for each in results}


def describe(admin: WireClient, *users: str) -> dict[str, Any]:
    request = DescribeUserScramCredentialsRequest(
        users=[UserName(name=user) for user in users]
    )
    return {
        each.user: (each.error_code, each.error_message)
        if each.error_code
        else {info.mechanism: info.iterations for info in each.credential_infos}
        for each in admin.call(request).results
    }


# Out of turn.


def test_where_nobody_asks_it_is_out_of_turn(broker: Broker) -> None:
    with connected(broker.bootstrap) as client:
        assert handshake(client, "PLAIN").error_code == ILLEGAL
        assert send_token(client, b"").error_code == ILLEGAL
        assert client.call(MetadataRequest(topics=[]), 12).brokers


@pytest.mark.parametrize(
    "request_", [MetadataRequest(topics=[]), SaslAuthenticateRequest(auth_bytes=b"")]
)
def test_nothing_else_is_served_before(client: WireClient, request_: Any) -> None:
    client.send(request_, 2)
    assert client.is_closed()


def test_another_mechanism_is_answered_with_those_there_are(
    client: WireClient,
) -> None:
    answer = handshake(client, "NONE")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} <= set(answer.mechanisms)
    assert client.is_closed()


@pytest.mark.parametrize(
    ("request_", "version"),
    [(ApiVersionsRequest(), 2), (SaslHandshakeRequest(mechanism="PLAIN"), 1)],
)
def test_once_tokens_are_due_the_rest_is_out_of_turn(
    client: WireClient, request_: Any, version: int
) -> None:
    handshake(client, "PLAIN")
    assert client.call(request_, version).error_code == ILLEGAL
    assert client.is_closed()


def test_who_is_in_stays_in_when_it_knocks_again(admin: WireClient) -> None:
    again = handshake(admin, "PLAIN")
    assert (again.error_code, again.mechanisms) == (ILLEGAL, [])
    answer = send_token(admin, b"")
    assert (answer.error_code, answer.error_message) == (
        ILLEGAL,
        "SaslAuthenticate request received after successful authentication",
    )
    assert admin.call(MetadataRequest(topics=[]), 12).brokers


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
def test_plain_refuses_in_the_same_words(
    client: WireClient, token: bytes, says: str
) -> None:
    handshake(client, "PLAIN")
    refused = send_token(client, token)
    assert (refused.error_code, refused.error_message) == (REFUSED, says)
    assert client.is_closed()


def test_plain_may_name_whom_to_act_as(client: WireClient) -> None:
    handshake(client, "PLAIN")
    known = send_token(client, b"alice\0alice\0alice-secret")
    assert (known.error_code, known.auth_bytes) == (0, b"")
    assert client.call(MetadataRequest(topics=[]), 12).brokers


def test_clients_of_old_send_bare_tokens(client: WireClient) -> None:
    assert handshake(client, "PLAIN", version=0).error_code == 0
    assert send_bare(client, plain_token("alice", PASSWORDS["alice"])) == b""
    assert client.call(MetadataRequest(topics=[]), 12).brokers


def test_a_bare_token_that_is_wrong_is_not_answered(client: WireClient) -> None:
    handshake(client, "PLAIN", version=0)
    with pytest.raises(EOFError):
        send_bare(client, plain_token("alice", "wrong"))


# SCRAM.


def test_a_user_that_was_made_comes_in_by_scram(
    admin: WireClient, door: Door, name: str
) -> None:
    assert alter(admin, put(name)) == {name: (0, None)}

    def is_in() -> bool:
        with connected(door.address) as client:
            return bool(scram(client, name, "secret").error_code == 0)

    eventually(is_in, wanted="the user known to the broker")
    with connected(door.address) as client:
        refused = scram(client, name, "wrong")
        assert (refused.error_code, refused.error_message) == (REFUSED, GENERIC)
        assert client.is_closed()
    alter(admin, deletions=(drop(name),))


def scram(client: WireClient, user: str, password: str) -> Any:
    """The last answer."""
    talk = ScramClient(["SCRAM-SHA-256"], user, password)
    handshake(client, "SCRAM-SHA-256")
    first = send_token(client, talk.get_client_first().encode())
    if first.error_code:
        return first
    talk.set_server_first(first.auth_bytes.decode())
    return send_token(client, talk.get_client_final().encode())


def test_a_user_that_nobody_is_gets_no_further(client: WireClient) -> None:
    """Kafka says so at once. Here it takes as long as a wrong password, so that nobody
    learns which users there are."""
    refused = scram(client, "nobody", "wrong")
    assert (refused.error_code, refused.error_message) == (REFUSED, GENERIC)
    assert client.is_closed()


@pytest.mark.parametrize("token", [b"", b"y,,n=alice,r=abc,"])
def test_scram_refuses_everything_in_the_same_words(
    client: WireClient, token: bytes
) -> None:
    handshake(client, "SCRAM-SHA-256")
    refused = send_token(client, token)
    assert (refused.error_code, refused.error_message) == (REFUSED, GENERIC)
    assert client.is_closed()


# Users.


def test_users_are_refused_in_the_same_words(admin: WireClient, name: str) -> None:
    assert alter(
        admin,
        put(""),
        put(f"{name}-0", 0),
        put(f"{name}-few", iterations=4_095),
        put(f"{name}-many", iterations=16_385),
        put(f"{name}-twice"),
        put(f"{name}-twice", SHA_512),
        deletions=(drop(f"{name}-gone"), drop(f"{name}-10", 10)),
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


def test_users_are_described_alike(admin: WireClient, name: str) -> None:
    alter(admin, put(name))
    alter(admin, put(name, SHA_512, iterations=8_192))
    eventually(
        lambda: describe(admin, name) == {name: {1: 4_096, 2: 8_192}},
        wanted="both credentials",
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
        alter(admin, deletions=(drop(name, mechanism),))


def test_users_are_the_clusters_affair(door: Door) -> None:
    with door.client("alice") as client:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        answers = alter(client, put("b"), deletions=(drop("a"),))
        assert {user: error for user, (error, _) in answers.items()} == {
            "a": code,
            "b": code,
        }
        answer = client.call(DescribeUserScramCredentialsRequest())
        assert (answer.error_code, answer.results) == (code, [])
