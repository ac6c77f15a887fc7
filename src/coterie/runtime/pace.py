"""Decides who does a write: the loop's own thread, or the worker.

To hand a write over and hear of its end costs more than a small write on a quick disk;
and the more so the busier the loop is, as the worker waits for the interpreter's lock
each time SQLite comes back to Python. A large write, or any on a slow disk, would hold
everybody up and goes to the worker.
"""

from __future__ import annotations

from typing import Final

from coterie.log.log import Staged

QUICK_S: Final = 0.001
"""A disk is quick while a small write takes less, on average."""
SMALL_BYTES: Final = 128 * 1024
SMALL_OPERATIONS: Final = 64
TRY_EVERY: Final = 128
"""How many small writes go to the worker before one is tried in the loop again: when
the loop is busy, what the worker measures is that and not the disk."""
_WEIGHT: Final = 1 / 8


class Pace:
    """What small writes take of late."""

    def __init__(self) -> None:
        self._average_s = 4 * QUICK_S
        self._handed_over = 0

    def fits_loop(self, staged: Staged) -> bool:
        """Whether the loop may do this write itself."""
        if not _is_small(staged):
            return False
        if self._average_s < QUICK_S:
            return True
        self._handed_over += 1
        return self._handed_over % TRY_EVERY == 0

    def took(self, staged: Staged, seconds: float) -> None:
        """A write has ended."""
        assert seconds >= 0
        if _is_small(staged):
            self._average_s += (seconds - self._average_s) * _WEIGHT


def _is_small(staged: Staged) -> bool:
    return (
        len(staged.operations) <= SMALL_OPERATIONS and staged.size_bytes <= SMALL_BYTES
    )
