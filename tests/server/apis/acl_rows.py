"""What a row of the table of rights says, and how answers are read for it.

A row is a request, every right that it takes, and what is told with all of them and
without each. The same rows can be asked of any broker: `Place` is where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from coterie.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
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
        """The id of a topic."""


class Right(NamedTuple):
    """To be allowed one operation on one resource."""

    operation: Operation
    resource_type: ResourceType
    name: str


@dataclass(frozen=True)
class Row:
    """One request and who may make it.

    `told` picks from an answer what matters. `without` says what is told for each right
    that is missing while all the others are there. `given` are rights that are always
    there; `instead` names others that do as well as all that could be missing. A row
    that `spoils` leaves topics behind which others do not expect. `facts` are what each
    missing right proves.
    """

    title: str
    request: Callable[[Place], Message]
    told: Callable[[Any], object]
    allowed: object
    without: Mapping[Right, object]
    version: int
    given: tuple[Right, ...] = ()
    instead: tuple[tuple[Right, ...], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    spoils: bool = False
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
    """The code if it is a refusal; 0 for success, and for errors of the caller's own
    making: it was let in."""
    return int(code) if code in REFUSALS else 0


def top(response: Any) -> int:
    """The refusal of the answer as a whole."""
    return refusal(response.error_code)


def by_name(
    parts: Iterable[Any], name: str, code: str = "error_code"
) -> dict[str, int]:
    """The refusal of each part by its name."""
    return {getattr(part, name): refusal(getattr(part, code)) for part in parts}


def by_topic(
    topics: Iterable[Any],
    partitions: str = "partitions",
    code: str = "error_code",
    name: str = "name",
) -> dict[Any, int]:
    """The refusal of each topic, which all its partitions tell alike."""
    told: dict[Any, int] = {}
    for found in topics:
        [refused] = {refusal(getattr(p, code)) for p in getattr(found, partitions)}
        told[getattr(found, name)] = refused
    return told
