"""Virtual time: callbacks in order, to the millisecond; nothing happens by itself."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

STEPS_MAX = 100_000


class Alarm:
    """A callback to come."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object] | None) -> None:
        self.callback = callback

    def cancel(self) -> None:
        """Never call it."""
        self.callback = None


class Clock:
    """What the runtime takes for its event loop, and the world for its time."""

    def __init__(self, now_ms: int = 1_000_000_000) -> None:
        self.now_ms = now_ms
        self._soon: deque[Callable[[], object]] = deque()
        self._later: list[tuple[int, int, Alarm]] = []
        self._order = count()

    def __call__(self) -> int:
        return self.now_ms

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Call back before time goes on."""
        self._soon.append(lambda: callback(*args))

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any
    ) -> Alarm:
        """Call back after so many seconds."""
        return self.after(round(delay * 1000), lambda: callback(*args))

    def after(self, delay_ms: int, callback: Callable[[], object]) -> Alarm:
        """Call back after so many milliseconds."""
        alarm = Alarm(callback)
        when = (self.now_ms + max(delay_ms, 0), next(self._order), alarm)
        heapq.heappush(self._later, when)
        return alarm

    def settle(self) -> None:
        """Do all that is ready now."""
        for _ in range(STEPS_MAX):
            if not self._soon:
                return
            self._soon.popleft()()
        raise AssertionError("the world never comes to rest")

    def forget_soon(self) -> None:
        """What was ready is lost: its process was killed."""
        self._soon.clear()

    def step(self) -> bool:
        """Go to the next moment at which something happens, and let it happen."""
        while self._later:
            at_ms, _, alarm = heapq.heappop(self._later)
            if alarm.callback is not None:
                self.now_ms = max(self.now_ms, at_ms)
                alarm.callback()
                return True
        return False
