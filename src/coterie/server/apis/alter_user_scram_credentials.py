"""AlterUserScramCredentials, key 51: version 0 (KIP-554).

Kafka's controller decides what is refused and in which words. Ours alone is the
shortest salt: with a shorter one the user could not be let in by SCRAM.
"""

from __future__ import annotations

from typing import TypeAlias

from coterie.auth.authorizer import Operation
from coterie.auth.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES_MIN,
    credential_from_salted,
)
from coterie.catalog.entries import Entry
from coterie.catalog.users import Users, credential_entry
from coterie.errors import ApiError
from coterie.server.apis.support import may_cluster
from coterie.server.call import Call
from coterie.types import ScramMechanism
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

_Change: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion


def handle(call: Call) -> None:
    """Change each user once, or say why not; answer when that is durable (ALTER on the
    cluster)."""
    request: AlterUserScramCredentialsRequest = call.request
    changes: list[_Change] = [*request.deletions, *request.upsertions]
    if not may_cluster(call, Operation.ALTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        call.answer(_response(dict.fromkeys(_users(changes), ApiError(code))))
        return
    entries, refusals = decide(call.node.broker.catalog.users, changes)
    call.node.broker.data.stage(entries.values())

    def durable(error: ErrorCode) -> None:
        failed = ApiError(error) if error else None
        call.answer(_response({**dict.fromkeys(entries, failed), **refusals}))

    call.node.broker.data.when_durable(durable)


def decide(
    users: Users, changes: list[_Change]
) -> tuple[dict[str, Entry], dict[str, ApiError]]:
    """What to write for each user, or why nothing is: nobody is changed twice."""
    entries: dict[str, Entry] = {}
    refusals: dict[str, ApiError] = {}
    for change in changes:
        user = change.name
        if user in refusals:
            continue
        if entries.pop(user, None) is not None:
            refusals[user] = ApiError(
                ErrorCode.DUPLICATE_RESOURCE,
                "A user credential cannot be altered twice in the same request",
            )
            continue
        try:
            entries[user] = _entry(users, change)
        except ApiError as error:
            refusals[user] = error
    return entries, refusals


def _entry(users: Users, change: _Change) -> Entry:
    if not change.name:
        raise _unacceptable("Username must not be empty")
    try:
        mechanism = ScramMechanism(change.mechanism)
    except ValueError:
        raise ApiError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
        ) from None
    if isinstance(change, ScramCredentialDeletion):
        if users.find(change.name, mechanism) is None:
            raise ApiError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        return credential_entry(change.name, mechanism, None)
    _check_strength(change)
    made = credential_from_salted(
        mechanism, change.salted_password, change.salt, change.iterations
    )
    return credential_entry(change.name, mechanism, made)


def _check_strength(change: ScramCredentialUpsertion) -> None:
    if change.iterations < ITERATIONS_MIN:
        raise _unacceptable("Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise _unacceptable("Too many iterations")
    if len(change.salt) < SALT_BYTES_MIN:
        raise _unacceptable(f"The salt must have at least {SALT_BYTES_MIN} bytes")


def _unacceptable(message: str) -> ApiError:
    return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)


def _users(changes: list[_Change]) -> list[str]:
    return sorted({change.name for change in changes})


def _response(
    outcomes: dict[str, ApiError | None] | dict[str, ApiError],
) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for user, error in outcomes.items()
        ]
    )
