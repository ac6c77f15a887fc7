"""Rebalances over time, and the storms among them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import pyarrow.compute as pc

from coterie.pipeline.lake.query import TableQuery, TableReader
from coterie.pipeline.report.attention import Storm
from coterie.pipeline.report.charts import TimeAxis
from coterie.pipeline.report.groups import Row
from coterie.pipeline.report.texts import (
    NO_VALUE,
    UNKNOWN,
    epoch_ms,
    moment,
    short_name,
    span,
)

LANES_MAX: Final = 8
"""Groups in the chart."""
REBALANCES_MAX: Final = 5_000
"""Rebalances that are read."""
LISTED_MAX: Final = 30
"""Rebalances in the table."""
_NAMES_MAX: Final = 5
_MARK_WIDTH: Final = 0.4
"""Rebalances closer than this, in per cent of the chart's width, are one mark."""
KINDS: Final[Mapping[str, tuple[int, str]]] = {
    "joined": (0, "members joined"),
    "left": (1, "members left"),
    "restarted": (3, "members left and joined, or restarted"),
    "changed": (2, "subscriptions, topics or settings changed"),
    "other": (5, "start, end or other cause"),
}
"""The kinds of rebalances: a colour and a meaning."""
_CAUSE_KINDS: Final = {
    "joined": "joined",
    "left": "left",
    "joined_and_left": "restarted",
    "restarted": "restarted",
    "subscription_changed": "changed",
    "metadata_changed": "changed",
    "assignor_or_leader_changed": "changed",
}


@dataclass(frozen=True)
class Mark:
    """Rebalances of one kind at one place of a lane."""

    at: float
    kind: str
    tip: str


@dataclass(frozen=True)
class RebalanceLane:
    """The rebalances of one group."""

    group_id: str
    rebalances: int
    marks: tuple[Mark, ...]
    storms: tuple[tuple[float, float, str], ...]
    """Start, width and description of each storm."""


@dataclass(frozen=True)
class Rebalances:
    """The newest rebalances of all groups."""

    rows: list[Row]
    """The newest first."""
    total: int
    storms: list[Storm]

    def recent_storms(self, now: datetime) -> dict[str, Storm]:
        """Return the largest storm of each group in the last day."""
        found: dict[str, Storm] = {}
        for storm in self.storms:
            largest = found.get(storm.group_id)
            is_recent = storm.end >= now - timedelta(days=1)
            if is_recent and (not largest or storm.rebalances > largest.rebalances):
                found[storm.group_id] = storm
        return found


def read_rebalances(reader: TableReader) -> Rebalances:
    """Return the newest rebalances and the storms among them."""
    columns = (
        "group_id",
        "epoch",
        "cause",
        "start_ts",
        "duration_ms",
        "is_duration_exact",
        "members_before",
        "members_after",
        "joined",
        "left",
        "partitions_total",
        "partitions_moved",
        "storm_id",
    )
    query = TableQuery(
        "rebalance_timeline",
        (("start_ts", "descending"),),
        where=pc.field("start_ts").is_valid(),
        limit=REBALANCES_MAX,
        columns=columns,
    )
    rows, total = reader.query(query)
    return Rebalances(rows, total, find_storms(rows))


def find_storms(rebalances: Iterable[Row]) -> list[Storm]:
    """Return the rebalance storms that the table marks."""
    times: dict[tuple[str, str], list[datetime]] = defaultdict(list)
    for each in rebalances:
        if each["storm_id"]:
            times[each["group_id"], each["storm_id"]].append(each["start_ts"])
    return [
        Storm(group, min(found), max(found), len(found))
        for (group, _), found in times.items()
    ]


def rebalance_lanes(
    rebalances: Rebalances, now: datetime
) -> tuple[TimeAxis, list[RebalanceLane]]:
    """Return a lane for each group with a storm, then with the most rebalances."""
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in rebalances.rows:
        by_group[row["group_id"]].append(row)
    stormy = {storm.group_id for storm in rebalances.storms}
    chosen = sorted(by_group, key=lambda g: (g not in stormy, -len(by_group[g]), g))
    chosen = chosen[:LANES_MAX]
    times = [row["start_ts"] for group in chosen for row in by_group[group]]
    axis = TimeAxis(epoch_ms(min(times, default=now)), epoch_ms(max(now, *times, now)))
    lanes = [
        RebalanceLane(
            group,
            len(by_group[group]),
            tuple(_marks(axis, by_group[group])),
            tuple(
                _storm_span(axis, s) for s in rebalances.storms if s.group_id == group
            ),
        )
        for group in chosen
    ]
    return axis, lanes


def _marks(axis: TimeAxis, rows: Iterable[Row]) -> list[Mark]:
    places: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in rows:
        at = axis.at(epoch_ms(row["start_ts"]))
        kind = _CAUSE_KINDS.get(row["cause"], "other")
        places[int(at / _MARK_WIDTH), kind].append(row)
    return [
        Mark(axis.at(epoch_ms(found[-1]["start_ts"])), kind, _mark_tip(found))
        for (_, kind), found in places.items()
    ]


def _mark_tip(rows: Sequence[Row]) -> str:
    row = rows[-1]
    cause = row["cause"].replace("_", " ")
    if len(rows) > 1:
        return f"{len(rows)} rebalances from {moment(row['start_ts'])} UTC: {cause}"
    return (
        f"{moment(row['start_ts'])} UTC: {cause}, {row['members_before']} →"
        f" {row['members_after']} members, {row['partitions_moved']} partitions moved"
    )


def _storm_span(axis: TimeAxis, storm: Storm) -> tuple[float, float, str]:
    start, end = axis.at(epoch_ms(storm.start)), axis.at(epoch_ms(storm.end))
    tip = f"storm: {storm.rebalances} rebalances from {moment(storm.start)} UTC"
    return start, round(end - start, 2), tip


def rebalance_table(rebalances: Rebalances) -> list[Row]:
    """Return the newest rebalances as texts."""
    return [
        {
            "group": row["group_id"],
            "when": moment(row["start_ts"]),
            "cause": row["cause"].replace("_", " "),
            "members": f"{row['members_before']} → {row['members_after']}",
            "who": _who(row),
            "moved": f"{row['partitions_moved']} of {row['partitions_total']}",
            "took": _duration(row),
        }
        for row in rebalances.rows[:LISTED_MAX]
    ]


def _who(row: Row) -> str:
    texts = [
        f"{word}: {_first_names(row[word])}" for word in ("joined", "left") if row[word]
    ]
    return "; ".join(texts) or NO_VALUE


def _duration(row: Row) -> str:
    if row["duration_ms"] is None:
        return UNKNOWN
    return ("" if row["is_duration_exact"] else "≤ ") + span(row["duration_ms"])


def _first_names(names: Sequence[str]) -> str:
    rest = len(names) - _NAMES_MAX
    more = f" and {rest} more" if rest > 0 else ""
    return ", ".join(short_name(each, 24) for each in names[:_NAMES_MAX]) + more
