"""The logs, each with a way to reopen it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from crc32c import crc32c

from coterie.broker.log.journal import JournalLog
from coterie.broker.log.log import BatchInfo, Log, LogPartition
from coterie.broker.log.memory import MemoryLog
from coterie.wire.record_batch import (
    CHECKED_FROM,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL,
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


def make_batch(info: BatchInfo) -> bytes:
    """Return a batch with these fields and a valid checksum; its records are filler."""
    attributes = TRANSACTIONAL * info.is_transactional | CONTROL * info.is_control
    last_delta = info.last_offset - info.base_offset
    header = HEADER.pack(
        info.base_offset,
        info.size_bytes - LENGTH_END,
        0,
        MAGIC,
        0,
        attributes,
        last_delta,
        info.max_timestamp_ms,
        info.max_timestamp_ms,
        info.producer_id,
        info.producer_epoch,
        info.base_sequence,
        last_delta + 1,
    )
    filler = bytes([info.base_offset % 256]) * (info.size_bytes - HEADER_BYTES)
    checked = header[CHECKED_FROM:] + filler
    crc = crc32c(checked).to_bytes(4, "big")
    return header[: CHECKED_FROM - 4] + crc + checked


def append(log: Log, size: int = 100, *, records: int = 1, at_ms: int = 0) -> BatchInfo:
    """Stage a batch of this size and number of records at the end of PARTITION."""
    base = log.bounds(PARTITION).next_offset
    info = BatchInfo(base, base + records - 1, at_ms, size)
    log.append(PARTITION, make_batch(info), info)
    return info
