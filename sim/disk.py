"""A simulated disk with write errors and server crashes. A write is atomic, as the
log's interface requires: an incomplete write is rolled back when the log is opened
again. So a server crashes before a write, or after the write but before its result is
reported.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from coterie.broker.log.log import BatchInfo, LogPartition, Operation, StagedWrite
from coterie.broker.log.memory import MemoryLog
from coterie.errors import LogError


class Killed(BaseException):
    """A crash of the server's process. It is not an Exception, so that no handler in
    the server catches it.
    """


class Death(Enum):
    """The points at which the server may crash."""

    AT_APPEND = "as it stages a batch"
    IN_WRITE = "in a write, which is torn"
    AFTER_WRITE = "after a write, before its result is known"


class Disk(MemoryLog):
    """A disk on which flushed data survives a crash of the server."""

    def __init__(self, before_write: Callable[[], None] | None = None) -> None:
        super().__init__(before_write)
        self.death: Death | None = None
        """The point of the server's next death."""
        self.countdown = 0
        """The number of times that point is passed first."""
        self.failures: list[LogError] = []
        """The errors of the next writes."""

    def reopen(self) -> Disk:
        """Return the disk for the next server: the flushed data, without faults."""
        disk = Disk()
        vars(disk).update(vars(super().reopen()))  # the whole state of a MemoryLog
        return disk

    def append(self, partition: LogPartition, batch: bytes, info: BatchInfo) -> None:
        """Stage a batch."""
        self._pass(Death.AT_APPEND)
        super().append(partition, batch, info)

    def store(self, operations: list[Operation]) -> None:
        """Write. Raise LogError when nothing was written."""
        if self.failures:
            raise self.failures.pop()
        self._pass(Death.IN_WRITE)
        super().store(operations)

    def settle(self, staged: StagedWrite) -> None:
        """Make the written batches visible."""
        super().settle(staged)
        self._pass(Death.AFTER_WRITE)

    def _pass(self, place: Death) -> None:
        if self.death is not place:
            return
        if self.countdown:
            self.countdown -= 1
            return
        raise Killed
