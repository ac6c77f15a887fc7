"""A disk that fails when it is told to, and on which a server may die.

A write is all or nothing, as the log's interface promises: a write that is torn because
the server dies in it is found rolled back when the log is opened again. So a server may
die before a write, or after it and before anybody heard of it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from coterie.errors import LogError
from coterie.log.log import BatchInfo, LogPartition, Staged
from coterie.log.memory import MemoryLog
from coterie.log.staging import Operation


class Killed(BaseException):
    """The server's process is gone, in the middle of what it did.

    No Exception: nothing in the server may catch it.
    """


class Death(Enum):
    """Where the server dies."""

    AT_APPEND = "as it stages a batch"
    IN_WRITE = "in a write, which is torn"
    AFTER_WRITE = "after a write, before anybody hears of it"


class Disk(MemoryLog):
    """What is flushed lives on when the server dies; `reopen` gives the next server its
    log, without the faults of the one before."""

    def __init__(self, before_write: Callable[[], None] | None = None) -> None:
        super().__init__(before_write)
        self.death: Death | None = None
        """Where the server dies next."""
        self.countdown = 0
        """How many more times it comes through there before."""
        self.failures: list[LogError] = []
        """What the next writes fail with."""

    def reopen(self) -> Disk:
        """What the server that starts next finds: all that is flushed, no more."""
        disk = Disk()
        vars(disk).update(vars(super().reopen()))  # all of it that a MemoryLog has
        return disk

    def append(self, partition: LogPartition, batch: bytes, info: BatchInfo) -> None:
        """Stage a batch."""
        self._pass(Death.AT_APPEND)
        super().append(partition, batch, info)

    def store(self, operations: list[Operation]) -> None:
        """Write. Raises LogError, with nothing written."""
        if self.failures:
            raise self.failures.pop()
        self._pass(Death.IN_WRITE)
        super().store(operations)

    def settle(self, staged: Staged) -> None:
        """Make what was written visible."""
        super().settle(staged)
        self._pass(Death.AFTER_WRITE)

    def _pass(self, place: Death) -> None:
        if self.death is not place:
            return
        if self.countdown:
            self.countdown -= 1
            return
        raise Killed
