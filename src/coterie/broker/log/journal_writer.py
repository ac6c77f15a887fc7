"""The two journals of a store: one is written while the other one is moved.

When a journal is full, a worker thread moves its writes to the segments, and the next
writes go to the other journal. If that one is full before the first has been moved, the
write waits. When moving fails, the writes stay where they are, and it is tried again:
at once when a write needs the space, else a second later. A write fails when there is
no space for it and moving fails again.
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
"""The least time between two attempts to move a journal that no write waits for."""

Writes = list[Sequence[Operation]]


class _Move(NamedTuple):
    """A journal that is being moved."""

    writes: Writes
    applied: int
    generation: int
    started_s: float
    is_repeated: bool
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
        is_failing = self._end_move()
        if self._must_erase:
            self._erase()
        header, body = encode_frame(operations, self._sequence + 1, self._seed)
        size = len(header) + len(body)
        # Writes without batches may be what frees space on a full disk.
        reserve = is_failing and any(isinstance(each, Append) for each in operations)
        is_full = not self._current.fits(size, reserve=reserve)
        if self._writes and (is_full or self._count >= OPERATIONS_MAX):
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
        assert self._current.end == 0
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
        self._release()

    def start_move(self, writes: Writes, applied: int, generation: int) -> None:
        """Move writes in the worker thread."""
        is_repeated = self._move is not None
        assert self._move is None or self._move.result.done()
        result = self._executor.submit(self._run_move, writes, applied, generation)
        now = time.monotonic()
        self._move = _Move(writes, applied, generation, now, is_repeated, result)

    def run(self, work: Callable[[], None]) -> None:
        """Run work in the worker thread, after the checkpoint that is in progress."""
        self._executor.submit(_logged, work)

    def wait_for_work(self) -> None:
        """Wait until the worker thread has done all its work."""
        self._executor.submit(int).result()

    def end(self) -> None:
        """End the worker thread."""
        self._executor.shutdown()

    def _erase(self) -> None:
        """Erase a failed frame: it must not be recovered after its write failed."""
        self._current.erase()
        self._must_erase = False

    def _end_move(self) -> bool:
        """End the move if it is done; return whether the last one failed."""
        move = self._move
        if move is None:
            return False
        if not move.result.done():
            return move.is_repeated
        if move.result.exception() is None:
            self._release()
            return False
        if time.monotonic() - move.started_s >= RETRY_S:
            self._repeat(move)
        return True

    def _release(self) -> None:
        """Make the journal that has been moved usable; cut it if it was long."""
        self._move = None
        self._other.begin_again()

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
