"""DescribeUserScramCredentials, key 50: version 0 (KIP-554). What is told is how a
user's password is kept, never what is kept of it."""

from __future__ import annotations

from collections import Counter

from coterie.auth.authorizer import Operation
from coterie.server.apis.support import may_cluster
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(call: Call) -> None:
    """Describe the users that were named, or all, once they are durable (DESCRIBE on
    the cluster)."""
    request: DescribeUserScramCredentialsRequest = call.request
    if not may_cluster(call, Operation.DESCRIBE):
        call.answer(_failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    users = call.node.broker.catalog.users
    named = Counter(user.name for user in request.users or ())
    results = [
        _describe(call, user, count)
        for user, count in (named or Counter(users.names())).items()
    ]

    def durable(error: ErrorCode) -> None:
        response = DescribeUserScramCredentialsResponse(
            error_message=None, results=results
        )
        call.answer(_failed(error) if error else response)

    call.node.broker.data.when_durable(durable)


def _describe(call: Call, user: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message="Cannot describe SCRAM credentials for the same user twice "
            f"in a single request: {user}",
        )
    held = call.node.broker.catalog.users.credentials(user)
    if not held:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message="Attempt to describe a user credential that does not exist: "
            f"{user}",
        )
    return DescribeUserScramCredentialsResult(
        user=user,
        error_message=None,
        credential_infos=[
            CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
            for mechanism, credential in sorted(held.items())
        ],
    )


def _failed(code: ErrorCode) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=None)
