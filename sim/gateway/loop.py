"""The event loop of a node's process, which can be stopped, as by SIGSTOP. While it is
stopped, its clock goes on; what happened meanwhile is handled when it continues.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Any, NamedTuple

from sim.clock import Clock, Event, ServerLoop


class Order(Enum):
    """The order in which a process that continues handles what has happened."""

    TIME = "as it happened"
    TIMERS = "timers first, as libuv"
    MESSAGES = "messages first, as asyncio"


class _Waiting(NamedTuple):
    is_timer: bool
    callback: Callable[[], object]


class NodeLoop(ServerLoop):
    """The event loop of one process of a node."""

    def __init__(self, clock: Clock, rng: Random) -> None:
        super().__init__(clock)
        self._rng = rng
        self._waiting: list[_Waiting] | None = None
        self.is_resuming = False
        """Whether the process is handling what has happened while it was stopped."""
        self.has_run = False
        """Whether a callback has run since the flag was cleared."""

    @property
    def is_dead(self) -> bool:
        """Whether the process was killed."""
        return self._is_dead

    @property
    def is_stopped(self) -> bool:
        """Whether the process is stopped, and will continue."""
        return self._waiting is not None

    def run(self, callback: Callable[[], object], *, is_timer: bool = False) -> None:
        """Run a callback in the process: later if it is stopped, never if it is
        dead.
        """
        if self._is_dead:
            return
        if self._waiting is not None:
            self._waiting.append(_Waiting(is_timer, callback))
            return
        self.has_run = True
        callback()

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any
    ) -> Event:
        """Call back after `delay` seconds."""

        def call() -> None:
            # A timer that was cancelled while the process was stopped does not fire.
            self.run(lambda: event.is_cancelled or callback(*args), is_timer=True)

        event = self._clock.after(max(0, round(delay * 1000)), call)
        return event

    def settle(self) -> None:
        """Run iterations until no callback is ready."""
        if self._waiting is None:
            super().settle()

    def stop(self) -> None:
        """Stop the process."""
        if self._waiting is None:
            self._waiting = []

    def resume(self) -> None:
        """Continue the process."""
        waiting, self._waiting = self._waiting or [], None
        order = self._rng.choice([*Order])
        if order is not Order.TIME:
            timers_first = order is Order.TIMERS
            waiting.sort(key=lambda each: each.is_timer is not timers_first)
        self.is_resuming = True
        for _, callback in waiting:
            self.run(callback)
            self.settle()
        self.is_resuming = False
