"""The state of a coordinator shard in the runtime: its phase, timers and requests."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from coterie.broker.coordinator.result import Result, Session, Ticket
from coterie.broker.coordinator.shard import Shard
from coterie.broker.log.log import LogPartition
from coterie.broker.runtime.deferred import PendingRequest
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.timers import Entry, TimerTable
from coterie.java import string_hash
from coterie.wire.error_codes import ErrorCode

Renew = Callable[[int], bool]
"""A function of the time in ms; returns whether a session was renewed."""

_INT_MIN: Final = -(2**31)


@lru_cache(maxsize=65_536)
def partition_for(key: str, partition_count: int) -> int:
    """Return the partition of a group id or transactional id, as Kafka's `Utils.abs`
    maps it (B-16): Java's smallest integer, which has no absolute value, counts as 0.
    """
    unsigned = string_hash(key)
    hashed = unsigned - (1 << 32) if unsigned >= 1 << 31 else unsigned
    return 0 if hashed == _INT_MIN else abs(hashed) % partition_count


class Phase(Enum):
    """The phase of a shard (E23-02a)."""

    LOADING = "loading"
    ACTIVE = "active"
    STOPPED = "stopped"


PHASE_ERRORS: Final = {
    Phase.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    Phase.STOPPED: ErrorCode.NOT_COORDINATOR,
}
"""The error response to requests, by phase; a shard in another phase handles them."""


class DrivenShard:
    """A shard and the state that the runtime keeps beside it.

    `written_sequence` is the flusher's sequence number of the shard's newest write,
    `group_sequence` that of the newest one with more than offset commits.
    `events` are broadcast events that arrived while the shard was loading.
    `version` changes with every change to the shard's groups except offset commits.
    """

    __slots__ = (
        "events",
        "group_sequence",
        "handle",
        "index",
        "name",
        "pending",
        "phase",
        "records_since_snapshot",
        "shard",
        "timers",
        "version",
        "where",
        "written_sequence",
    )

    def __init__(
        self, index: int, where: LogPartition, shard: Shard, timers: TimerTable
    ) -> None:
        self.index = index
        self.name = f"__consumer_offsets-{index}"
        self.where = where
        self.timers = timers
        self.version = 0
        self.events: list[Any] = []
        self.reset(shard)

    def reset(self, shard: Shard) -> None:
        """Start over with an empty shard, which has to be loaded."""
        self.shard = shard
        self.handle: Callable[[Any, Any], Result] = shard.handle
        self.phase = Phase.LOADING
        self.version += 1
        self.timers.clear()
        self.pending: dict[Ticket, PendingRequest] = {}
        self.written_sequence = 0
        self.group_sequence = 0
        self.records_since_snapshot = 0


def session_renewal(
    driven: DrivenShard, entry: Entry, session: Session, flusher: Flusher
) -> Renew:
    """Return a function that renews a member's session, as a repeated heartbeat does.

    The function takes the time in ms and moves the session timer. It returns False, and
    changes nothing, when the heartbeat has to be handled in full: when the shard's
    groups or the timer have changed, or the group has other work to do.
    """
    # A closure: its variables are faster than attributes, and every heartbeat of a
    # stable group calls it.
    version = driven.version
    entries, key = entry.table.entries, entry.key
    assert entries[key] is entry
    assert key == session.key
    timeout_ms, steady_until_ms = session.timeout_ms, session.steady_until_ms

    def renew(now_ms: int) -> bool:
        if (
            driven.version != version
            # A response may not be sent before the writes it depends on are durable.
            or driven.group_sequence > flusher.durable_sequence
            or entries.get(key) is not entry
            or now_ms >= steady_until_ms
        ):
            return False
        # A later deadline needs no change to the heap of timers; see `Timers`.
        entry.deadline_ms = now_ms + timeout_ms
        return True

    return renew
