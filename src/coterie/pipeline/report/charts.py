"""Positions and scales of charts.

The page draws charts with HTML and SVG: a position is a share of the chart's width or
height in per cent, so that a chart fits any screen, can be printed, and needs no
script. Labels are text of the page, never part of a drawing that is scaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

COLOURS: Final = 6
"""Number of colours; report.css defines them for both themes as --c0, --c1, ..."""
_TICKS_MAX: Final = 5
_SECOND: Final = 1_000
_DAY: Final = 86_400_000
_STEPS: Final = (
    *(each * _SECOND for each in (1, 2, 5, 10, 15, 30)),
    *(each * 60 * _SECOND for each in (1, 2, 5, 10, 15, 30)),
    *(each * 3_600 * _SECOND for each in (1, 2, 3, 6, 12)),
    *(
        each * _DAY
        for each in (1, 2, 5, 10, 20, 50, 100, 200, 400, 1_000, 4_000, 20_000, 100_000)
    ),
)
_EDGE: Final = 10.0
"""A label this close to an edge is aligned with it, in per cent."""


@dataclass(frozen=True)
class Tick:
    """A label of an axis."""

    at: float
    text: str

    @property
    def align(self) -> str:
        """The side of the label that is at the position."""
        if self.at < _EDGE:
            return "left"
        return "right" if self.at > 100 - _EDGE else "middle"


@dataclass(frozen=True)
class TimeAxis:
    """A horizontal axis from one time to a later one, in ms since 1970."""

    start: int
    end: int

    def at(self, ms: float) -> float:
        """Return the position of a time; a time outside is at the nearest edge."""
        length = max(self.end - self.start, 1)
        return round(min(max((ms - self.start) / length, 0), 1) * 100, 2)

    @property
    def ticks(self) -> list[Tick]:
        length = self.end - self.start
        step = next((s for s in _STEPS if length / s <= _TICKS_MAX - 1), _STEPS[-1])
        first = -(-self.start // step) * step
        times = range(first, self.end + 1, step)
        return [Tick(self.at(ms), _tick_text(ms, step)) for ms in times]

    @property
    def caption(self) -> str:
        """The first and the last time, with their dates."""
        start, end = (_utc(ms) for ms in (self.start, self.end))
        form = "%d %b %H:%M" if start.year == end.year else "%d %b %Y %H:%M"
        return f"{start:{form}} to {end:{form}} UTC"


def _utc(ms: float) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)


def _tick_text(ms: int, step: int) -> str:
    at = _utc(ms)
    if step >= _DAY or not ms % _DAY:
        return f"{at:%d %b}"
    return f"{at:%H:%M:%S}" if step < 60 * _SECOND else f"{at:%H:%M}"


@dataclass(frozen=True)
class Line:
    """A line of a chart: parts without a gap, as points of SVG polylines."""

    name: str
    colour: int
    parts: tuple[str, ...]
    newest: str
    """The newest value, formatted."""
    is_dashed: bool = False


@dataclass(frozen=True)
class LineChart:
    """Lines over one time axis, with the labels of the values' axis."""

    title: str
    meaning: str
    lines: tuple[Line, ...]
    labels: tuple[str, ...]
    """From top to bottom, evenly spaced."""
    axis: TimeAxis
    marks: tuple[tuple[float, str], ...] = ()
    """Positions of events, with their descriptions."""


def line_points(
    axis: TimeAxis, points: Sequence[tuple[int, float | None]], low: float, high: float
) -> tuple[str, ...]:
    """Return polylines in a box of 100 by 100; an unknown value interrupts the line."""
    parts: list[list[str]] = [[]]
    for ms, value in points:
        if value is None:
            parts.append([])
            continue
        height = 100 - (value - low) / max(high - low, 1e-9) * 100
        parts[-1].append(f"{axis.at(ms):g},{height:.1f}")
    # A polyline of one point is invisible, so it is drawn twice.
    return tuple(" ".join(p if len(p) > 1 else p * 2) for p in parts if p)


def nice_bound(value: float) -> float:
    """Return a round number that is not below the value, and at most a third above."""
    if value <= 0:
        return 1
    power = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 1.0
    while power > value:
        power /= 10
    bounds = [each * power for each in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)]
    return next(each for each in bounds if each >= value * (1 - 1e-9))


_UNITS: Final = (
    (_DAY, "d"),
    (3_600 * _SECOND, "h"),
    (60 * _SECOND, "min"),
    (_SECOND, "s"),
    (1, "ms"),
)


def time_scale(ms: float) -> tuple[float, tuple[str, ...]]:
    """Return the end of an axis of durations that contains this one, in ms, and the
    labels of its end, its middle and 0.
    """
    unit, name = next(((u, n) for u, n in _UNITS if ms >= 2 * u), (1, "ms"))
    bound = nice_bound(ms / unit)
    labels = (f"{bound:g} {name}", f"{bound / 2:g} {name}", "0")
    return bound * unit, labels


def short_number(value: float) -> str:
    """Format the number of an axis: 0, 250, 1.5 k, 20 M."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}\u202f{unit}"
    return f"{value:.3g}"
