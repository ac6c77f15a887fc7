"""Milliseconds in records, as times of tables."""

from __future__ import annotations

from typing import Final

NEWEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: later times do not fit everywhere, and mean nothing."""


def time_us(time_ms: int) -> int | None:
    """Microseconds; None for what is no time: -1 stands for none, and writers may put
    in anything."""
    return time_ms * 1000 if 0 <= time_ms <= NEWEST_MS else None
