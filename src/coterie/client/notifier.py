"""Notification of tasks that wait for a change of shared state."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable


class Notifier:
    """A signal that wakes all waiting tasks on each `notify`.

    A task that checks the state and then waits, without an await in between, misses no
    notification: an event loop runs one task at a time.
    """

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def notify(self) -> None:
        """Wake every waiting task."""
        current, self._next = self._next, asyncio.Event()
        current.set()

    async def wait(self, limit_s: float | None = None) -> None:
        """Wait for the next notification, at most `limit_s` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._next.wait()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds, checked now and at each notification."""
        while not condition():
            await self._next.wait()
