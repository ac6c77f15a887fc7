"""The two journals of a store: one is written while the other one is moved.

When a journal is full, a worker thread moves its writes to the segments, and the next
writes go to the other journal. If that one is full before the first has been moved, the
write waits. When moving fails, the writes stay where they are; the next write with
batches raises the error, and the move is tried again.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

from coterie.broker.log.checkpoint import Checkpointer, Moved
from coterie.broker.log.journal_file import JournalFile
from coterie.broker.log.journal_frames import encode_frame
from coterie.broker.log.log import Append, Operation
from coterie.errors import LogError

_LOGGER = logging.getLogger(__name__)

OPERATIONS_MAX: Final = 1 << 17
"""The most operations of one journal. They are in memory until they are moved."""
RETRY_S: Final = 1.0
"""The least time between two attempts to move a journal, unless a write needs it."""

Writes = list[Sequence[Operation]]


class _Move(NamedTuple):
    """A journal that is being moved."""

    writes: Writes
    applied: int
    generation: int
    started_s: float
    result: Future[None]


class LastWrites(NamedTuple):
    """The writes that a journal contains, the sequence number of the last one, and the
    number of the journal since the start."""

    writes: Writes
    sequence: int
    generation: int


class JournalWriter:
    """Writes frames to the journals, in the thread that runs a flush.

    `moved` has the results of checkpoints, for the thread that owns the log.
    """

    def __init__(
        self,
        current: JournalFile,
        other: JournalFile,
        checkpointer: Checkpointer,
        *,
        seed: int,
        last: LastWrites,
    ) -> None:
        writes, sequence, generation = last
        assert sequence >= len(writes)
        self._current = current
        self._other = other
        self._checkpointer = checkpointer
        self._seed = seed
        self._sequence = sequence
        self._writes = writes
        self._count = sum(map(len, writes))
        self._must_erase = False
        self._move: _Move | None = None
        self._executor = ThreadPoolExecutor(1, "checkpoint")
        self.generation = generation
        """The number of the current journal since the start."""
        self.moved: deque[Moved] = deque()

    def write(self, operations: Sequence[Operation]) -> None:
        """Write one frame and sync. Raises LogError and LogFull."""
        if self._move is not None and self._move.result.done():
            self._end_move(operations)
        if self._must_erase:
            self._erase()
        header, body = encode_frame(operations, self._sequence + 1, self._seed)
        size = len(header) + len(body)
        is_full = not self._current.fits(size) or self._count >= OPERATIONS_MAX
        if is_full and self._writes:
            self.switch()
        try:
            self._current.write((header, body))
        except LogError:
            self._must_erase = True
            self._erase()
            raise
        self._sequence += 1
        self._writes.append(operations)
        self._count += len(operations)

    def switch(self) -> None:
        """Begin to move the current journal, and continue in the other one.

        Waits until the other one is moved. Raises its error.
        """
        self.wait()
        if self._must_erase:
            self._erase()
        if not self._writes:
            return
        self.start_move(self._writes, self._sequence, self.generation)
        self._current, self._other = self._other, self._current
        self._current.begin_again()
        self._writes, self._count = [], 0
        self.generation += 1

    def wait(self) -> None:
        """Wait until no journal is being moved. Raises the error of the move."""
        move = self._move
        if move is None:
            return
        if move.result.done() and move.result.exception() is not None:
            self._repeat(move)
        assert self._move is not None
        self._move.result.result()
        self._move = None

    def start_move(self, writes: Writes, applied: int, generation: int) -> None:
        """Move writes in the worker thread."""
        assert self._move is None or self._move.result.done()
        result = self._executor.submit(self._run_move, writes, applied, generation)
        self._move = _Move(writes, applied, generation, time.monotonic(), result)

    def run(self, work: Callable[[], None]) -> None:
        """Run work in the worker thread, after the checkpoint that is in progress."""
        self._executor.submit(_logged, work)

    def wait_for_work(self) -> None:
        """Wait until the worker thread has done all its work."""
        self._executor.submit(int).result()

    def close(self) -> None:
        """Close the files and end the worker thread."""
        self._executor.shutdown()
        self._current.close()
        self._other.close()

    def _erase(self) -> None:
        """Erase a failed frame: it must not be recovered after its write failed."""
        self._current.erase()
        self._must_erase = False

    def _end_move(self, operations: Sequence[Operation]) -> None:
        """End the move that is done; raise its error if a batch is to be written."""
        move = self._move
        assert move is not None
        error = move.result.exception()
        if error is None:
            self._move = None
            return
        if time.monotonic() - move.started_s >= RETRY_S:
            self._repeat(move)
        # Writes without batches may be what frees space on the disk.
        if any(isinstance(each, Append) for each in operations):
            raise error

    def _repeat(self, move: _Move) -> None:
        self.start_move(move.writes, move.applied, move.generation)

    def _run_move(self, writes: Writes, applied: int, generation: int) -> None:
        try:
            self.moved.append(self._checkpointer.move(writes, applied, generation))
        except LogError as error:
            _LOGGER.error("a checkpoint failed and will be repeated: %s", error)
            raise
        except Exception as bug:
            _LOGGER.exception("a checkpoint failed: a bug in the log")
            raise LogError(f"checkpoint: {type(bug).__name__}: {bug}") from bug


def _logged(work: Callable[[], None]) -> None:
    """Run work, and log its error: it is not repeated."""
    try:
        work()
    except OSError as error:
        _LOGGER.warning("a file that is no longer used was not deleted: %s", error)
