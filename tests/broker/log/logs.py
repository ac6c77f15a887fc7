"""The logs, each with a way to reopen it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from crc32c import crc32c

from coterie.broker.log.journal import JournalLog
from coterie.broker.log.log import Log, LogPartition
from coterie.broker.log.memory import MemoryLog
from coterie.wire.record_batch import (
    CHECKED_FROM,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER,
    Producer,
)

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


def open_small(directory: Path) -> JournalLog:
    """Open a log on disk whose journals are quickly made."""
    return JournalLog(directory, journal_bytes=1 << 16, is_synced=False)


def journal_store(directory: Path) -> Store:
    """Return a log on disk."""
    return Store(open_small(directory), lambda _: open_small(directory))


def small_journal_store(directory: Path) -> Store:
    """Return a log that moves its journals after every few writes."""

    start = partial(
        JournalLog, directory, journal_bytes=400, segment_bytes=500, verify=True
    )
    return Store(start(), lambda _: start())


def make_batch(
    base_offset: int,
    last_offset: int,
    at_ms: int,
    size: int,
    *,
    producer: Producer = NO_PRODUCER,
    attributes: int = 0,
) -> bytes:
    """Return a batch with these fields and a valid checksum; its records are filler."""
    last_delta = last_offset - base_offset
    header = HEADER.pack(
        base_offset,
        size - LENGTH_END,
        0,
        MAGIC,
        0,
        attributes,
        last_delta,
        at_ms,
        at_ms,
        *producer,
        last_delta + 1,
    )
    filler = bytes([base_offset % 256]) * (size - HEADER_BYTES)
    checked = header[CHECKED_FROM:] + filler
    crc = crc32c(checked).to_bytes(4, "big")
    return header[: CHECKED_FROM - 4] + crc + checked


def append(log: Log, size: int = 100, *, records: int = 1, at_ms: int = 0) -> bytes:
    """Stage a batch of this size and number of records at the end of PARTITION."""
    base = log.bounds(PARTITION).next_offset
    batch = make_batch(base, base + records - 1, at_ms, size)
    log.append(PARTITION, batch)
    return batch
