"""The values of client-side assignment: offers of members, and a computation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from coterie.types import MemberId, TopicId


class ClientAssignor(NamedTuple):
    """An assignor that a member can run.

    It can decode metadata of the versions from `minimum` to `maximum`, and encodes its
    own in `version`. A `reason` other than 0 requests an assignment.
    """

    name: str
    minimum: int
    maximum: int
    reason: int
    version: int
    metadata: bytes


class Readable(NamedTuple):
    """The versions of an assignor's metadata that a member can decode."""

    name: str
    minimum: int
    maximum: int


Offer: TypeAlias = tuple[Readable, ...]
"""All assignors of a member, in order of preference.

Members of the same application have equal offers, so a group has few different ones.
"""


def offer_of(assignors: Iterable[ClientAssignor]) -> Offer:
    """Return the name and the readable versions of each assignor."""
    return tuple(Readable(each.name, each.minimum, each.maximum) for each in assignors)


class TargetDetail(NamedTuple):
    """The metadata that an assignor sends to a member with its partitions. `error` is 0
    if there is none."""

    error: int = 0
    version: int = 0
    metadata: bytes = b""


NO_DETAIL: Final = TargetDetail()


class Prepared(NamedTuple):
    """The input that was sent to the computing member; its assignment is checked
    against it."""

    epoch: int
    wanted: Mapping[MemberId, frozenset[TopicId]]
    counts: Mapping[TopicId, int]


class Computation(NamedTuple):
    """The computing member and its input.

    The log does not hold it: after a restart a member is chosen again.
    `passed_over` are members that were chosen before and took too long. The member id
    is empty when the chosen member left or took too long and no other one has sent a
    heartbeat since.
    """

    member_id: MemberId
    prepared: Prepared | None = None
    passed_over: frozenset[MemberId] = frozenset()
