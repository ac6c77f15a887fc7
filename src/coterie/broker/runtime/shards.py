"""The state of a coordinator shard in the runtime: its phase, timers and requests."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.classic import heartbeat as classic_heartbeat
from coterie.broker.coordinator.consumer import heartbeat as consumer_heartbeat
from coterie.broker.coordinator.result import GroupConfigView, Result, Session, Ticket
from coterie.broker.coordinator.shard import Shard
from coterie.broker.log.log import Log, LogPartition
from coterie.broker.runtime.deferred import (
    DeferredResponses,
    Lease,
    PendingRequest,
)
from coterie.broker.runtime.durability import Durability
from coterie.broker.runtime.timers import TimerTable
from coterie.java import string_hash
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

Heartbeat: TypeAlias = m.HeartbeatRequest | m.ConsumerGroupHeartbeatRequest
Renew = Callable[[int], bool]
"""A function of the time in ms; returns whether a session was renewed."""

_INT_MIN: Final = -(2**31)


@lru_cache(maxsize=65_536)
def partition_for(key: str, partition_count: int) -> int:
    """Return the partition of a group id or transactional id, as Kafka's `Utils.abs`
    maps it: Java's smallest integer, which has no absolute value, counts as 0.
    """
    unsigned = string_hash(key)
    hashed = unsigned - (1 << 32) if unsigned >= 1 << 31 else unsigned
    return 0 if hashed == _INT_MIN else abs(hashed) % partition_count


class Phase(Enum):
    """The phase of a shard.

    A shard that is unassigned belongs to another process, or to none.
    """

    UNASSIGNED = "unassigned"
    LOADING = "loading"
    ACTIVE = "active"
    STOPPED = "stopped"


PHASE_ERRORS: Final = {
    Phase.UNASSIGNED: ErrorCode.NOT_COORDINATOR,
    Phase.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    Phase.STOPPED: ErrorCode.NOT_COORDINATOR,
}
"""The error response to requests, by phase; a shard in another phase handles them."""


Loaded = Callable[["CoordinatorPartition"], None]
"""A callback after a shard was loaded, or could not be."""


class ShardStore(NamedTuple):
    """The partition of a shard, its log and what makes the log durable.

    `load` replays the log into an empty shard and then calls the first or, when that
    fails, the second callback. `prioritize` loads the shard before others. A process
    with several stores has a flusher for each, or the same for all.
    """

    log_partition: LogPartition
    log: Log
    flusher: Durability
    load: Callable[[CoordinatorPartition, Loaded, Loaded], None]
    prioritize: Loaded | None = None


class CoordinatorPartition:
    """A partition of `__consumer_offsets`: its groups, which are the shard, and the
    state that the runtime keeps beside them.

    `written_sequence` is the flusher's sequence number of the shard's newest write,
    `group_sequence` that of the newest one with more than offset commits.
    `events` are broadcast events that arrived while the shard was loading.
    `version` changes with every change to the shard's groups except offset commits, and
    with every change of the phase. `store`, `log_partition`, `log`, `flusher` and
    `deferred` are set by `Runtime.assign`, and are not used while the shard is
    unassigned.
    """

    __slots__ = (
        "deferred",
        "events",
        "flusher",
        "group_sequence",
        "handle",
        "index",
        "log",
        "log_partition",
        "name",
        "pending",
        "phase",
        "records_since_snapshot",
        "shard",
        "store",
        "timers",
        "version",
        "written_sequence",
    )

    store: ShardStore
    log_partition: LogPartition
    log: Log
    flusher: Durability
    deferred: DeferredResponses

    def __init__(self, index: int, name: str, shard: Shard, timers: TimerTable) -> None:
        self.index = index
        self.name = name
        self.timers = timers
        self.version = 0
        self.events: list[Any] = []
        self.reset(shard, Phase.UNASSIGNED)

    def reset(self, shard: Shard, phase: Phase) -> None:
        """Start over with an empty shard, which has to be loaded."""
        shard.begin_load()
        self.shard = shard
        self.handle: Callable[[Any, Any], Result] = shard.handle
        self.phase = phase
        self.version += 1
        self.timers.clear()
        self.pending: dict[Ticket, PendingRequest] = {}
        self.written_sequence = 0
        self.group_sequence = 0
        self.records_since_snapshot = 0


def session_renewal(
    partition: CoordinatorPartition,
    request: Heartbeat,
    configs: GroupConfigView,
    lease: Lease | None,
) -> Renew | None:
    """Return a function that renews a member's session, as a repeated heartbeat does.

    The function takes the time in ms and moves the session timer. It returns False, and
    changes nothing, when the heartbeat has to be handled in full: when the shard's
    groups or the timer have changed, the group has other work to do, or the lease has
    ended.
    """
    state = partition.shard.state
    session: Session | None
    if isinstance(request, m.HeartbeatRequest):
        session = classic_heartbeat.session_of(state, request)
    else:
        session = consumer_heartbeat.session_of(state, request, configs)
    entry = None if session is None else partition.timers.entries.get(session.key)
    if session is None or entry is None:
        return None
    # A closure: its variables are faster than attributes, and every heartbeat of a
    # stable group calls it.
    version, flusher = partition.version, partition.flusher
    entries, key = entry.table.entries, entry.key
    assert entries[key] is entry
    assert key == session.key
    timeout_ms, steady_until_ms = session.timeout_ms, session.steady_until_ms

    def renew(now_ms: int) -> bool:
        if (
            partition.version != version
            # A response may not be sent before the writes it depends on are durable.
            or partition.group_sequence > flusher.durable_sequence
            or entries.get(key) is not entry
            or now_ms >= steady_until_ms
            or (lease is not None and not lease())
        ):
            return False
        # A later deadline needs no change to the heap of timers; see `Timers`.
        entry.deadline_ms = now_ms + timeout_ms
        return True

    return renew
