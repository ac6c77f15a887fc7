"""Both logs under one name, and the way a new process finds them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coterie.log.log import BatchInfo, Log, LogPartition
from coterie.log.memory import MemoryLog
from coterie.log.sqlite import SqliteLog

PARTITION = LogPartition(b"t" * 16, 3)
OTHER = LogPartition(b"u" * 16, 0)


@dataclass
class Store:
    """A log, and `reopen`: what a process started after it would open."""

    log: Log
    reopen: Callable[[], Log]


def memory_store(_: Path) -> Store:
    """A log in memory."""
    log = MemoryLog()
    return Store(log, log.reopen)


def sqlite_store(directory: Path) -> Store:
    """A log on disk."""
    log = SqliteLog(directory)

    def reopen() -> Log:
        log.close()
        return SqliteLog(directory)

    return Store(log, reopen)


def append(log: Log, size: int = 10, *, records: int = 1, at_ms: int = 0) -> BatchInfo:
    """Stage a batch of so many bytes and records at the end of PARTITION."""
    base = log.bounds(PARTITION).next_offset
    info = BatchInfo(base, base + records - 1, at_ms, size)
    log.append(PARTITION, bytes([base % 256]) * size, info)
    return info
