"""Figures with their bars, and how rounds become one figure.

A question's module has `measure(rounds) -> Iterable[Figure]`. Rounds differ by 15 to
25 % on a shared machine, so a bar counts as missed only beyond `TOLERANCE` of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeVar

TOLERANCE = 0.85


class Skipped(Exception):
    """The question cannot be asked on this machine; the message says why."""


class Bar(Enum):
    """Which side of the bar is the good one."""

    AT_LEAST = ">="
    AT_MOST = "<="


class Rounds(NamedTuple):
    """How often both sides are run, and for how long each time."""

    times: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One answer: a number with its unit, the bar it is held to, and how it came."""

    name: str
    value: float
    unit: str = "ratio"
    bar: float | None = None
    side: Bar = Bar.AT_LEAST
    detail: str = ""

    @property
    def verdict(self) -> str:
        """One of met, close (missed, but within what rounds differ), MISSED and -."""
        if self.bar is None:
            return "-"
        if self.side is Bar.AT_LEAST:
            met, close = self.value >= self.bar, self.value >= self.bar * TOLERANCE
        else:
            met, close = self.value <= self.bar, self.value <= self.bar / TOLERANCE
        return "met" if met else "close" if close else "MISSED"


Ours = TypeVar("Ours")
Theirs = TypeVar("Theirs")


def alternate(
    rounds: Rounds, ours: Callable[[], Ours], theirs: Callable[[], Theirs]
) -> list[tuple[Ours, Theirs]]:
    """Run both sides in turns; who begins changes from round to round."""
    pairs: list[tuple[Ours, Theirs]] = []
    for number in range(rounds.times):
        if number % 2 == 0:
            one, other = ours(), theirs()
        else:
            other, one = theirs(), ours()
        pairs.append((one, other))
    return pairs


def median_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """The median of ours over theirs."""
    return statistics.median(ours / theirs for ours, theirs in pairs)
