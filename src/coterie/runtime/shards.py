"""One shard as the runtime drives it: its phase, its timers, who waits in it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Protocol

from coterie.coordinator.result import Origin, Record, Result, Ticket
from coterie.coordinator.state import State
from coterie.log.log import LogPartition
from coterie.runtime.deferred import Waiting
from coterie.runtime.timers import TimerTable
from coterie.types import GroupId, LogOffset, ProducerId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Struct


class Phase(Enum):
    """Where a shard is in its life (E23-02)."""

    LOADING = "loading"
    ACTIVE = "active"
    STOPPED = "stopped"


PHASE_ERRORS: Final = {
    Phase.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    Phase.STOPPED: ErrorCode.NOT_COORDINATOR,
}
"""What requests are answered in a phase that serves none."""


class Coordinator(Protocol):
    """A shard of the coordinator; `coordinator.shard.Shard` is one."""

    state: State
    changed: set[GroupId]

    def handle(self, request: Any, context: Any) -> Result:
        """Decide. Raises ApiError."""

    def refuse(
        self, request: Any, context: Any, code: ErrorCode, message: str | None = None
    ) -> Struct:
        """The answer that carries an error."""

    def apply(self, result: Result) -> None:
        """Make a result's volatile changes."""

    def replay(self, record: Record, origin: Origin) -> None:
        """Make a record's changes."""

    def knows_until(self, group_id: GroupId, log_offset: LogOffset) -> None:
        """What the log says of a group before an offset has been replayed already."""

    def replay_marker(
        self,
        producer_id: ProducerId,
        producer_epoch: int,
        *,
        commit: bool,
        log_offset: LogOffset,
    ) -> None:
        """End a transaction."""

    def after_load(self, context: Any) -> Result:
        """What is to be done when the log has been replayed."""


class DrivenShard:
    """A shard and what the runtime keeps beside it.

    `written_sequence` is the flusher's sequence of the newest write of the shard.
    `events` are those that came while the shard was being loaded.
    `version` is another after every change to the shard's groups, but for commits.
    """

    __slots__ = (
        "events",
        "handle",
        "index",
        "name",
        "parked",
        "phase",
        "records_since_snapshot",
        "shard",
        "timers",
        "version",
        "where",
        "written_sequence",
    )

    def __init__(
        self, index: int, where: LogPartition, shard: Coordinator, timers: TimerTable
    ) -> None:
        self.index = index
        self.name = f"__consumer_offsets-{index}"
        self.where = where
        self.timers = timers
        self.version = 0
        self.events: list[Any] = []
        self.reset(shard)

    def reset(self, shard: Coordinator) -> None:
        """Begin with an empty shard, to be loaded."""
        self.shard = shard
        self.handle: Callable[[Any, Any], Result] = shard.handle
        self.phase = Phase.LOADING
        self.version += 1
        self.timers.clear()
        self.parked: dict[Ticket, Waiting] = {}
        self.written_sequence = 0
        self.records_since_snapshot = 0
