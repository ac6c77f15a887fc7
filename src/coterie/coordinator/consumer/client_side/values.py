"""The values of client-side assignment: what members offer, and a computation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from coterie.types import MemberId, TopicId


class ClientAssignor(NamedTuple):
    """One assignor a member can run.

    It reads metadata of the versions from `minimum` to `maximum` and writes `version`;
    a `reason` other than 0 asks for an assignment (E13-12).
    """

    name: str
    minimum: int
    maximum: int
    reason: int
    version: int
    metadata: bytes


class Readable(NamedTuple):
    """The versions of an assignor's metadata that a member can read."""

    name: str
    minimum: int
    maximum: int


Offer: TypeAlias = tuple[Readable, ...]
"""All assignors of a member, as preferred. Members that run the same program offer the
same, so a group has few of them, whatever its size."""


def offer_of(assignors: Iterable[ClientAssignor]) -> Offer:
    """What these assignors are to the group's choice of one."""
    return tuple(Readable(each.name, each.minimum, each.maximum) for each in assignors)


class TargetDetail(NamedTuple):
    """What an assignor told a member beside its partitions; `error` is 0 for none."""

    error: int = 0
    version: int = 0
    metadata: bytes = b""


NO_DETAIL: Final = TargetDetail()


class Prepared(NamedTuple):
    """The world as it was handed to the computing member, to check what it installs."""

    epoch: int
    wanted: Mapping[MemberId, frozenset[TopicId]]
    counts: Mapping[TopicId, int]


class Computation(NamedTuple):
    """Who computes, and what it has been given. The log does not hold it: after a
    restart somebody is chosen again (E13-09).

    `passed_over` are members that were chosen before and took too long. The member id
    is empty when the one that was chosen is out of it and nobody was heard of since.
    """

    member_id: MemberId
    prepared: Prepared | None = None
    passed_over: frozenset[MemberId] = frozenset()
