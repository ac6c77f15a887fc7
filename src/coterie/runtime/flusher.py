"""Makes staged appends durable: one write for everything a turn of the loop staged.

Rules: at most one write is under way; what is staged meanwhile belongs to the next. It
is done by a worker thread, but for a small one to a disk that is quick (pace.py).

Writes are numbered by a sequence: `next_sequence` is that of the write which what is
staged now will be part of, and everything up to `durable_sequence` is on disk. When a
write fails, nothing of it or after it is kept: all who wait hear of the error, and so
do the listeners, which read their state from the log again.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from coterie.errors import LogError
from coterie.log.log import Log, Staged
from coterie.runtime.pace import Pace

_LOGGER = logging.getLogger(__name__)

Done = Callable[[LogError | None], None]


class Loop(Protocol):
    """What the flusher needs of an event loop."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        """Call back in the next turn."""

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any
    ) -> object:
        """Call back in the next turn; may be called from another thread."""


class Flusher:
    """Flushes a log. With `threaded` false it writes in the loop's own thread, which is
    right for a log in memory."""

    def __init__(self, log: Log, loop: Loop, *, threaded: bool = True) -> None:
        self._log = log
        self._loop = loop
        self._writer = _Writer(loop, self._written) if threaded else None
        self._waiting: list[Done] = []
        self._in_flight: list[Done] = []
        self._taken: Staged | None = None
        self._pace = Pace()
        self._scheduled = False
        self._listeners: list[Callable[[LogError], None]] = []
        self.observe: Callable[[float], None] | None = None
        """Who is told how many seconds a write took, if anybody."""
        self.next_sequence = 1
        self.durable_sequence = 0

    def on_failure(self, listener: Callable[[LogError], None]) -> None:
        """Call `listener` when a write failed, after the log has forgotten it and
        before those who wait for it hear of it."""
        self._listeners.append(listener)

    def when_durable(self, done: Done) -> None:
        """Call `done(None)` once everything staged so far is durable, at once if it
        is, or `done(error)` if it never will be."""
        if self._log.staged():
            self._waiting.append(done)
            self.wake()
        elif self._taken is not None:
            self._in_flight.append(done)
        else:
            done(None)

    def wake(self) -> None:
        """Write what is staged, after all that is ready in this turn of the loop."""
        if not self._scheduled and self._taken is None:
            self._scheduled = True
            self._loop.call_soon(self._start)

    def flush(self) -> None:
        """Write everything now and wait for it, as at the end. Raises LogError."""
        failed: list[LogError] = []
        while self._taken is not None or self._log.staged() or self._waiting:
            if self._taken is None:
                outcome = _write(self._take())
            else:
                assert self._writer is not None
                outcome = self._writer.wait()
            error, _ = outcome
            if error is not None:
                failed.append(error)
            self._settle(outcome)
        if failed:
            raise failed[0]

    def close(self) -> None:
        """Let the worker thread end. Nothing may be under way."""
        assert self._taken is None
        if self._writer is not None:
            self._writer.close()

    def _start(self) -> None:
        self._scheduled = False
        if self._taken is not None or not (self._log.staged() or self._waiting):
            return
        taken = self._take()
        if self._writer is None or self._pace.fits_loop(taken):
            self._settle(_write(taken))
        else:
            self._writer.start(taken)

    def _take(self) -> Staged:
        self._taken = self._log.take()
        self._in_flight, self._waiting = self._waiting, []
        self.next_sequence += 1
        return self._taken

    def _written(self) -> None:
        """A write has ended; `flush` may have seen to it already."""
        if self._writer is not None and self._taken is not None:
            outcome = self._writer.poll()
            if outcome is not None:
                self._settle(outcome)

    def _settle(self, outcome: Outcome) -> None:
        error, seconds = outcome
        taken = self._taken
        assert taken is not None
        self._pace.took(taken, seconds)
        if self.observe is not None:
            self.observe(seconds)
        waiting, self._in_flight, self._taken = self._in_flight, [], None
        if error is None:
            self._log.settle(taken)
            self.durable_sequence = self.next_sequence - 1
        else:
            _LOGGER.error("nothing of this flush is kept: %s", error)
            self._log.abandon(taken)
            waiting += self._waiting
            self._waiting = []
            self.next_sequence += 1
            for listener in self._listeners:
                listener(error)
        for done in waiting:
            done(error)
        if self._log.staged() or self._waiting:
            self.wake()


Outcome = tuple[LogError | None, float]
"""What went wrong, if something did, and how many seconds it took."""


def _write(staged: Staged) -> Outcome:
    started = time.monotonic()
    error: LogError | None = None
    try:
        staged.write()
    except LogError as failed:
        error = failed
    except Exception as bug:  # nothing of it may count as kept
        _LOGGER.exception("the log failed in a way it should not")
        error = LogError(f"{type(bug).__name__}: {bug}")
    return error, time.monotonic() - started


class _Writer:
    """The worker thread. One write at a time goes in, one outcome comes out."""

    def __init__(self, loop: Loop, written: Callable[[], None]) -> None:
        self._loop = loop
        self._written = written
        self._todo: queue.SimpleQueue[Staged | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="flusher", daemon=True)
        self._thread.start()

    def start(self, staged: Staged) -> None:
        """Write it in the thread."""
        self._todo.put(staged)

    def wait(self) -> Outcome:
        """Block until the write has ended."""
        return self._ended.get()

    def poll(self) -> Outcome | None:
        """What came of the write; None while it is under way."""
        try:
            return self._ended.get_nowait()
        except queue.Empty:
            return None

    def close(self) -> None:
        """End the thread."""
        self._todo.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (staged := self._todo.get()) is not None:
            self._ended.put(_write(staged))
            self._loop.call_soon_threadsafe(self._written)
