"""What a member is, wants and does, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from coterie.client.assignor import ClientAssignor
from coterie.types import GroupId, MemberId, TopicId, TopicName


class OwnedPartition(NamedTuple):
    """A partition as the group knows it: by the id of its topic."""

    topic_id: TopicId
    partition: int


Partitions: TypeAlias = frozenset[OwnedPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who the member is, for as long as it is one.

    `member_id` is what it calls itself; a coordinator that speaks version 0 only gives
    it another (E10-02). `instance_id` makes it a static member (KIP-345).
    """

    group_id: GroupId
    member_id: MemberId
    instance_id: str | None = None
    rack_id: str | None = None
    server_assignor: str | None = None
    rebalance_timeout_ms: int = 300_000
    assignors: tuple[ClientAssignor, ...] = ()


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics a member wants: those named, and those whose whole name a regular
    expression in RE2's syntax matches."""

    topics: frozenset[TopicName] = frozenset()
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait after so many failures in a row (ms)."""

    first_ms: int = 100
    max_ms: int = 1_000

    def wait_ms(self, failures: int) -> int:
        """The wait after the `failures`-th."""
        return min(self.first_ms << min(failures - 1, 16), self.max_ms)


@dataclass(frozen=True, slots=True)
class Revoke:
    """The application has to give these up; then they are free for others."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Assign:
    """The application may use these now."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Lose:
    """These are somebody else's already: the application must stop, and not commit."""

    partitions: Partitions


Step: TypeAlias = Revoke | Assign | Lose
