"""A way to say "something changed" to any number of tasks that wait for something."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable


class Pulse:
    """Each beat wakes everybody who waits at that moment.

    Who looks at a state and then waits, without awaiting anything between, misses no
    beat: a loop runs one task at a time.
    """

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def beat(self) -> None:
        """Wake everybody."""
        beaten, self._next = self._next, asyncio.Event()
        beaten.set()

    async def wait(self, limit_s: float | None = None) -> None:
        """Wait for the next beat, at most `limit_s` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._next.wait()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until `is_so`, which is asked at once and at each beat."""
        while not is_so():
            await self._next.wait()
