"""An event loop in a separate thread, for callers without a loop.

Any number of threads may run coroutines on it at the same time and wait for the result.
A caller that is interrupted (Ctrl-C) cancels its own coroutine and no other.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
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
            return _result(self._submit(job))
        except concurrent.futures.CancelledError:
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

    def _submit(self, job: _Job[T]) -> concurrent.futures.Future[T]:
        refusal = "a callback of the client cannot call the client itself"
        if threading.current_thread() is not self._thread:
            refusal = "the client is closed"
            with self._lock:
                if not self.is_closed:
                    return asyncio.run_coroutine_threadsafe(job.run(), self._loop)
        job.abandon()
        raise ClientError(refusal)


def _result(future: concurrent.futures.Future[T]) -> T:
    """Wait for the result, in slices: Python handles a signal that arrives just before
    a thread blocks only when the thread wakes."""
    while not future.done():
        concurrent.futures.wait([future], _POLL_S)
    return future.result()


class _Job(Generic[T]):
    """A coroutine that can be cancelled at any moment, even before it starts: an
    interrupt may arrive between any two instructions of the waiting thread."""

    def __init__(self, call: Coroutine[Any, Any, T]) -> None:
        self._call = call
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False

    async def run(self) -> T:
        if self._is_cancelled:
            self.abandon()
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        return await self._call

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
