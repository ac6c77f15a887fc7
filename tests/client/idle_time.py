"""A clock of the event loop that only advances while nothing else happens.

Time-outs then have the same outcome on every machine, and cost no time: when all tasks
wait, the clock goes to the next timer. All peers have to be in the same event loop.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

IDLE_S: Final = 0.002
"""Loopback connections deliver what was sent well within this time."""


def skip_idle_time() -> None:
    """Replace the running event loop's clock; do nothing when this was done."""
    loop: Any = asyncio.get_running_loop()
    if getattr(loop, "skips_idle_time", False):
        return
    loop.skips_idle_time = True
    now_s = loop.time()
    select = loop._selector.select

    def advance(timeout_s: float | None) -> Any:
        nonlocal now_s
        # The threads of the executor end in their own time, for which Python 3.12 and
        # newer wait with a timer.
        if timeout_s is None or loop._executor_shutdown_called:
            return select(timeout_s)
        events = select(min(timeout_s, IDLE_S))
        if not events:
            # A real clock, too, is somewhat later than the timer.
            now_s += timeout_s + IDLE_S
        return events

    loop._selector.select = advance
    loop.time = lambda: now_s
