"""What happened in a world, line by line, to be read when something went wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

KEPT_LINES = 400


class Transcript:
    """The last lines of a world; what is dropped is counted."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._began_ms = clock()
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.count = 0

    def say(self, who: str, what: str) -> None:
        """Note what somebody did, at this moment of the world."""
        at = (self._clock() - self._began_ms) / 1000
        self._lines.append(f"{at:9.3f}  {who:<10} {what}")
        self.count += 1

    def lines(self) -> Iterator[str]:
        """The lines that are kept."""
        if self.count > len(self._lines):
            yield f"({self.count - len(self._lines)} lines before)"
        yield from self._lines
