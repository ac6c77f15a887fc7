"""The memory log and the SQLite log, each with a way to reopen it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from coterie.broker.log.log import BatchInfo, Log, LogPartition
from coterie.broker.log.memory import MemoryLog
from coterie.broker.log.sqlite import SqliteLog

PARTITION = LogPartition(b"t" * 16, 3)
OTHER = LogPartition(b"u" * 16, 0)


class Store:
    """A log that can be reopened as after a restart."""

    def __init__(self, log: Log, again: Callable[[Log], Log]) -> None:
        self.log = log
        self._again = again

    def reopen(self) -> Log:
        """Open the log again, as a new process does."""
        self.log.close()
        self.log = self._again(self.log)
        return self.log


def memory_store(_: Path) -> Store:
    """Return a log in memory."""

    def again(log: Log) -> Log:
        assert isinstance(log, MemoryLog)
        return log.reopen()

    return Store(MemoryLog(), again)


def sqlite_store(directory: Path) -> Store:
    """Return a log on disk."""
    return Store(SqliteLog(directory), lambda _: SqliteLog(directory))


def append(log: Log, size: int = 10, *, records: int = 1, at_ms: int = 0) -> BatchInfo:
    """Stage a batch of this size and number of records at the end of PARTITION."""
    base = log.bounds(PARTITION).next_offset
    info = BatchInfo(base, base + records - 1, at_ms, size)
    log.append(PARTITION, bytes([base % 256]) * size, info)
    return info
