"""Numbers and durations as values of options. A duration is a number in the option's
unit, or 2h, 7d, 1h30m, PT2H.

    add("--interval", type=duration_of("seconds"), metavar="SECONDS")
    add("--top", type=whole_number("a count"), metavar="N")

Rules: this module is imported by every command, so it imports nothing heavy at the top.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Final

from coterie import operations as ops
from coterie.errors import SettingError

_UNITS_NS: Final = {
    "milliseconds": 1_000_000,
    "seconds": 1_000_000_000,
    "hours": 3_600_000_000_000,
    "days": 86_400_000_000_000,
}
_MOST: Final = 2**53
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")


def whole_number(
    noun: str, *, least: int = 1, most: int = 2**31 - 1
) -> Callable[[str], int]:
    """Return a function for argparse that parses a whole number, from `least` to
    `most`; `noun` names it with its article."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not {noun}; use a whole number from {least} to {most}"
            )
        return int(text)

    return parse


def duration_of(
    unit: str, *, least: float = 0, most: float = _MOST
) -> Callable[[str], float]:
    """Return a function for argparse that parses a duration into a number of units,
    from `least` to `most`."""

    def parse(text: str) -> float:
        value = _value(text, unit)
        if value is None or not least <= value <= most:
            bounds = "" if most == _MOST else f" from {least} to {most}"
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a duration{bounds}; use a number of {unit}, or for "
                "example 90s, 2h, 7d or PT1H30M"
            )
        return value

    return parse


def whole_duration_of(
    unit: str, *, least: int = 0, most: int = _MOST
) -> Callable[[str], int]:
    """Return a function for argparse that parses a duration into a whole number of
    units, from `least` to `most`."""
    end = "" if most == _MOST else f" to {most}"

    def parse(text: str) -> int:
        value = _value(text, unit)
        if value is None or not least <= value <= most or value != int(value):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a duration in {unit}; use a whole number from "
                f"{least}{end}, or for example 90s, 2h, 7d or PT1H30M in these bounds"
            )
        return int(value)

    return parse


def _value(text: str, unit: str) -> float | None:
    """Return a number of units; None for a text that is not a duration."""
    if _NUMBER.fullmatch(text):
        return float(text)
    try:
        return ops.read_duration_ns(text) / _UNITS_NS[unit]
    except SettingError:
        return None
