"""The turns of connections that have more requests than fit into one iteration.

A connection handles its requests as they arrive, for at most `TURN_S` at a time. What
is left waits in a queue: in each iteration of the event loop the connections at its
front handle further requests, one after another, until `TURN_S` is used up together.
Between two iterations the loop serves all other connections, so that neither many
requests in one read nor many such connections stop them. A request is not interrupted:
the first one of a turn is handled however long it takes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

_LOGGER = logging.getLogger(__name__)

TURN_S: Final = 0.0005
"""Time for the requests of one read, and for all further turns of an iteration."""

Turn: TypeAlias = Callable[[float], None]
"""A function that handles the next request of a connection, and further ones until the
given time of the event loop. It may add itself to the queue again.
"""


class Turns:
    """The queue of the connections of a server."""

    def __init__(self) -> None:
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
        ends_s = loop.time() + TURN_S
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
            if loop.time() >= ends_s:
                break
        if queue:
            loop.call_soon(self._run, loop)
