"""What a world is given up for, and the ears that hear of bugs in the server."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_FLUSHER: Final = "coterie.runtime.flusher"
_ASSIGNOR_FAILED: Final = "The assignor failed"


class Broken(Exception):
    """An invariant does not hold; the message says which and how."""


class Ears(logging.Handler):
    """Listens to the server's log. What it says of a failed flush or assignor is to be
    expected, as the world made it fail; any other error, and any refusal of a request
    of its own, is a bug."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: list[str] = []
        self._formatter = logging.Formatter("%(message)s")

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what must not be said."""
        text = self._formatter.format(record)
        is_expected = record.name == _FLUSHER or _ASSIGNOR_FAILED in text
        if record.exc_info or not is_expected:
            self.heard.append(text)

    def check(self) -> None:
        """Raise Broken for the first bug that was heard of."""
        if self.heard:
            raise Broken(f"the server has a bug: {self.heard[0]}")


@contextmanager
def listening() -> Iterator[Ears]:
    """Hear what the server logs, instead of anybody else."""
    logger = logging.getLogger("coterie")
    ears = Ears()
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(ears)
    try:
        yield ears
    finally:
        logger.removeHandler(ears)
        logger.propagate = propagates
