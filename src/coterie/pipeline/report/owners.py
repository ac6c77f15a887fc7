"""The owners of partitions over time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from coterie.pipeline.lake.query import TableReader
from coterie.pipeline.report.charts import COLOURS, TimeAxis
from coterie.pipeline.report.groups import GroupRow, Row, of_groups
from coterie.pipeline.report.rebalances import Rebalances
from coterie.pipeline.report.texts import epoch_ms, moment, visible

CHARTS_MAX: Final = 8
"""Groups with a chart."""
LANES_MAX: Final = 12
"""Partitions in a chart."""
_CHANGES_MAX: Final = 120


@dataclass(frozen=True)
class OwnerSpan:
    """A time in which one member owned a partition."""

    start: float
    width: float
    colour: int
    owner: str
    tip: str


@dataclass(frozen=True)
class OwnerLane:
    """The owners of a partition."""

    partition: str
    spans: tuple[OwnerSpan, ...]
    newest: str
    """The owner at the end of the chart."""


@dataclass(frozen=True)
class OwnerChart:
    """The owners of the partitions of a group."""

    group_id: str
    axis: TimeAxis
    lanes: list[OwnerLane]
    partitions: int
    owners: list[tuple[int, str]]
    """Colour and name of each owner, as far as the colours go."""
    changes: int


def owner_charts(
    reader: TableReader, groups: Mapping[str, GroupRow], rebalances: Rebalances
) -> list[OwnerChart]:
    """Return a chart for each of the most interesting groups.

    Groups with a problem come first, then those with a warning, then those with the
    most rebalances, then those with the most changes of owners.
    """
    rows = reader.table("partition_ownership_history", ("group_id",))
    counts = rows.group_by("group_id").aggregate([([], "count_all")]).to_pylist()
    moves = {row["group_id"]: row["count_all"] for row in counts}
    times = Counter(row["group_id"] for row in rebalances.rows)
    levels = {"bad": 0, "warn": 1}
    chosen = sorted(
        (group for group in moves if group in groups),
        key=lambda g: (levels.get(groups[g].level, 2), -times[g], -moves[g], g),
    )[:CHARTS_MAX]
    columns = (
        "group_id",
        "topic",
        "topic_id",
        "partition",
        "member_id",
        "client_id",
        "client_host",
        "valid_from",
        "valid_to",
        "end_reason",
    )
    table = reader.table("partition_ownership_history", columns, of_groups(chosen))
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in table.sort_by([("valid_from", "ascending")]).to_pylist():
        topic = row["topic"] or row["topic_id"]
        row["partition"] = (visible(topic), row["partition"])
        by_group[row["group_id"]].append(row)
    return [owner_chart(group, by_group[group], reader.as_of) for group in chosen]


def owner_chart(group: str, rows: Sequence[Row], now: datetime) -> OwnerChart:
    """Return the chart of one group from its ownership intervals, oldest first."""
    rows = rows[-_CHANGES_MAX:] if len(rows) > _CHANGES_MAX else rows
    axis = TimeAxis(epoch_ms(rows[0]["valid_from"]), epoch_ms(now))
    labels = _owner_labels(rows)
    colours = {each: index for index, each in enumerate(labels.values())}
    partitions: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        partitions[row["partition"]].append(row)
    most = sorted(partitions, key=lambda part: (-len(partitions[part]), part))
    lanes = []
    for part in sorted(most[:LANES_MAX]):
        spans = [
            _owner_span(axis, row, labels[row["member_id"]], colours, now)
            for row in partitions[part]
        ]
        is_open = partitions[part][-1]["valid_to"] is None
        newest = spans[-1].owner if is_open else "none"
        lanes.append(OwnerLane(f"{part[0]}-{part[1]}", tuple(spans), newest))
    legend = [(colour % COLOURS, owner) for owner, colour in colours.items()]
    return OwnerChart(group, axis, lanes, len(partitions), legend, len(rows))


def _owner_labels(rows: Iterable[Row]) -> dict[str, str]:
    """Return a label for each member: its client ID, or its member ID when several
    members have the same client ID.
    """
    clients = {row["member_id"]: row["client_id"] for row in rows}
    times = Counter(clients.values())
    return {
        member: visible(client if client and times[client] == 1 else member)
        for member, client in clients.items()
    }


def _owner_span(
    axis: TimeAxis, row: Row, owner: str, colours: Mapping[str, int], now: datetime
) -> OwnerSpan:
    start = axis.at(epoch_ms(row["valid_from"]))
    end = axis.at(epoch_ms(row["valid_to"] or now))
    until = f"until {moment(row['valid_to'])} UTC" if row["valid_to"] else "until now"
    host = visible(row["client_host"] or "an unknown host")
    tip = f"{owner} on {host}, from {moment(row['valid_from'])} {until}"
    if row["valid_to"]:
        tip += f", ended: {row['end_reason'].replace('_', ' ')}"
    return OwnerSpan(start, round(end - start, 2), colours[owner] % COLOURS, owner, tip)
