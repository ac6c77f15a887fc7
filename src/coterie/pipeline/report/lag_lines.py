"""The lag of groups over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.pipeline.lake.query import TableQuery, TableReader
from coterie.pipeline.report.charts import (
    Line,
    LineChart,
    TimeAxis,
    line_points,
    nice_bound,
    short_number,
    time_scale,
)
from coterie.pipeline.report.groups import PARTITION_KEY, of_groups
from coterie.pipeline.report.texts import (
    UNKNOWN,
    count,
    epoch_ms,
    moment,
    short_name,
    span,
)

CHARTS_MAX: Final = 8
"""Groups with charts."""
LINES_MAX: Final = 5
"""Topics with a line of their own."""
_POINTS_MAX: Final = 120
"""Points of one line."""
_REWINDS_MAX: Final = 200
_ACTORS: Final = {
    "owner": "its owner",
    "member": "a member of the group",
    "admin": "an operator",
    "simple": "a client without a group membership",
}


def carry_forward(
    times: NDArray[Any], values: NDArray[Any], grid: NDArray[Any]
) -> NDArray[Any]:
    """Return the newest value at each time of the grid; before the first value, that.

    Partitions are sampled at slightly different times. A sum over the samples of one
    exact time would miss partitions, and would appear to rise and fall.
    """
    index = np.searchsorted(times, grid, side="right") - 1
    carried: NDArray[Any] = values[np.maximum(index, 0)]
    return carried


def time_grid(times: NDArray[Any]) -> NDArray[Any]:
    """Return sample times that are far enough apart for a line, the newest included.

    A round of samples, one for each partition, takes some milliseconds: it is one point
    of a line, at the time of its last sample.
    """
    ordered = np.unique(times)
    step = max(int(ordered[-1] - ordered[0]) // (_POINTS_MAX - 1), 1)
    grid = [ordered[-1]]
    while (index := np.searchsorted(ordered, grid[-1] - step, side="right")) > 0:
        grid.append(ordered[index - 1])
    return np.array(grid[::-1])


@dataclass(frozen=True)
class LagSeries:
    """A topic of a group over time: sums over its partitions, and the largest time
    lag."""

    topic: str
    times: list[int]
    """In ms since 1970."""
    end: list[float]
    committed: list[float]
    lag: list[float]
    late: list[float | None]
    """Time lag in ms; None where it is unknown."""


def lag_series(
    reader: TableReader, groups: Collection[str]
) -> dict[str, list[LagSeries]]:
    """Return the series of each topic of each group, the largest lag first."""
    columns = (
        *PARTITION_KEY,
        "sample_ts",
        "log_end_offset",
        "committed_offset",
        "lag",
        "time_lag_ms",
    )
    recent = reader.recent("lag_history", "sample_ts")
    known = pc.field("lag").is_valid() & pc.field("committed_offset").is_valid()
    where = of_groups(groups, known if recent is None else known & recent)
    offsets = reader.table("current_offsets", PARTITION_KEY, of_groups(groups))
    table = reader.table("lag_history", columns, where)
    keys = list(PARTITION_KEY)
    table = table.join(offsets, keys, join_type="left semi")
    table = table.sort_by([(each, "ascending") for each in (*keys, "sample_ts")])
    if not len(table):
        return {}
    found: dict[str, list[LagSeries]] = defaultdict(list)
    for first, last in _runs(table, ("group_id", "topic")):
        part = table.slice(first, last - first)
        series = _series_of_topic(part)
        found[part["group_id"][0].as_py()].append(series)
    for listed in found.values():
        listed.sort(key=lambda each: (-max(each.lag), each.topic))
    return dict(found)


def _runs(table: pa.Table, columns: Iterable[str]) -> list[tuple[int, int]]:
    """Return first and next index of each run of rows with equal values."""
    changes = np.zeros(len(table) - 1, bool)
    for each in columns:
        values = table[each].combine_chunks()
        differs = pc.not_equal(values[1:], values[:-1])
        changes |= differs.to_numpy(zero_copy_only=False)
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(table)]
    return list(pairwise(bounds))


def _series_of_topic(table: pa.Table) -> LagSeries:
    ms = table["sample_ts"].cast(pa.int64()).to_numpy() // 1000
    grid = time_grid(ms)
    columns = {
        name: table[name].cast(pa.float64()).to_numpy(zero_copy_only=False)
        for name in ("log_end_offset", "committed_offset", "lag", "time_lag_ms")
    }
    sums = {name: np.zeros(len(grid)) for name in columns}
    late = np.full(len(grid), np.nan)
    for first, last in _runs(table, ("partition",)):
        for name, values in columns.items():
            carried = carry_forward(ms[first:last], values[first:last], grid)
            if name == "time_lag_ms":
                late = np.fmax(late, carried)
            else:
                sums[name] += carried
    return LagSeries(
        topic=table["topic"][0].as_py(),
        times=grid.tolist(),
        end=sums["log_end_offset"].tolist(),
        committed=sums["committed_offset"].tolist(),
        lag=sums["lag"].tolist(),
        late=[None if np.isnan(each) else each for each in late.tolist()],
    )


def total_lag(series: Sequence[LagSeries]) -> tuple[list[int], list[float]]:
    """Return the lag of a group over time, summed over its topics."""
    grid = time_grid(np.concatenate([np.array(each.times) for each in series]))
    total = np.zeros(len(grid))
    for each in series:
        total += carry_forward(np.array(each.times), np.array(each.lag), grid)
    return grid.tolist(), total.tolist()


def trend(series: Sequence[LagSeries]) -> tuple[str, str]:
    """Return the lag of a group as points of a small chart, and as a text."""
    times, lags = total_lag(series)
    if len(times) < 2:
        return "", ""
    axis = TimeAxis(times[0], times[-1])
    high = max(lags) or 1
    points = line_points(axis, list(zip(times, lags, strict=True)), -high * 0.05, high)
    length = span(times[-1] - times[0])
    return points[0], f"lag {count(lags[0])} → {count(lags[-1])} in {length}"


def rewinds(reader: TableReader, groups: Collection[str]) -> dict[str, list[Rewind]]:
    """Return the newest commits that moved an offset back, by group."""
    columns = ("group_id", "topic", "partition", "commit_ts", "delta", "actor")
    query = TableQuery(
        "offset_commit_history",
        (("commit_ts", "descending"),),
        among={"group_id": sorted(groups)},
        where=(pc.field("direction") == "rewind") & pc.field("commit_ts").is_valid(),
        limit=_REWINDS_MAX,
        columns=columns,
    )
    found: dict[str, list[Rewind]] = defaultdict(list)
    for row in reader.query(query)[0]:
        text = (
            f"{moment(row['commit_ts'])} UTC: {short_name(row['topic'], 28)}-"
            f"{row['partition']} moved back by {count(-row['delta'])}"
            f" (by {_ACTORS.get(row['actor'], 'an unknown client')})"
        )
        found[row["group_id"]].append(Rewind(epoch_ms(row["commit_ts"]), text))
    return dict(found)


def lag_charts(
    series: Sequence[LagSeries], moved_back: Sequence[Rewind] = ()
) -> list[LineChart]:
    """Return the charts of one group: lag in records, lag in time, and offsets."""
    shown = list(enumerate(series[:LINES_MAX]))
    first = series[0]
    charts = [
        _line_chart(
            "Lag in records",
            "Records that the group has not read yet. A line that only rises means"
            " that the group cannot keep up.",
            [_Values(each.topic, at, each.times, each.lag) for at, each in shown],
            count,
            _records_scale,
            moved_back,
        ),
        _line_chart(
            "Lag in time",
            "Age of the oldest record that the group has not read yet.",
            [_Values(each.topic, at, each.times, each.late) for at, each in shown],
            span,
            _time_scale,
        ),
        _line_chart(
            f"Offsets of {short_name(first.topic, 26)}",
            "Sums over the partitions. The distance between the lines is the lag.",
            [
                _Values("end of the topic", 1, first.times, first.end, is_dashed=True),
                _Values("committed", 0, first.times, first.committed),
            ],
            count,
            _offsets_scale,
        ),
    ]
    return [chart for chart in charts if chart.lines]


@dataclass(frozen=True)
class Rewind:
    """A commit that moved an offset back."""

    ms: int
    text: str


_Scale: TypeAlias = Callable[[Sequence[float]], tuple[float, float, tuple[str, ...]]]
"""Returns the lowest and the highest value of an axis for these values, and labels."""


@dataclass(frozen=True)
class _Values:
    name: str
    colour: int
    times: Sequence[int]
    values: Sequence[float | None]
    is_dashed: bool = False


def _line_chart(
    title: str,
    meaning: str,
    listed: Sequence[_Values],
    form: Callable[[float], str],
    scale: _Scale,
    moved_back: Sequence[Rewind] = (),
) -> LineChart:
    axis = TimeAxis(
        min(each.times[0] for each in listed), max(each.times[-1] for each in listed)
    )
    known = [value for each in listed for value in each.values if value is not None]
    low, high, labels = scale(known or [0])
    lines = []
    for each in listed:
        points = list(zip(each.times, each.values, strict=True))
        newest = each.values[-1]
        text = UNKNOWN if newest is None else form(newest)
        if parts := line_points(axis, points, low, high):
            lines.append(Line(each.name, each.colour, parts, text, each.is_dashed))
    marks = tuple(
        (axis.at(each.ms), each.text)
        for each in moved_back
        if axis.start <= each.ms <= axis.end
    )
    return LineChart(title, meaning, tuple(lines), labels, axis, marks)


def _records_scale(values: Sequence[float]) -> tuple[float, float, tuple[str, ...]]:
    high = max(nice_bound(max(values)), 2)
    return 0, high, (short_number(high), short_number(high / 2), "0")


def _time_scale(values: Sequence[float]) -> tuple[float, float, tuple[str, ...]]:
    high, labels = time_scale(max(values))
    return 0, high, labels


def _offsets_scale(values: Sequence[float]) -> tuple[float, float, tuple[str, ...]]:
    """Return a scale that does not begin at 0: offsets are large, their lag is not."""
    low = min(values)
    high = max(*values, low + 2)
    marks = (high, (high + low) / 2, low)
    labels = tuple(map(short_number, marks))
    is_distinct = len(set(labels)) == len(labels)
    return low, high, labels if is_distinct else tuple(map(count, marks))
