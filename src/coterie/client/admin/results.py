"""Results about many items, and the errors of single items.

Every item has its own outcome, so one deleted topic or one unavailable broker does not
affect other items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

from coterie.auth.acl import Operation
from coterie.errors import ApiError, CoterieError, MalformedFrame
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode

K = TypeVar("K")
V = TypeVar("V")

Progress: TypeAlias = Callable[[int, int], None]
"""A callback that gets the number of finished items and their total."""


class Partial(Generic[K]):
    """A result that may lack items: `errors` has the error of each missing item.

    Results of calls about many items derive from it, so that callers check each of
    them the same way.
    """

    __slots__ = ()

    @property
    def errors(self) -> Mapping[K, CoterieError]:
        """The errors, by the key of the item, such as a group id or a node id."""
        raise NotImplementedError

    @property
    def ok(self) -> bool:
        """Whether no item failed."""
        return not self.errors

    def raise_any(self) -> None:
        """Raise the error of the first failed item, if any. With several errors, a note
        on the exception has their number."""
        for error in self.errors.values():
            if others := len(self.errors) - 1:
                note = f"{others} more of the same call: see `errors` of its result"
                if note not in getattr(error, "__notes__", ()):
                    error.add_note(note)
            raise error


@dataclass(frozen=True, slots=True)
class Results(Partial[K], Generic[K, V]):
    """The outcomes of the requested keys: each key is either in `values` or in
    `errors`."""

    values: Mapping[K, V] = field(default_factory=dict)
    """The values of the keys that succeeded, in the order requested."""
    errors: Mapping[K, CoterieError] = field(default_factory=dict)
    """The errors of the other keys, in the order requested."""

    def one(self, key: K) -> V:
        """Return the value of a key. Raises the key's error, and KeyError for a key
        that was not requested."""
        if key in self.errors:
            raise self.errors[key]
        return self.values[key]

    def all(self) -> Mapping[K, V]:
        """Return every value. Raises the first error, if any."""
        self.raise_any()
        return self.values


def results_of(
    wanted: Iterable[K], outcomes: Mapping[K, V | CoterieError]
) -> Results[K, V]:
    """Return the outcomes of the requested keys, in the order requested. A key that the
    broker's response omits has the error MalformedFrame."""
    values: dict[K, V] = {}
    errors: dict[K, CoterieError] = {}
    for key in wanted:
        if key not in outcomes:
            errors[key] = MalformedFrame(f"the broker's response omits {key}")
            continue
        outcome = outcomes[key]
        if isinstance(outcome, CoterieError):
            errors[key] = outcome
        else:
            values[key] = outcome
    return Results(values, errors)


_NOT_AUTHORIZED: Final = "is not authorized for this principal; an ACL is missing"
_EXPLANATIONS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "does not exist, or this principal may not describe it; check its name"
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "is not a valid topic name: use letters, digits, '.', '_' and '-', 249 at most"
    ),
    ErrorCode.OFFSET_OUT_OF_RANGE: "has no such offset; check where its log ends",
    ErrorCode.LEADER_NOT_AVAILABLE: (
        "has no leader now; check which brokers of its replicas are down"
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "has moved to another leader; try again",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _NOT_AUTHORIZED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _NOT_AUTHORIZED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _NOT_AUTHORIZED,
    ErrorCode.GROUP_ID_NOT_FOUND: "does not exist; check its name",
    ErrorCode.NON_EMPTY_GROUP: "has members; stop or remove them first",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "is of a topic that a member of the group subscribes to; stop that member first"
    ),
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "has an offset in an open transaction; try again",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (
        "has a coordinator that is still loading; try again"
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "has no coordinator now; try again",
    ErrorCode.NOT_COORDINATOR: "has moved to another coordinator; try again",
}


def api_error(code: int, subject: str, message: str | None = None) -> ApiError:
    """Return the error for a code in a response about `subject`, with the broker's own
    message when it sent one, else with a sentence about what to do."""
    read = ErrorCode.read(code)
    if message:
        return ApiError(read, f"{subject}: {read.name}: {message}")
    explanation = _EXPLANATIONS.get(read) or f"was refused: {read.name}"
    return ApiError(read, f"{subject} {explanation}")


def partition_name(partition: TopicPartition) -> str:
    """Return a partition as errors name it."""
    return f"partition {partition.topic}-{partition.partition}"


OPERATIONS_OMITTED: Final = -(2**31)
"""The value in a response when operations were not requested or the broker is too old.
"""


def authorized_operations(bits: int) -> frozenset[Operation] | None:
    """Return the operations of a bit field (KIP-430), without those unknown to this
    build; None when the broker sent none."""
    if bits == OPERATIONS_OMITTED:
        return None
    return frozenset(each for each in Operation if bits >> each & 1)
