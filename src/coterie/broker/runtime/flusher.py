"""The flusher of a log: one write makes all appends of two loop iterations durable.

At most one write is in progress; appends staged meanwhile belong to the next write. A
worker thread does the write, except for small ones to a fast disk (`WritePace`).

Writes have sequence numbers: `next_sequence` is the number of the write that will
contain the appends staged now, and every write up to `durable_sequence` is on disk.
When a write fails, neither it nor anything staged after it is kept: every waiting
callback gets the error, and listeners reload their state from the log.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from coterie.broker.log.log import Log, StagedWrite
from coterie.broker.runtime.durability import Done, Durability
from coterie.broker.runtime.system import EventLoop
from coterie.errors import LogError

_LOGGER = logging.getLogger(__name__)


FAST_S: Final = 0.0005
"""Small writes are done in the event loop while they take less than this on average,
about what a turn of a connection takes (`server.turns.TURN_S`).

With 50 connections and 35 us of CPU a commit, the loop gave 1.1 times the rate of the
worker thread where a write took 0.1 ms, the same where it took 0.2 ms, and 0.75 times
where it took 0.9 ms; with 500 connections 1.1 to 1.2 times and with one 1.2 times.
"""
SMALL_BYTES: Final = 128 * 1024
SMALL_OPERATIONS: Final = 256
"""A store that executes a statement for each operation needs 3 us for it."""
QUICK_S: Final = 0.002
"""A write in the worker is quick below this, which includes waits for the interpreter
lock."""
QUICK_WRITES_MIN: Final = 16
QUICK_WRITES_MAX: Final = 1 << 16
CALM_WRITES: Final = 4_096
_WEIGHT: Final = 1 / 8


class WritePace:
    """The choice between event loop and worker thread for each write, by the durations
    of small writes.

    On a fast disk, handing a small write to the worker costs more than the write: two
    wake-ups and waits for the interpreter lock. A large write, or any write to a slow
    disk, would block the event loop.

    Writes start in the worker, and move to the event loop after `QUICK_WRITES_MIN`
    quick ones in a row. Slow writes in the loop move all of them back, and twice as
    many quick ones are needed from then on, so that a disk that is slow from time to
    time does not block the loop again and again; `CALM_WRITES` in the loop halve the
    number.
    """

    def __init__(self) -> None:
        self._uses_worker = True
        self._quick_writes = 0
        self._quick_writes_needed = QUICK_WRITES_MIN
        self._average_s = 0.0
        self._calm_writes = 0

    def fits_loop(self, staged: StagedWrite) -> bool:
        """Return whether to do this write in the event loop."""
        return not self._uses_worker and _is_small(staged)

    def record(self, staged: StagedWrite, seconds: float) -> None:
        """Record the duration of a write."""
        assert seconds >= 0
        if not _is_small(staged):
            return
        if self._uses_worker:
            self._quick_writes = self._quick_writes + 1 if seconds < QUICK_S else 0
            if self._quick_writes >= self._quick_writes_needed:
                self._uses_worker = False
                self._average_s = 0.0
                self._calm_writes = 0
            return
        self._average_s += (seconds - self._average_s) * _WEIGHT
        if self._average_s >= FAST_S:
            self._uses_worker = True
            self._quick_writes = 0
            needed = 2 * self._quick_writes_needed
            self._quick_writes_needed = min(needed, QUICK_WRITES_MAX)
            return
        self._calm_writes += 1
        if self._calm_writes >= CALM_WRITES:
            self._calm_writes = 0
            needed = self._quick_writes_needed // 2
            self._quick_writes_needed = max(needed, QUICK_WRITES_MIN)


def _is_small(staged: StagedWrite) -> bool:
    return (
        len(staged.operations) <= SMALL_OPERATIONS and staged.size_bytes <= SMALL_BYTES
    )


class Flusher(Durability):
    """The flusher of one log.

    Without `threaded` all writes are done in the event loop, as a log in memory needs.
    """

    def __init__(self, log: Log, loop: EventLoop, *, threaded: bool = True) -> None:
        super().__init__()
        self._log = log
        self._loop = loop
        self.seconds: Callable[[], float] = time.monotonic
        """The clock that measures writes."""
        self._writer = (
            _Writer(loop, self._write, self._worker_done) if threaded else None
        )
        self._waiting: list[Done] = []
        self._in_flight: list[Done] = []
        self._taken: StagedWrite | None = None
        self._pace = WritePace()
        self._scheduled = False
        self._listeners: list[Callable[[LogError], None]] = []
        self.observe: Callable[[float], None] | None = None
        """A callback with the duration of each write in seconds; None without metrics.
        """
        self.before_write: Callable[[], None] | None = None
        """A callback before each write, in the thread that writes. Tests let it raise
        LogError or LogFull to inject a failure of the disk."""
        self.failures = 0
        self.last_error: LogError | None = None
        """The error of the newest write; None when it succeeded."""

    @property
    def is_writing(self) -> bool:
        """Whether a write is in progress; its number is `next_sequence` - 1."""
        return self._taken is not None

    def on_failure(self, listener: Callable[[LogError], None]) -> None:
        self._listeners.append(listener)

    def when_durable(self, done: Done) -> None:
        if self._log.has_staged():
            self._waiting.append(done)
            self.wake()
        elif self._taken is not None:
            self._in_flight.append(done)
        else:
            done(None)

    def wake(self) -> None:
        """Write all staged appends after the callbacks of the next loop iteration.

        The clients whose responses the last write completed send their next requests
        meanwhile: with the write an iteration later it takes those of all of them, not
        of half, which saves system calls and syncs.
        """
        if not self._scheduled and self._taken is None:
            self._scheduled = True
            self._loop.call_soon(self._loop.call_soon, self._start)

    def flush(self) -> None:
        """Write everything and block until it is durable. Raises LogError."""
        failed: list[LogError] = []
        while self._taken is not None or self._log.has_staged() or self._waiting:
            if self._taken is None:
                outcome = self._write(self._take())
            else:
                assert self._writer is not None
                outcome = self._writer.wait()
            error, _ = outcome
            if error is not None:
                failed.append(error)
            self._settle(outcome)
        if failed:
            raise failed[0]

    def abandon(self) -> None:
        """Complete the write in progress, drop everything else that is staged, and call
        no callback: nothing may be answered any more."""
        if self._taken is not None:
            assert self._writer is not None
            error, _ = self._writer.wait()
            (self._log.abandon if error else self._log.settle)(self._taken)
            self._taken = None
        self._in_flight.clear()
        self._waiting.clear()
        if self._log.has_staged():
            self._log.abandon(self._log.take())

    def close(self) -> None:
        """Stop the worker thread. No write may be in progress."""
        assert self._taken is None
        if self._writer is not None:
            self._writer.close()

    def _start(self) -> None:
        self._scheduled = False
        if self._taken is not None or not (self._log.has_staged() or self._waiting):
            return
        taken = self._take()
        if self._writer is None or self._pace.fits_loop(taken):
            self._settle(self._write(taken))
        else:
            self._writer.start(taken)

    def _take(self) -> StagedWrite:
        self._taken = self._log.take()
        self._in_flight, self._waiting = self._waiting, []
        self.next_sequence += 1
        return self._taken

    def _write(self, staged: StagedWrite) -> Outcome:
        """Do a write, in the event loop or in the worker thread."""
        started = self.seconds()
        error: LogError | None = None
        try:
            if self.before_write is not None:
                self.before_write()
            staged.write()
        except LogError as failed:
            error = failed
        except Exception as bug:  # the write must not count as durable
            _LOGGER.exception("a write failed: a bug in the log")
            error = LogError(f"{type(bug).__name__}: {bug}")
        return error, self.seconds() - started

    def _worker_done(self) -> None:
        """Complete the worker's write, unless `flush` has done so already."""
        if self._writer is not None and self._taken is not None:
            outcome = self._writer.poll()
            if outcome is not None:
                self._settle(outcome)

    def _settle(self, outcome: Outcome) -> None:
        error, seconds = outcome
        taken = self._taken
        assert taken is not None
        self._pace.record(taken, seconds)
        if self.observe is not None:
            self.observe(seconds)
        waiting, self._in_flight, self._taken = self._in_flight, [], None
        self.last_error = error
        if error is None:
            self._log.settle(taken)
            self.durable_sequence = self.next_sequence - 1
        else:
            self.failures += 1
            _LOGGER.error(
                "a flush failed, and all staged records are dropped: %s", error
            )
            self._log.abandon(taken)
            waiting += self._waiting
            self._waiting = []
            self.next_sequence += 1
            for listener in self._listeners:
                _call(listener, error)
        for done in waiting:
            _call(done, error)
        if self._log.has_staged() or self._waiting:
            self.wake()


def _call(callback: Callable[[Any], None], error: LogError | None) -> None:
    """Call a callback; one that fails must not keep the others from being called."""
    try:
        callback(error)
    except Exception:
        _LOGGER.exception("a bug in a callback after a flush")


Outcome = tuple[LogError | None, float]
"""The error of a write or None, and its duration in seconds."""


class _Writer:
    """The worker thread. It has at most one write at a time."""

    def __init__(
        self,
        loop: EventLoop,
        write: Callable[[StagedWrite], Outcome],
        done: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._write = write
        self._done = done
        self._todo: queue.SimpleQueue[StagedWrite | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._run, name="flusher", daemon=True)
        self._worker.start()

    def start(self, staged: StagedWrite) -> None:
        self._todo.put(staged)

    def wait(self) -> Outcome:
        """Block until the write is finished; return its outcome."""
        return self._ended.get()

    def poll(self) -> Outcome | None:
        """Return the outcome of the write; None while it is in progress."""
        try:
            return self._ended.get_nowait()
        except queue.Empty:
            return None

    def close(self) -> None:
        self._todo.put(None)
        self._worker.join()

    def _run(self) -> None:
        while (staged := self._todo.get()) is not None:
            self._ended.put(self._write(staged))
            self._loop.call_soon_threadsafe(self._done)
