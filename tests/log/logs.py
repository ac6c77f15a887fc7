"""Both logs under one name, and the way a new process finds them again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from coterie.log.log import BatchInfo, Log, LogPartition
from coterie.log.memory import MemoryLog
from coterie.log.sqlite import SqliteLog

PARTITION = LogPartition(b"t" * 16, 3)
OTHER = LogPartition(b"u" * 16, 0)


class Store:
    """A log, and what a process started after it would open in its place."""

    def __init__(self, log: Log, again: Callable[[Log], Log]) -> None:
        self.log = log
        self._again = again

    def reopen(self) -> Log:
        """Find the log again, in a new process as it were."""
        self.log.close()
        self.log = self._again(self.log)
        return self.log


def memory_store(_: Path) -> Store:
    """A log in memory."""

    def again(log: Log) -> Log:
        assert isinstance(log, MemoryLog)
        return log.reopen()

    return Store(MemoryLog(), again)


def sqlite_store(directory: Path) -> Store:
    """A log on disk."""
    return Store(SqliteLog(directory), lambda _: SqliteLog(directory))


def append(log: Log, size: int = 10, *, records: int = 1, at_ms: int = 0) -> BatchInfo:
    """Stage a batch of so many bytes and records at the end of PARTITION."""
    base = log.bounds(PARTITION).next_offset
    info = BatchInfo(base, base + records - 1, at_ms, size)
    log.append(PARTITION, bytes([base % 256]) * size, info)
    return info
