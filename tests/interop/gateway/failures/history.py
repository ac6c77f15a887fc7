"""What clients saw of a gateway, and what of it must not happen.

Times are in seconds on one monotonic clock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

Partition = int


@dataclass(slots=True)
class CommitHistory:
    """The commits of one group by one client, which sends them one after another.

    Each commit has a higher offset than all before. A later fetch must return the
    newest acknowledged offset, a newer one, or one whose outcome is unknown: a request
    without a response may be handled late.
    """

    attempted: int = 0
    acknowledged: int = 0
    began_s: list[float] = field(default_factory=list)
    """The time at which each acknowledged commit was sent, in order."""
    acknowledged_s: list[float] = field(default_factory=list)
    """The time of each acknowledgement."""
    unknown: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    """Commits whose transaction was aborted."""
    refusals: dict[str, int] = field(default_factory=dict)
    """Responses with an error, by its name."""

    def begin(self) -> int:
        """Return the offset of the next commit."""
        self.attempted += 1
        return self.attempted

    def succeeded(self, offset: int, began_s: float, now_s: float) -> None:
        """Note an acknowledged commit and when it was sent."""
        self.acknowledged = max(self.acknowledged, offset)
        self.began_s.append(began_s)
        self.acknowledged_s.append(now_s)

    def refused(self, error: str) -> None:
        """Note a response with an error: the commit has no effect."""
        self.refusals[error] = self.refusals.get(error, 0) + 1

    def unanswered(self, offset: int) -> None:
        """Note a commit without a response."""
        self.unknown.add(offset)

    def is_possible(self, fetched: int, acknowledged: int) -> bool:
        """Return whether a fetch may return an offset, when `acknowledged` was the
        newest acknowledged one as it was sent."""
        if fetched in self.unknown:
            return True
        if fetched in self.aborted:
            return False
        return acknowledged <= fetched <= self.attempted

    def recovery_s(self, moment_s: float) -> float | None:
        """Return the time from a moment until the acknowledgement of a commit that was
        sent later; None without one."""
        at = bisect_left(self.began_s, moment_s)
        if at == len(self.began_s):
            return None
        return self.acknowledged_s[at] - moment_s


@dataclass(slots=True)
class OwnerHistory:
    """The members that believe to own each partition of one group."""

    owners: dict[Partition, str] = field(default_factory=dict)
    overlaps: list[tuple[Partition, str, str]] = field(default_factory=list)
    """A partition, its owner, and the member that was assigned it meanwhile."""
    assignments: int = 0

    def assigned(self, member: str, partitions: frozenset[Partition]) -> None:
        """Note partitions that a member may read from now on."""
        self.assignments += 1
        for partition in sorted(partitions):
            owner = self.owners.get(partition, member)
            if owner != member:
                self.overlaps.append((partition, owner, member))
            self.owners[partition] = member

    def released(self, member: str, partitions: frozenset[Partition]) -> None:
        """Note partitions that a member does not read any more."""
        for partition in partitions:
            if self.owners.get(partition) == member:
                del self.owners[partition]

    def released_all(self, member: str) -> None:
        """Note that a member reads nothing any more."""
        own = [each for each, owner in self.owners.items() if owner == member]
        self.released(member, frozenset(own))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that is not below this share of the values."""
    return sorted(values)[max(0, ceil(len(values) * share) - 1)]
