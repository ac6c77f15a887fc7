"""AlterUserScramCredentials and DescribeUserScramCredentials. Errors and their messages
are those of Kafka's ScramControlManager and ScramImage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.auth.acl import CLUSTER_NAME, Operation, ResourceType
from coterie.auth.scram import password_matches, salted_password
from coterie.settings import Settings
from coterie.types import ScramMechanism
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.in_process_server import InProcessServer

SHA_256, SHA_512 = ScramMechanism
SALT = b"0123456789ab"
TWICE = "A user credential cannot be altered twice in the same request"
UNKNOWN = "Unknown SCRAM mechanism"

Outcome = tuple[str, int, str | None]


@pytest.fixture
def server() -> Iterator[InProcessServer]:
    with InProcessServer() as opened:
        yield opened


def put(
    user: str,
    mechanism: int = SHA_256,
    *,
    iterations: int = 4_096,
    salt: bytes = SALT,
) -> m.ScramCredentialUpsertion:
    salted = salted_password(SHA_256, "secret", salt, iterations=4_096)
    return m.ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=salted,
    )


def drop(user: str, mechanism: int = SHA_256) -> m.ScramCredentialDeletion:
    return m.ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(
    server: InProcessServer,
    *changes: m.ScramCredentialUpsertion | m.ScramCredentialDeletion,
) -> list[Outcome]:
    request = m.AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, type(drop("")))],
        upsertions=[each for each in changes if isinstance(each, type(put("")))],
    )
    answer = server.call(request, 0)
    return [(each.user, each.error_code, each.error_message) for each in answer.results]


def describe(server: InProcessServer, *users: str) -> dict[str, object]:
    """Return each user's mechanisms and iterations, or the code and message of its
    error."""
    names = [m.UserName(name=user) for user in users]
    answer = server.call(m.DescribeUserScramCredentialsRequest(users=names or None), 0)
    assert answer.error_code == 0
    return {
        each.user: (each.error_code, each.error_message)
        if each.error_code
        else {info.mechanism: info.iterations for info in each.credential_infos}
        for each in answer.results
    }


def test_an_empty_request_changes_nothing(server: InProcessServer) -> None:
    assert alter(server) == []
    assert describe(server) == {}


def test_users_are_created_changed_described_and_deleted(
    server: InProcessServer,
) -> None:
    assert alter(server, put("a"), put("b", SHA_512)) == [
        ("a", 0, None),
        ("b", 0, None),
    ]
    assert alter(server, put("a", SHA_512, iterations=8_192)) == [("a", 0, None)]
    assert alter(server, put("b", SHA_512, iterations=16_384)) == [("b", 0, None)]
    assert describe(server) == {"a": {1: 4_096, 2: 8_192}, "b": {2: 16_384}}
    assert alter(server, drop("a"), drop("b", SHA_512)) == [
        ("a", 0, None),
        ("b", 0, None),
    ]
    assert describe(server) == {"a": {2: 8_192}}
    assert server.broker.catalog.users.names() == ["a"]


def test_a_client_salted_password_authenticates(server: InProcessServer) -> None:
    alter(server, put("a"))
    held = server.broker.catalog.users.find("a", SHA_256)
    assert held is not None
    assert password_matches(SHA_256, held, "secret")
    assert not password_matches(SHA_256, held, "Secret")


@pytest.mark.parametrize("again", [drop("a"), put("a", SHA_512)])
def test_a_repeated_user_is_refused(
    server: InProcessServer,
    again: m.ScramCredentialUpsertion | m.ScramCredentialDeletion,
) -> None:
    alter(server, put("a"))
    first = drop("a") if isinstance(again, type(drop(""))) else put("a")
    assert alter(server, first, again, again, put("b")) == [
        ("b", 0, None),
        ("a", ErrorCode.DUPLICATE_RESOURCE, TWICE),
    ]
    assert describe(server) == {"a": {1: 4_096}, "b": {1: 4_096}}


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (put(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (drop(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (put("a", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, UNKNOWN),
        (drop("a", 10), ErrorCode.UNSUPPORTED_SASL_MECHANISM, UNKNOWN),
        (
            put("a", iterations=4_095),
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "Too few iterations",
        ),
        (
            put("a", iterations=16_385),
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "Too many iterations",
        ),
        (
            put("a", salt=b"salt"),
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "The salt must have at least 12 bytes",
        ),
        (
            drop("a"),
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
    ],
)
def test_a_refused_change_does_not_affect_other_users(
    server: InProcessServer,
    change: m.ScramCredentialUpsertion | m.ScramCredentialDeletion,
    code: ErrorCode,
    message: str,
) -> None:
    assert alter(server, change, put("z")) == [
        ("z", 0, None),
        (change.name, code, message),
    ]
    assert describe(server) == {"z": {1: 4_096}}


def test_describing_a_repeated_or_missing_user_is_an_error(
    server: InProcessServer,
) -> None:
    alter(server, put("a"), put("b"))
    assert describe(server, "a", "x", "b", "b") == {
        "a": {1: 4_096},
        "x": (
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to describe a user credential that does not exist: x",
        ),
        "b": (
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single "
            "request: b",
        ),
    }


def test_users_need_describe_and_alter_on_the_cluster() -> None:
    denied = [
        (operation, ResourceType.CLUSTER, CLUSTER_NAME)
        for operation in (Operation.ALTER, Operation.DESCRIBE)
    ]
    with InProcessServer(*denied) as server:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert alter(server, drop("b"), put("a"), put("b")) == [
            ("a", code, None),
            ("b", code, None),
        ]
        answer = server.call(m.DescribeUserScramCredentialsRequest(), 0)
        assert (answer.error_code, answer.results) == (code, [])
        assert server.broker.catalog.users.names() == []


def test_a_password_whose_flush_fails_does_not_authenticate(
    server: InProcessServer,
) -> None:
    alter(server, put("a"))
    request = m.AlterUserScramCredentialsRequest(upsertions=[put("b")])
    answered = server.send(request, 0)
    assert not answered.done()
    server.turn()
    assert answered.done()
    server.broker.data.reload()
    assert describe(server) == {"a": {1: 4_096}, "b": {1: 4_096}}


def test_there_are_at_most_catalog_max_entries_credentials() -> None:
    with InProcessServer(settings=Settings(catalog_max_entries=2)) as server:
        outcomes = alter(server, *map(put, "abc"))
        assert [(user, code) for user, code, _ in outcomes] == [
            ("a", 0),
            ("b", 0),
            ("c", ErrorCode.POLICY_VIOLATION),
        ]
        [(_, code, _)] = alter(server, put("a", iterations=5_000))
        assert code == 0, "an existing credential"
