"""Virtual time: scheduled events in order of time, and the event loop of a server.
`Clock.step` runs the next event and sets the time to that of the event.
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
    """A scheduled event."""

    __slots__ = ("callback", "is_cancelled")

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        """Cancel the event."""
        self.is_cancelled = True


class Clock:
    """A simulated clock and its scheduled events.

    Events at the same ms run in the order of scheduling.
    """

    def __init__(self) -> None:
        self.now_ms = START_MS
        self._events: list[tuple[int, int, Event]] = []
        self._order = count()

    def now(self) -> int:
        """Return the time in ms since the epoch."""
        return self.now_ms

    def after(self, delay_ms: int, callback: Callable[[], object]) -> Event:
        """Call back after a delay."""
        assert delay_ms >= 0, delay_ms
        event = Event(callback)
        at_ms = self.now_ms + delay_ms
        heapq.heappush(self._events, (at_ms, next(self._order), event))
        return event

    def step(self, until_ms: int) -> bool:
        """Run the next event at or before `until_ms`.

        Without one, set the time to it and return False.
        """
        while self._events and self._events[0][0] <= until_ms:
            at_ms, _, event = heapq.heappop(self._events)
            if not event.is_cancelled:
                self.now_ms = max(self.now_ms, at_ms)
                event.callback()
                return True
        self.now_ms = max(self.now_ms, until_ms)
        return False


class ServerLoop:
    """The event loop of one server process; its callbacks are dropped when the process
    is killed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._soon: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_dead = False

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Call back in the next iteration."""
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
        """Run iterations until no callback is ready."""
        soon = self._soon
        for _ in range(_TURNS_MAX):
            if not soon:
                return
            callback, args = soon.popleft()
            callback(*args)
        raise AssertionError("the server's loop does not become idle")

    def die(self) -> None:
        """Drop all callbacks, because the process was killed."""
        self._is_dead = True
        self._soon.clear()
