"""Users' passwords for SCRAM: what kinds there are, set and deleted (KIP-554).

DescribeUserScramCredentials (key 50) any broker answers; AlterUserScramCredentials
(key 51) is the controller's. Salting takes milliseconds a password and is done in a
thread.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from typing import Final

from coterie.auth.scram import salted_password
from coterie.client.admin.controller import call_controller
from coterie.client.admin.deadline import Deadline
from coterie.client.admin.refusals import refusal
from coterie.client.admin.results import Results, results_of
from coterie.client.admin.user_values import ScramDeletion, ScramInfo, ScramUpsertion
from coterie.client.cluster import Cluster
from coterie.errors import CoterieError
from coterie.types import ScramMechanism
from coterie.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from coterie.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

SALT_BYTES: Final = 32
_MECHANISMS: Final = frozenset(ScramMechanism)


async def describe_scram_users(
    cluster: Cluster, users: Iterable[str] | None = None
) -> Results[str, tuple[ScramInfo, ...]]:
    """The kinds of passwords users have; None means all users that have any. A kind of
    a newer broker is left out.

    Raises ApiError, and UnsupportedByBroker for brokers before Kafka 2.7.
    """
    named = None if users is None else list(dict.fromkeys(users))
    if named == []:
        return Results()  # the protocol takes none for all
    request = DescribeUserScramCredentialsRequest(
        users=None if named is None else [UserName(name=name) for name in named]
    )
    answer = await Deadline(cluster).retrying(
        lambda: cluster.call(request, DescribeUserScramCredentialsResponse)
    )
    if answer.error_code:
        raise refusal(answer.error_code, "to describe users", answer.error_message)
    values: dict[str, tuple[ScramInfo, ...]] = {}
    errors: dict[str, CoterieError] = {}
    for each in answer.results:
        if each.error_code:
            said = each.error_message
            errors[each.user] = refusal(each.error_code, f"user {each.user}", said)
        else:
            values[each.user] = tuple(
                ScramInfo(ScramMechanism(info.mechanism), info.iterations)
                for info in each.credential_infos
                if info.mechanism in _MECHANISMS
            )
    return Results(values, errors)


async def alter_scram_users(
    cluster: Cluster, changes: Iterable[ScramUpsertion | ScramDeletion]
) -> Results[str, None]:
    """Set and delete passwords, one change a user: brokers take no more at once.

    Raises UnsupportedByBroker for brokers before Kafka 2.7, and RequestTimedOut or
    ConnectionLost when it is unknown whether passwords changed.
    """
    wanted = list(changes)
    request = await asyncio.to_thread(_request, wanted)
    answer = await call_controller(
        cluster,
        request,
        AlterUserScramCredentialsResponse,
        lambda answer: (each.error_code for each in answer.results),
    )
    return results_of(
        dict.fromkeys(each.user for each in wanted),
        {
            each.user: refusal(each.error_code, f"user {each.user}", each.error_message)
            if each.error_code
            else None
            for each in answer.results
        },
    )


def _request(
    changes: list[ScramUpsertion | ScramDeletion],
) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[
            ScramCredentialDeletion(name=each.user, mechanism=each.mechanism)
            for each in changes
            if isinstance(each, ScramDeletion)
        ],
        upsertions=[
            _salted(each) for each in changes if isinstance(each, ScramUpsertion)
        ],
    )


def _salted(wanted: ScramUpsertion) -> ScramCredentialUpsertion:
    salt = wanted.salt if wanted.salt is not None else secrets.token_bytes(SALT_BYTES)
    return ScramCredentialUpsertion(
        name=wanted.user,
        mechanism=wanted.mechanism,
        iterations=wanted.iterations,
        salt=salt,
        salted_password=salted_password(
            wanted.mechanism, wanted.password.reveal(), salt, wanted.iterations
        ),
    )
