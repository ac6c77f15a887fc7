"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PAUSE_S = 0.05
DEADLINE_S = 30.0


Found = TypeVar("Found")


def eventually(
    condition: Callable[[], Found], *, within_s: float = DEADLINE_S, wanted: str
) -> Found:
    """Call `condition` until it answers something true, and return that.

    Raises AssertionError with `wanted` and the last answer once `within_s` is over.
    """
    deadline = time.monotonic() + within_s
    while True:
        last = condition()
        if last:
            return last
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:.0f} s: {wanted}; last {last}")
        time.sleep(PAUSE_S)
