"""The truth about groups, written down while real clients work: which member owned
which partition, what was committed, who joined and left, and why a group rebalanced.

Times are seconds of this machine's clock, which the broker shares.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

PartitionKey = tuple[str, int]
"""Topic and partition."""
CRASHED: Final = "crashed"
LEFT: Final = "left"
REPLACED: Final = "replaced"
OPEN: Final = "open"


class Span(NamedTuple):
    """A time between two readings of the clock."""

    from_s: float
    until_s: float


class Commit(NamedTuple):
    """A committed offset, or with a cause, a deleted one; made during `span`."""

    group: str
    topic: str
    partition: int
    offset: int | None
    span: Span
    client_id: str | None = None
    """The member that committed; None for an admin or a group without members."""
    metadata: str = ""
    transactional: bool = False
    cause: str | None = None


class Ownership(NamedTuple):
    """A partition that a member could use from one time to another."""

    group: str
    topic: str
    partition: int
    client_id: str
    from_s: float
    until_s: float | None


class Session(NamedTuple):
    """A membership. It began and ended within spans; None while it lasts."""

    group: str
    client_id: str
    instance_id: str | None
    began: Span
    ended: Span | None
    end: str


class Journal:
    """Events in the order in which they happened; threads may write at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.commits: list[Commit] = []
        self.ownerships: list[Ownership] = []
        self.sessions: list[Session] = []
        self.rebalances: dict[str, list[str]] = defaultdict(list)
        """Causes of rebalances by group, in order."""
        self.deleted_groups: set[str] = set()
        self.groups_by_id: set[str] = set()
        """Groups with members of the consumer protocol, which have IDs of topics."""
        self._owned: dict[tuple[str, str, PartitionKey], float] = {}

    def committed(self, commits: Iterable[Commit]) -> None:
        with self._lock:
            self.commits.extend(commits)

    def assigned(
        self, group: str, client_id: str, keys: Iterable[PartitionKey], at_s: float
    ) -> None:
        with self._lock:
            for key in keys:
                self._owned.setdefault((group, client_id, key), at_s)

    def revoked(
        self, group: str, client_id: str, keys: Iterable[PartitionKey], at_s: float
    ) -> None:
        with self._lock:
            for key in keys:
                from_s = self._owned.pop((group, client_id, key), None)
                if from_s is not None:
                    until_s = max(from_s, at_s)
                    self.ownerships.append(
                        Ownership(group, *key, client_id, from_s, until_s)
                    )

    def session(self, session: Session) -> None:
        with self._lock:
            self.sessions.append(session)

    def rebalanced(self, group: str, *causes: str) -> None:
        with self._lock:
            self.rebalances[group].extend(causes)

    def all_ownerships(self) -> list[Ownership]:
        """Return closed and open ownerships."""
        with self._lock:
            still = [
                Ownership(group, *key, client_id, from_s, None)
                for (group, client_id, key), from_s in self._owned.items()
            ]
            return self.ownerships + still

    def commits_of(self) -> dict[tuple[str, str, int], list[Commit]]:
        """Return commits and deletions by group, topic and partition."""
        found: dict[tuple[str, str, int], list[Commit]] = defaultdict(list)
        for each in self.commits:
            found[each.group, each.topic, each.partition].append(each)
        return found


def now() -> float:
    return time.time()
