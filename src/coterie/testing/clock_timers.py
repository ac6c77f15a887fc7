"""The time of a test server, and the timers that follow it."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import Any, Final

NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000
CHECK_PARTS: Final = 64
"""During an advance, periodic checks are made when this part of what is left has
passed, if that is longer than their interval. So 8 days need 300 rounds of retention
instead of 2,304, a year needs 550, and the last ones are at their usual intervals."""
CHECK_INTERVAL_MS_MIN: Final = 1_000
"""A shorter delay continues a check that has begun."""


class MovableTime:
    """The machine's time plus what was advanced. It can be frozen."""

    def __init__(self) -> None:
        self._ahead_ns = time.time_ns() - time.monotonic_ns()
        self._frozen_ns: int | None = None
        self.left_ns = 0
        """The part of the current advance that is not done yet."""

    @property
    def is_frozen(self) -> bool:
        """Whether the time moves by `jump` only."""
        return self._frozen_ns is not None

    def now_ns(self) -> int:
        """Return the time in ns since the epoch."""
        if self._frozen_ns is not None:
            return self._frozen_ns
        return time.monotonic_ns() + self._ahead_ns

    def now_ms(self) -> int:
        """Return the time in ms since the epoch."""
        return self.now_ns() // NS_PER_MS

    def jump(self, by_ns: int) -> None:
        """Move the time forward at once."""
        if self._frozen_ns is None:
            self._ahead_ns += by_ns
        else:
            self._frozen_ns += by_ns

    def freeze(self) -> None:
        """Stop the time."""
        self._frozen_ns = self.now_ns()

    def run(self) -> None:
        """Continue from where the time was frozen."""
        if self._frozen_ns is not None:
            self._ahead_ns = self._frozen_ns - time.monotonic_ns()
            self._frozen_ns = None


class _Timer:
    """A callback of a `TimerQueue`."""

    __slots__ = ("callback", "is_cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class TimerQueue:
    """The scheduler of one server: callbacks by their test times.

    The event loop holds one callback, for the earliest.
    """

    def __init__(self, movable: MovableTime) -> None:
        self._time = movable
        self._heap: list[tuple[int, int, _Timer]] = []
        self._order = count()
        self._handle: asyncio.TimerHandle | None = None

    def call_later(self, delay: float, callback: Callable[[], None]) -> _Timer:
        """Call `callback` after `delay` seconds of the time."""
        timer = _Timer(callback)
        at_ns = self._time.now_ns() + round(delay * _NS_PER_S)
        heapq.heappush(self._heap, (at_ns, next(self._order), timer))
        if self._heap[0][2] is timer:
            self.schedule()
        return timer

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        """Call `callback` in the next iteration of the loop."""
        return asyncio.get_running_loop().call_soon(callback, *args)

    def clear(self) -> None:
        """Drop all callbacks. The loop, if it still runs, then finds none."""
        self._heap = []

    def next_ns(self) -> int | None:
        """Return the time of the next callback; None without one."""
        while self._heap and self._heap[0][2].is_cancelled:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def schedule(self) -> None:
        """Wake for the next callback. Frozen time wakes for what is due only."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        next_ns = self.next_ns()
        if next_ns is None:
            return
        delay_ns = max(next_ns - self._time.now_ns(), 0)
        if delay_ns == 0 or not self._time.is_frozen:
            loop = asyncio.get_running_loop()
            self._handle = loop.call_later(delay_ns / _NS_PER_S, self._wake)

    def _wake(self) -> None:
        self.run_due()
        self.schedule()

    def run_due(self) -> None:
        """Run the callbacks that are due now, and not those that they add."""
        now_ns = self._time.now_ns()
        due: list[_Timer] = []
        while self._heap and self._heap[0][0] <= now_ns:
            due.append(heapq.heappop(self._heap)[2])
        loop = asyncio.get_running_loop()
        for timer in due:
            if timer.is_cancelled:
                continue
            try:
                timer.callback()
            except Exception as error:
                loop.call_exception_handler(
                    {"message": "a bug in a timer", "exception": error}
                )


class Checks:
    """The scheduler of periodic checks, which are fewer during an advance."""

    def __init__(self, movable: MovableTime, timers: TimerQueue) -> None:
        self._time = movable
        self._timers = timers
        self.call_soon = timers.call_soon

    def call_later(self, delay: float, callback: Callable[[], None]) -> _Timer:
        """Call `callback` after `delay` seconds of the time, or later."""
        if delay * 1_000 >= CHECK_INTERVAL_MS_MIN:
            delay = max(delay, self._time.left_ns / CHECK_PARTS / _NS_PER_S)
        return self._timers.call_later(delay, callback)
