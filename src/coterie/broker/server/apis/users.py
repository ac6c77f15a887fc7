"""The APIs of SCRAM users (KIP-554).

============================  ===  ========
API                           key  versions
============================  ===  ========
DescribeUserScramCredentials  50   0
AlterUserScramCredentials     51   0
============================  ===  ========

Conditions and messages of errors are those of Kafka's `ScramControlManager`, with one
addition: a salt of fewer than `SALT_BYTES_MIN` bytes is refused, because SCRAM clients
could not authenticate with it.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from coterie.auth.acl import Operation
from coterie.auth.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES_MIN,
    credential_from_salted,
)
from coterie.broker.catalog.entries import Entry, EntryKind, no_room
from coterie.broker.catalog.users import Users, credential_entry
from coterie.broker.server.call import Call
from coterie.errors import ApiError
from coterie.types import ScramMechanism
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

_Change: TypeAlias = m.ScramCredentialDeletion | m.ScramCredentialUpsertion


# DescribeUserScramCredentials.


def describe_users(call: Call) -> None:
    """Describe the named users, or all, once they are durable. Requires DESCRIBE on the
    cluster.

    The response has mechanisms and iteration counts, never keys or salts.
    """
    request: m.DescribeUserScramCredentialsRequest = call.request
    if not call.authorize_cluster(Operation.DESCRIBE):
        call.respond(_describe_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    users = call.node.broker.catalog.users
    counts = Counter(user.name for user in request.users or ())
    results = []
    for user, count in (counts or Counter(users.names())).items():
        result = m.DescribeUserScramCredentialsResult(user=user, error_message=None)
        credentials = users.credentials(user)
        if count > 1:
            result.error_code = ErrorCode.DUPLICATE_RESOURCE
            result.error_message = (
                "Cannot describe SCRAM credentials for the same user twice in a single "
                f"request: {user}"
            )
        elif not credentials:
            result.error_code = ErrorCode.RESOURCE_NOT_FOUND
            result.error_message = (
                f"Attempt to describe a user credential that does not exist: {user}"
            )
        else:
            result.credential_infos = [
                m.CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
                for mechanism, credential in sorted(credentials.items())
            ]
        results.append(result)

    def durable(error: ErrorCode) -> None:
        response = m.DescribeUserScramCredentialsResponse(
            error_message=None, results=results
        )
        call.respond(_describe_error(error) if error else response)

    call.node.broker.data.when_durable(durable)


def _describe_error(code: ErrorCode) -> m.DescribeUserScramCredentialsResponse:
    return m.DescribeUserScramCredentialsResponse(error_code=code, error_message=None)


# AlterUserScramCredentials.


def alter_users(call: Call) -> None:
    """Change the credentials of users. Requires ALTER on the cluster.

    Every user has a result; the response is sent once all changes are durable.
    """
    request: m.AlterUserScramCredentialsRequest = call.request
    changes: list[_Change] = [*request.deletions, *request.upsertions]
    if not call.authorize_cluster(Operation.ALTER):
        error = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        users = sorted({change.name for change in changes})
        call.respond(_alter_response(dict.fromkeys(users, error)))
        return
    catalog = call.node.broker.catalog
    room = catalog.settings.catalog_max_entries - catalog.users.credential_count
    entries, errors = plan_changes(catalog.users, changes, room)
    call.node.broker.data.stage(entries.values())

    def durable(code: ErrorCode) -> None:
        failed = ApiError(code) if code else None
        call.respond(_alter_response({**dict.fromkeys(entries, failed), **errors}))

    call.node.broker.data.when_durable(durable)


def plan_changes(
    users: Users, changes: list[_Change], room: int
) -> tuple[dict[str, Entry], dict[str, ApiError]]:
    """Return by user the entry to write, and by user the error of a refused change.

    A user that occurs twice in the request is refused, and so are new credentials when
    there is `room` for fewer.
    """
    entries: dict[str, Entry] = {}
    errors: dict[str, ApiError] = {}
    for change in changes:
        user = change.name
        if user in errors:
            continue
        if entries.pop(user, None) is not None:
            errors[user] = ApiError(
                ErrorCode.DUPLICATE_RESOURCE,
                "A user credential cannot be altered twice in the same request",
            )
            continue
        try:
            entry = _entry(users, change)
            if entry.value is not None and entry.name not in users:
                if room <= 0:
                    raise no_room(EntryKind.SCRAM_CREDENTIAL)
                room -= 1
            entries[user] = entry
        except ApiError as error:
            errors[user] = error
    return entries, errors


def _entry(users: Users, change: _Change) -> Entry:
    if not change.name:
        raise _unacceptable("Username must not be empty")
    try:
        mechanism = ScramMechanism(change.mechanism)
    except ValueError:
        raise ApiError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
        ) from None
    if isinstance(change, m.ScramCredentialDeletion):
        if users.find(change.name, mechanism) is None:
            raise ApiError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        return credential_entry(change.name, mechanism, None)
    if change.iterations < ITERATIONS_MIN:
        raise _unacceptable("Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise _unacceptable("Too many iterations")
    if len(change.salt) < SALT_BYTES_MIN:
        raise _unacceptable(f"The salt must have at least {SALT_BYTES_MIN} bytes")
    credential = credential_from_salted(
        mechanism, change.salted_password, change.salt, change.iterations
    )
    return credential_entry(change.name, mechanism, credential)


def _unacceptable(message: str) -> ApiError:
    return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)


def _alter_response(
    outcomes: dict[str, ApiError | None] | dict[str, ApiError],
) -> m.AlterUserScramCredentialsResponse:
    return m.AlterUserScramCredentialsResponse(
        results=[
            m.AlterUserScramCredentialsResult(
                user=user,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for user, error in outcomes.items()
        ]
    )
