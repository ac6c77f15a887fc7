"""Repeat a read of upstream in the background, on a period or when it is wanted."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from coterie.client.connection import Undecoded
from coterie.errors import CoterieError

_LOGGER = logging.getLogger(__name__)

POLL_MS: Final = 5_000
"""The default time between two reads."""
_THROTTLE_BYTES: Final = 4
_SPACING_MS: Final = 500
"""The least time between two reads."""
_SPACING_FACTOR: Final = 10
"""Reads take at most this part of the time, however large the cluster is."""


class Poller:
    """The repetition of `poll`, which subclasses have. `what` names the result in the
    log.

    The first of several failures is logged, and reading goes on after each, even after
    a bug. What was read last remains in effect.
    """

    def __init__(self, period_ms: int, what: str) -> None:
        self._period_s = period_ms / 1000
        self._what = what
        self._loop = asyncio.get_running_loop()
        self._is_wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[Callable[[], None]] = []

    async def poll(self) -> None:
        """Read once. Raises the errors of the client; what was read last remains in
        effect then."""
        raise NotImplementedError

    def repeat(self) -> None:
        """Begin to read regularly, first after a period."""
        assert self._task is None
        self._task = self._loop.create_task(self._run())

    def want(self) -> None:
        """Read soon."""
        self._is_wanted.set()

    def refresh(self, done: Callable[[], None]) -> None:
        """Read soon, and then call `done`, whether the read has succeeded or not."""
        self._waiting.append(done)
        self.want()

    async def close(self) -> None:
        """End the background work."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        is_failing = False
        spacing_s = _SPACING_MS / 1000
        while True:
            await asyncio.sleep(min(spacing_s, self._period_s))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._period_s - spacing_s):
                    await self._is_wanted.wait()
            self._is_wanted.clear()
            waiting, self._waiting = self._waiting, []
            began_s = self._loop.time()
            try:
                await self.poll()
            except Exception as error:
                if not is_failing:
                    is_bug = not isinstance(error, CoterieError)
                    _LOGGER.warning(
                        "%s may be out of date: %s",
                        self._what,
                        error,
                        exc_info=error if is_bug else None,
                    )
                is_failing = True
            else:
                if is_failing:
                    _LOGGER.info("%s: up to date again", self._what)
                is_failing = False
            for done in waiting:
                self._loop.call_soon(done)
            took_s = self._loop.time() - began_s
            spacing_s = max(_SPACING_MS / 1000, _SPACING_FACTOR * took_s)


def digest_of(received: Undecoded) -> bytes:
    """Return a digest of a response without its throttle time, which differs without a
    change."""
    body = memoryview(received.frame)[received.at + _THROTTLE_BYTES :]
    return hashlib.blake2b(body, digest_size=16).digest()
