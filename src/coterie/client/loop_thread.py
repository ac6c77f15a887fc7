"""An event loop in a thread of its own, for callers that have none.

Any thread may hand in a coroutine and wait for what it gives; many may at once. A
caller that is interrupted (Ctrl-C) takes its coroutine back, and it alone.
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

_DEAF_MAX_S: Final = 1.0


class LoopThread:
    """See the module's docstring. The thread ends by `close`, or with the process;
    `is_closed` says which came first."""

    def __init__(self) -> None:
        self.is_closed = False
        self._loop = asyncio.new_event_loop()
        self._gate = threading.Lock()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="coterie-client", daemon=True
        )
        self._thread.start()

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """What the coroutine gives or raises.

        Raises ConnectionLost when the loop is closed meanwhile, and ClientError when it
        was closed before or is the caller's own: it would wait for itself.
        """
        errand = _Errand(call)
        try:
            return _result(self._submit(errand))
        except concurrent.futures.CancelledError:
            raise ConnectionLost("the client was closed") from None
        except Exception:
            raise
        except BaseException:  # the caller was interrupted
            with contextlib.suppress(RuntimeError):  # closed, which took it back too
                self._loop.call_soon_threadsafe(errand.take_back)
            raise

    def close(self) -> None:
        """Cancel what is under way and end the thread. Twice does no harm."""
        with self._gate:
            if self.is_closed:
                return
            self.is_closed = True
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _submit(self, errand: _Errand[T]) -> concurrent.futures.Future[T]:
        refused = "a callback of the client cannot call it; call when it is done"
        if threading.current_thread() is not self._thread:
            refused = "the client is closed"
            with self._gate:
                if not self.is_closed:
                    return asyncio.run_coroutine_threadsafe(errand.run(), self._loop)
        errand.give_up()
        raise ClientError(refused)


def _result(future: concurrent.futures.Future[T]) -> T:
    """What becomes of it. In slices: a signal that comes just before a thread blocks is
    heard of only when the thread wakes."""
    while not future.done():
        concurrent.futures.wait([future], _DEAF_MAX_S)
    return future.result()


class _Errand(Generic[T]):
    """A coroutine that can be taken back at any moment, before it has begun too: an
    interrupt may come between any two steps of who waits."""

    def __init__(self, call: Coroutine[Any, Any, T]) -> None:
        self._call = call
        self._task: asyncio.Task[Any] | None = None
        self._is_taken_back = False

    async def run(self) -> T:
        if self._is_taken_back:
            self.give_up()
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        return await self._call

    def give_up(self) -> None:
        """Never begin."""
        self._call.close()

    def take_back(self) -> None:
        self._is_taken_back = True
        if self._task is not None:
            self._task.cancel()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
