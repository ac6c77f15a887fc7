"""The time that decides: ms since the epoch, but only ever forward.

It is read from the system once and then goes on with the monotonic clock, so that
somebody who sets the system's time does not expire every session.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def steady_clock() -> Callable[[], int]:
    """A clock that begins at the system's time."""
    ahead_ns = time.time_ns() - time.monotonic_ns()
    monotonic_ns = time.monotonic_ns

    def now_ms() -> int:
        return (monotonic_ns() + ahead_ns) // 1_000_000

    return now_ms
