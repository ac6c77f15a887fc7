"""A broker's no, in words that say what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode

_NOT_ALLOWED: Final = "is not allowed to you; who runs the cluster can add an ACL"
_WORDS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "does not exist, or you may not see it; look at its name"
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "cannot exist: names have letters, digits, '.', '_' and '-', 249 at most"
    ),
    ErrorCode.OFFSET_OUT_OF_RANGE: "has no such offset; look where it ends",
    ErrorCode.LEADER_NOT_AVAILABLE: (
        "has no leader now; see which brokers of its replicas are down"
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "has moved to another leader; try again",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _NOT_ALLOWED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _NOT_ALLOWED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _NOT_ALLOWED,
    ErrorCode.GROUP_ID_NOT_FOUND: "does not exist; look at its name",
    ErrorCode.NON_EMPTY_GROUP: "has members; stop or remove them first",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "is of a topic that a member of the group reads; stop that member first"
    ),
    ErrorCode.UNSTABLE_OFFSET_COMMIT: (
        "has an offset in a transaction that has not ended; try again"
    ),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (
        "has a coordinator that is still loading; try again"
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "has no coordinator now; try again",
    ErrorCode.NOT_COORDINATOR: "has moved to another coordinator; try again",
}


def refusal(code: int, what: str, said: str | None = None) -> ApiError:
    """The error of a code in an answer about `what`; with the broker's own words, when
    it said any."""
    read = ErrorCode.read(code)
    if said:
        return ApiError(read, f"{what}: {read.name}: {said}")
    return ApiError(read, f"{what} {_WORDS.get(read) or f'was refused: {read.name}'}")
