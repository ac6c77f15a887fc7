"""The error for a violated invariant, and the log handler that records bugs of the
server.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_EXPECTED: Final = (
    "coterie.broker.runtime.flusher",
    "coterie.broker.runtime.snapshots",
    "coterie.gateway.",
)
"""The loggers of what failures of disks, of upstream and of the network lead to."""
_ASSIGNOR_FAILED: Final = "The assignor failed"


class Broken(Exception):
    """A violated invariant; the message describes it."""


class BugRecorder(logging.Handler):
    """A log handler that records bugs of the server. Messages about failures
    that the world causes are expected. Any other
    warning or error, and any message with an exception, is a bug.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.bugs: list[str] = []
        self._formatter = logging.Formatter("%(message)s")

    def emit(self, record: logging.LogRecord) -> None:
        """Record a message, unless it is expected."""
        text = self._formatter.format(record)
        is_expected = record.name.startswith(_EXPECTED) or _ASSIGNOR_FAILED in text
        if record.exc_info or not is_expected:
            self.bugs.append(text)

    def check(self) -> None:
        """Raise Broken for the first recorded bug."""
        if self.bugs:
            raise Broken(f"the server has a bug: {self.bugs[0]}")


@contextmanager
def recording_bugs() -> Iterator[BugRecorder]:
    """Yield a recorder of bugs; do not print the server's log messages."""
    logger = logging.getLogger("coterie")
    recorder = BugRecorder()
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(recorder)
    try:
        yield recorder
    finally:
        logger.removeHandler(recorder)
        logger.propagate = propagates
