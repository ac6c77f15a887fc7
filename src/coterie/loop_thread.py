"""An event loop in a separate thread, for callers without a loop.

Any number of threads may run coroutines on it at the same time and wait for the result.
A caller that is interrupted (Ctrl-C) cancels its own coroutine and no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Coroutine
from typing import Any, Final, Generic, TypeVar

from coterie.errors import ClientError, ConnectionLost

T = TypeVar("T")

_POLL_S: Final = 1.0


class LoopThread:
    """A daemon thread that runs an event loop until `close`."""

    def __init__(self, name: str = "coterie-client") -> None:
        self.is_closed = False
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=name, daemon=True
        )
        self._thread.start()

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result.

        Raises ConnectionLost when the loop is closed during the call, and ClientError
        when it was closed before or when the caller runs in this thread, which would
        deadlock.
        """
        job = _Job(call)
        try:
            self._start(job)
            return job.result()
        except asyncio.CancelledError:
            raise ConnectionLost("the client was closed") from None
        except Exception:
            raise
        except BaseException:  # the caller was interrupted
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(job.cancel)
            raise

    def close(self) -> None:
        """Cancel the running coroutines and end the thread. May be called again."""
        with self._lock:
            if self.is_closed:
                return
            self.is_closed = True
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _start(self, job: _Job[T]) -> None:
        refusal = "a callback of the client cannot call the client itself"
        if threading.current_thread() is not self._thread:
            refusal = "the client is closed"
            with self._lock:
                if not self.is_closed:
                    self._loop.call_soon_threadsafe(job.start)
                    return
        job.abandon()
        raise ClientError(refusal)


class _Job(Generic[T]):
    """A coroutine whose caller may be interrupted between any two instructions.

    The caller therefore takes no lock that is written in Python, as those of
    `concurrent.futures` are: interrupted inside, it would keep the lock, and the event
    loop would wait for it.
    """

    def __init__(self, call: Coroutine[Any, Any, T]) -> None:
        self._call = call
        self._task: asyncio.Task[T] | None = None
        self._is_cancelled = False
        self._ended: queue.SimpleQueue[asyncio.Task[T]] = queue.SimpleQueue()

    def start(self) -> None:
        if self._is_cancelled:
            self.abandon()
            return
        self._task = asyncio.get_running_loop().create_task(self._call)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # after an interrupt no caller reads it
        self._ended.put(task)

    def result(self) -> T:
        """Wait for the result, in slices: Python handles a signal that arrives just
        before a thread blocks only when the thread wakes."""
        while True:
            try:
                ended = self._ended.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            return ended.result()

    def abandon(self) -> None:
        """Close the coroutine without starting it."""
        self._call.close()

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
