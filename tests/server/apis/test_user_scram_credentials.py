"""Users by AlterUserScramCredentials and DescribeUserScramCredentials. What is refused,
and in which words, is what Kafka's ScramControlManager and ScramImage say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from coterie.auth.scram import is_password, salted_password
from coterie.types import ScramMechanism
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from coterie.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.server.apis.in_process import Office

SHA_256, SHA_512 = ScramMechanism
SALT = b"0123456789ab"
TWICE = "A user credential cannot be altered twice in the same request"
UNKNOWN = "Unknown SCRAM mechanism"

Outcome = tuple[str, int, str | None]


@pytest.fixture
def office() -> Iterator[Office]:
    with Office() as opened:
        yield opened


def put(
    user: str,
    mechanism: int = SHA_256,
    *,
    iterations: int = 4_096,
    salt: bytes = SALT,
) -> ScramCredentialUpsertion:
    salted = salted_password(SHA_256, "secret", salt, iterations=4_096)
    return ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=salted,
    )


def drop(user: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(
    office: Office, *changes: ScramCredentialUpsertion | ScramCredentialDeletion
) -> list[Outcome]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, type(drop("")))],
        upsertions=[each for each in changes if isinstance(each, type(put("")))],
    )
    answer = office.call(request, 0)
    return [(each.user, each.error_code, each.error_message) for each in answer.results]


def describe(office: Office, *users: str) -> dict[str, object]:
    """Each user's mechanisms and iterations, or the code and message of its refusal."""
    names = [UserName(name=user) for user in users]
    answer = office.call(DescribeUserScramCredentialsRequest(users=names or None), 0)
    assert answer.error_code == 0
    return {
        each.user: (each.error_code, each.error_message)
        if each.error_code
        else {info.mechanism: info.iterations for info in each.credential_infos}
        for each in answer.results
    }


def test_nothing_changes_nothing(office: Office) -> None:
    assert alter(office) == []
    assert describe(office) == {}


def test_users_are_made_changed_described_and_taken_away(office: Office) -> None:
    assert alter(office, put("a"), put("b", SHA_512)) == [
        ("a", 0, None),
        ("b", 0, None),
    ]
    assert alter(office, put("a", SHA_512, iterations=8_192)) == [("a", 0, None)]
    assert alter(office, put("b", SHA_512, iterations=16_384)) == [("b", 0, None)]
    assert describe(office) == {"a": {1: 4_096, 2: 8_192}, "b": {2: 16_384}}
    assert alter(office, drop("a"), drop("b", SHA_512)) == [
        ("a", 0, None),
        ("b", 0, None),
    ]
    assert describe(office) == {"a": {2: 8_192}}
    assert office.broker.catalog.users.names() == ["a"]


def test_what_a_client_salted_is_the_password(office: Office) -> None:
    alter(office, put("a"))
    held = office.broker.catalog.users.find("a", SHA_256)
    assert held is not None
    assert is_password(SHA_256, held, "secret")
    assert not is_password(SHA_256, held, "Secret")


@pytest.mark.parametrize("again", [drop("a"), put("a", SHA_512)])
def test_nobody_is_changed_twice_at_once(
    office: Office, again: ScramCredentialUpsertion | ScramCredentialDeletion
) -> None:
    alter(office, put("a"))
    first = drop("a") if isinstance(again, type(drop(""))) else put("a")
    assert alter(office, first, again, again, put("b")) == [
        ("b", 0, None),
        ("a", ErrorCode.DUPLICATE_RESOURCE, TWICE),
    ]
    assert describe(office) == {"a": {1: 4_096}, "b": {1: 4_096}}


@pytest.mark.parametrize(
    ("change", "code", "says"),
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
def test_one_refusal_hinders_nobody_else(
    office: Office,
    change: ScramCredentialUpsertion | ScramCredentialDeletion,
    code: ErrorCode,
    says: str,
) -> None:
    assert alter(office, change, put("z")) == [
        ("z", 0, None),
        (change.name, code, says),
    ]
    assert describe(office) == {"z": {1: 4_096}}


def test_whoever_is_described_twice_or_is_not_there_is_told_so(office: Office) -> None:
    alter(office, put("a"), put("b"))
    assert describe(office, "a", "x", "b", "b") == {
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


def test_users_are_the_clusters_to_alter_and_to_describe() -> None:
    denied = [
        (operation, ResourceType.CLUSTER, CLUSTER_NAME)
        for operation in (Operation.ALTER, Operation.DESCRIBE)
    ]
    with Office(*denied) as office:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert alter(office, drop("b"), put("a"), put("b")) == [
            ("a", code, None),
            ("b", code, None),
        ]
        answer = office.call(DescribeUserScramCredentialsRequest(), 0)
        assert (answer.error_code, answer.results) == (code, [])
        assert office.broker.catalog.users.names() == []


def test_a_password_that_is_not_durable_is_no_password(office: Office) -> None:
    alter(office, put("a"))
    request = AlterUserScramCredentialsRequest(upsertions=[put("b")])
    answered = office.send(request, 0)
    assert not answered.done()
    office.turn()
    assert answered.done()
    office.broker.data.reload()
    assert describe(office) == {"a": {1: 4_096}, "b": {1: 4_096}}
