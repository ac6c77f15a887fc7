"""A limit of log lines that clients cause: one a second, with a count of the others."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

INTERVAL_S: Final = 1.0


class LogLimit:
    """The limit of one kind of lines: one in `interval_s`, by default `INTERVAL_S`.

    `clock` returns seconds.
    """

    __slots__ = ("_clock", "_interval_s", "_next_s", "_suppressed")

    def __init__(
        self,
        interval_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._next_s: float | None = None
        self._suppressed = 0

    def admit(self) -> int | None:
        """Return None to suppress a line, or the number suppressed before this one."""
        now_s = self._clock()
        if self._next_s is not None and now_s < self._next_s:
            self._suppressed += 1
            return None
        self._next_s = now_s + (
            INTERVAL_S if self._interval_s is None else self._interval_s
        )
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed


class LimitedLog:
    """A logger of one kind of lines with a limit. A line has the number of those
    suppressed before it."""

    def __init__(
        self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._logger = logger
        self._limit = LogLimit(clock=clock)

    def log(self, level: int, message: str, *arguments: Any) -> None:
        """Log a line, or count it."""
        suppressed = self._limit.admit()
        if suppressed is None:
            return
        if suppressed:
            message += " (%d similar lines suppressed)"
            arguments = (*arguments, suppressed)
        self._logger.log(level, message, *arguments)
