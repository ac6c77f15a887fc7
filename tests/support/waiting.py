"""Waits for a condition with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PAUSE_S = 0.05
DEADLINE_S = 120.0

Value = TypeVar("Value")


def eventually(
    condition: Callable[[], Value], *, within_s: float = DEADLINE_S, expected: str
) -> Value:
    """Call `condition` until it returns a true value; return this value.

    Raises AssertionError with `wanted` and the last value after `within_s`.
    """
    deadline = time.monotonic() + within_s
    while True:
        last = condition()
        if last:
            return last
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not within {within_s:.0f} s: {expected}; last {last}"
            )
        time.sleep(PAUSE_S)
