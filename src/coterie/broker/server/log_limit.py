"""A limit of log lines that clients cause: one a second, with a count of the others."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

INTERVAL_S: Final = 1.0


class LimitedLog:
    """A logger that drops lines less than `INTERVAL_S` after the last one.

    The next line has the number of those dropped. `clock` returns seconds.
    """

    def __init__(
        self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._logger = logger
        self._clock = clock
        self._next_s: float | None = None
        self.suppressed = 0
        """The number of lines dropped since the last one."""

    def log(self, level: int, message: str, *arguments: Any) -> None:
        """Log a line, or count it."""
        now_s = self._clock()
        if self._next_s is not None and now_s < self._next_s:
            self.suppressed += 1
            return
        self._next_s = now_s + INTERVAL_S
        if self.suppressed:
            message += " (%d similar lines suppressed)"
            arguments = (*arguments, self.suppressed)
            self.suppressed = 0
        self._logger.log(level, message, *arguments)
