"""How far long work is, on one line of a terminal that goes away again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TextIO

_PATIENCE_S: Final = 1.0
_WIDTH: Final = 30


class Bar:
    """A progress callback. It says nothing during the first second, nor when stderr is
    no terminal."""

    def __init__(
        self, stderr: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stderr = stderr
        self._clock = clock
        self._started = clock()
        self._shown = ""

    def __call__(self, done: int, of: int) -> None:
        """So much of so much is done."""
        if not self._stderr.isatty() or self._clock() - self._started < _PATIENCE_S:
            return
        share = done / max(of, 1)
        filled = "#" * int(share * _WIDTH)
        line = f"[{filled:<{_WIDTH}}] {int(100 * share):3} %"
        if line != self._shown:
            self._stderr.write(f"\r{line}")
            self._stderr.flush()
            self._shown = line

    def clear(self) -> None:
        """Leave the line as it was."""
        if self._shown:
            self._stderr.write(f"\r{' ' * len(self._shown)}\r")
            self._stderr.flush()
            self._shown = ""
