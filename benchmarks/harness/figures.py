"""Figures with their bars, and the reduction of rounds to one figure.

A benchmark module has `measure(rounds) -> Iterable[Figure]`. Rounds differ by 15 to
25 % on a shared machine, so a bar is missed only beyond `TOLERANCE`.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeVar

TOLERANCE = 0.85


class Skipped(Exception):
    """A benchmark that cannot run on this machine; the message has the reason."""


class Bar(Enum):
    """The direction of a bar: an upper or a lower limit."""

    AT_LEAST = ">="
    AT_MOST = "<="


class Rounds(NamedTuple):
    """The number of rounds of each side, and the length of one.

    `rows` is a regular expression for the names of the rows to measure, in the
    benchmarks that have rows.
    """

    times: int
    seconds: float
    rows: str = ""

    def includes(self, row: str) -> bool:
        """Return whether a row is to be measured."""
        return re.search(self.rows, row, re.IGNORECASE) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured number with its unit and bar; `detail` has the raw values.

    A figure with a `build`, pure or compiled, is a cell of the table of both builds.
    There, `ours` and `other` are the absolute values of both sides, and the CPU times
    are those of the servers for one request.
    """

    name: str
    value: float
    unit: str = "ratio"
    bar: float | None = None
    side: Bar = Bar.AT_LEAST
    detail: str = ""
    build: str = ""
    ours: str = ""
    other: str = ""
    cpu_us: float | None = None
    other_cpu_us: float | None = None

    @property
    def verdict(self) -> str:
        """The verdict: met, close (missed within the tolerance) or MISSED; "-" without
        a bar.
        """
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
    """Run both sides alternately; the side that runs first changes every round."""
    pairs: list[tuple[Ours, Theirs]] = []
    for number in range(rounds.times):
        if number % 2 == 0:
            one, other = ours(), theirs()
        else:
            other, one = theirs(), ours()
        pairs.append((one, other))
    return pairs


def take_turns(
    rounds: Rounds, sides: Mapping[str, Callable[[], Ours]]
) -> list[dict[str, Ours]]:
    """Run all sides one after the other in each round; return the results by round.

    Each round starts with the side after the first one of the round before.
    """
    names = list(sides)
    results = []
    for number in range(rounds.times):
        first = number % len(names)
        order = names[first:] + names[:first]
        results.append({name: sides[name]() for name in order})
    return results


def reported(name: str, figures: Iterable[Figure]) -> Iterator[Figure]:
    """Return the figures; an error becomes a missed figure, so that others follow."""
    try:
        yield from figures
    except RuntimeError as error:
        yield Figure(
            name=f"{name} could not be measured",
            value=1,
            unit="failure",
            bar=0,
            side=Bar.AT_MOST,
            detail=str(error),
        )


def median_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the median of the ratios of the first side to the second."""
    return statistics.median(ours / theirs for ours, theirs in pairs)
