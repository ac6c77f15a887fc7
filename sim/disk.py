"""A simulated disk with write errors and server crashes. A write is atomic, as the
log's interface requires: an incomplete write is rolled back when the log is opened
again. So a server crashes before a write, or after the write but before its result is
reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from coterie.broker.log.journal import JournalLog
from coterie.broker.log.log import (
    Log,
    LogPartition,
    Operation,
    StagedWrite,
)
from coterie.broker.log.memory import MemoryLog
from coterie.errors import LogError
from coterie.wire.record_batch import BatchHeader

STORES: Final = ("memory", "journal")
JOURNAL_BYTES: Final = 4_096


class Killed(BaseException):
    """A crash of the server's process. It is not an Exception, so that no handler in
    the server catches it.
    """


class Death(Enum):
    """The points at which the server may crash."""

    AT_APPEND = "as it stages a batch"
    IN_WRITE = "in a write, which is torn"
    AFTER_WRITE = "after a write, before its result is known"


class _FaultyWrite(StagedWrite):
    """A write that may fail, or be the last one of its server."""

    def __init__(self, disk: Disk, inner: StagedWrite) -> None:
        super().__init__(inner.operations, inner.size_bytes)
        self._disk = disk
        self.inner = inner

    def write(self) -> None:
        """Write. Raise LogError when nothing was written."""
        self._disk.fail_write()
        self.inner.write()


class Disk(Log):
    """A disk on which flushed data survives a crash of the server.

    It is a base class of logs: `MemoryDisk` and `JournalDisk`.
    """

    death: Death | None = None
    """The point of the server's next death."""
    countdown = 0
    """The number of times that point is passed first."""
    failures: Sequence[LogError] = ()
    """The errors of the next writes."""

    def crash(self) -> None:
        """End the server's use of the disk as its death does."""

    def reopen(self) -> Disk:
        """Return the disk for the next server: the flushed data, without faults."""
        raise NotImplementedError

    def append(
        self, partition: LogPartition, batch: bytes, header: BatchHeader | None = None
    ) -> None:
        """Stage a batch."""
        self._pass(Death.AT_APPEND)
        super().append(partition, batch, header)

    def fail_write(self) -> None:
        """Raise the next error."""
        if self.failures:
            *self.failures, error = self.failures
            raise error
        self._pass(Death.IN_WRITE)

    def settle(self, staged: StagedWrite) -> None:
        """Make the written batches visible."""
        assert isinstance(staged, _FaultyWrite)
        super().settle(staged.inner)
        self._pass(Death.AFTER_WRITE)

    def _staged_write(
        self, operations: list[Operation], size_bytes: int
    ) -> StagedWrite:
        return _FaultyWrite(self, super()._staged_write(operations, size_bytes))

    def _pass(self, place: Death) -> None:
        if self.death is not place:
            return
        if self.countdown:
            self.countdown -= 1
            return
        raise Killed


class MemoryDisk(Disk, MemoryLog):
    """A disk in memory."""

    def reopen(self) -> MemoryDisk:
        """Return the disk for the next server: the flushed data, without faults."""
        disk = MemoryDisk()
        vars(disk).update(vars(MemoryLog.reopen(self)))  # the whole state
        return disk


class JournalDisk(Disk, JournalLog):
    """A disk with journals so small that there are checkpoints all the time."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            directory, is_synced=False, verify=True, journal_bytes=JOURNAL_BYTES
        )

    def crash(self) -> None:
        """Close the files without a checkpoint."""
        self._resources.close()

    def reopen(self) -> JournalDisk:
        """Return the disk for the next server, after recovery."""
        assert self.directory is not None
        self.crash()
        return JournalDisk(self.directory)


@contextmanager
def open_disk(store: str) -> Iterator[Disk]:
    """Yield a new disk, by its name in `STORES`."""
    if store == "memory":
        yield MemoryDisk()
        return
    with TemporaryDirectory() as directory:
        yield JournalDisk(Path(directory))
