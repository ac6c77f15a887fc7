"""A row of the table of operations that each request needs.

A row has a request, the operations it needs, and the expected result with all of them
and without each. The rows run against any broker that implements `Place`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from coterie.auth.acl import CLUSTER_NAME, Operation, ResourceType
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message

REFUSALS: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION = 29, 30, 31, 53


class Place(Protocol):
    """A broker with topics t, u and d, a classic group "g" with offsets of t and u, and
    a consumer group "c" whose one member has all of t."""

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic."""


class Right(NamedTuple):
    """An operation on a resource."""

    operation: Operation
    resource_type: ResourceType
    name: str


@dataclass(frozen=True)
class Row:
    """A request and the operations it needs.

    `result` extracts the result from a response. `without` maps each needed operation
    to the result when all needed operations but this one are granted. Operations in
    `given` are always granted. Each element of `alternatives` is sufficient instead of
    the needed operations. A row with `leaves_topics` or `settings` has a separate
    server. The tests of missing and of alternative operations prove
    `facts`.
    """

    title: str
    request: Callable[[Place], Message]
    result: Callable[[Any], object]
    allowed: object
    without: Mapping[Right, object]
    version: int
    given: tuple[Right, ...] = ()
    alternatives: tuple[tuple[Right, ...], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    leaves_topics: bool = False
    facts: tuple[str, ...] = ()


def group(operation: Operation, name: str = "g") -> Right:
    return Right(operation, ResourceType.GROUP, name)


def topic(operation: Operation, name: str = "t") -> Right:
    return Right(operation, ResourceType.TOPIC, name)


def cluster(operation: Operation) -> Right:
    return Right(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def transaction(operation: Operation) -> Right:
    return Right(operation, ResourceType.TRANSACTIONAL_ID, "x")


def refusal(code: int) -> int:
    """Return the code if it is an authorization error, otherwise 0."""
    return int(code) if code in REFUSALS else 0


def top(response: Any) -> int:
    """Return the authorization error at the top level of a response."""
    return refusal(response.error_code)


def by_name(
    parts: Iterable[Any], name: str, code: str = "error_code"
) -> dict[str, int]:
    """Return the authorization error of each part of a response, by the part's name."""
    return {getattr(part, name): refusal(getattr(part, code)) for part in parts}


def by_topic(
    topics: Iterable[Any],
    partitions: str = "partitions",
    code: str = "error_code",
    name: str = "name",
) -> dict[Any, int]:
    """Return the authorization error of each topic, which all its partitions share."""
    result: dict[Any, int] = {}
    for found in topics:
        [refused] = {refusal(getattr(p, code)) for p in getattr(found, partitions)}
        result[getattr(found, name)] = refused
    return result
