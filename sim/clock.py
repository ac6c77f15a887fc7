"""Virtual time: what is to happen, in its order, and the event loop of one server.

Nothing happens by itself: `Clock.step` makes the next thing happen, and time jumps.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, Final

START_MS: Final = 1_000_000_000
_TURNS_MAX: Final = 100_000


class Event:
    """Something to come."""

    __slots__ = ("callback", "is_cancelled")

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        """It will not happen."""
        self.is_cancelled = True


class Clock:
    """All that is to happen in a world; what falls on one ms happens in the order in
    which it was asked for."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self._events: list[tuple[int, int, Event]] = []
        self._order = count()

    def now(self) -> int:
        """Ms since the epoch."""
        return self.now_ms

    def after(self, delay_ms: int, callback: Callable[[], object]) -> Event:
        """Call back once that time has passed."""
        assert delay_ms >= 0, delay_ms
        event = Event(callback)
        at_ms = self.now_ms + delay_ms
        heapq.heappush(self._events, (at_ms, next(self._order), event))
        return event

    def step(self, until_ms: int) -> bool:
        """Make the next thing happen, if that is before `until_ms`; else time stands
        there then, and the answer is False."""
        while self._events and self._events[0][0] <= until_ms:
            at_ms, _, event = heapq.heappop(self._events)
            if not event.is_cancelled:
                self.now_ms = max(self.now_ms, at_ms)
                event.callback()
                return True
        self.now_ms = max(self.now_ms, until_ms)
        return False


class ServerLoop:
    """The event loop of one life of the server. What it still had to do when it died
    never happens."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._soon: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_dead = False

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Call back in the next turn."""
        self._soon.append((callback, args))

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any
    ) -> Event:
        """Call back after `delay` seconds."""

        def call() -> None:
            if not self._is_dead:
                callback(*args)

        return self._clock.after(round(delay * 1000), call)

    def settle(self) -> None:
        """Turn until nothing is ready."""
        soon = self._soon
        for _ in range(_TURNS_MAX):
            if not soon:
                return
            callback, args = soon.popleft()
            callback(*args)
        raise AssertionError("the server's loop never comes to rest")

    def die(self) -> None:
        """The process is gone."""
        self._is_dead = True
        self._soon.clear()
