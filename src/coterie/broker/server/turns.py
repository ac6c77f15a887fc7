"""The turns of connections that have more work than fits into one iteration.

A connection handles its requests as they arrive, for at most `TURN_S` at a time. What
is left waits in a queue: in each iteration of the event loop the connections at its
front go on, one after another, until `TURN_S` is used up together. Between two
iterations the loop serves all other connections, so that neither many requests in one
read, nor a request of many items, nor many such connections stop them. Large requests
are decoded, handled and encoded in slices of far less than `TURN_S`, which are not
interrupted; each turn does one at least.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

_LOGGER = logging.getLogger(__name__)

TURN_S: Final = 0.0005
"""Time for the requests of one read, and for all further turns of an iteration."""

Turn: TypeAlias = Callable[[float], None]
"""A function that does the next slice of a connection's work, and further ones until
the given time. It may add itself to the queue again.
"""


class Turns:
    """The queue of the connections of a server.

    `seconds` is the clock of the times. That of uvloop's event loop has a resolution of
    1 ms, twice `TURN_S`.
    """

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self.exhausted_count = 0
        """The number of turns that ended because the time was used up."""
        self._queue: deque[tuple[Turn, Callable[[], None]]] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(
        self, turn: Turn, abort: Callable[[], None], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Call `turn` in one of the next iterations, and `abort` if it raises."""
        self._queue.append((turn, abort))
        if len(self._queue) == 1:
            loop.call_soon(self._run, loop)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        queue = self._queue
        assert queue
        ends_s = self.seconds() + TURN_S
        for _ in range(len(queue)):
            # The turn stays in the queue meanwhile: `add` must not schedule a second
            # run.
            turn, abort = queue[0]
            try:
                turn(ends_s)
            except Exception:
                _LOGGER.exception("a bug in handling the requests of a connection")
                abort()
            queue.popleft()
            if self.seconds() >= ends_s:
                break
        if queue:
            loop.call_soon(self._run, loop)
