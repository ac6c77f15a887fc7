"""Key figures, tables and lists of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow.compute as pc

from coterie.pipeline.lake.query import TableQuery, TableReader
from coterie.pipeline.report.attention import Expiry, Storm
from coterie.pipeline.report.charts import COLOURS, Tick, nice_bound
from coterie.pipeline.report.groups import GroupRow, Row, of_groups, worst_time_lag
from coterie.pipeline.report.texts import (
    UNKNOWN,
    count,
    delete_command,
    plural,
    short_name,
    span,
)

LIST_MAX: Final = 40
"""Groups in the lists of expiring offsets and of stale groups."""
USERS_MAX: Final = COLOURS - 1
"""Groups in the usage chart; the others are added up."""
_USAGE_DAYS: Final = 14
_NAMES_MAX: Final = 3


# Topics.


@dataclass
class TopicRow:
    """A topic with the sums of its groups."""

    topic: str
    groups: int = 0
    active: int = 0
    """Groups with members."""
    lag: int | None = None
    messages_lost: int = 0


def topics_of(groups: Mapping[str, GroupRow], lags: Iterable[Row]) -> list[TopicRow]:
    """Return the topics with samples; those with the largest lag come first."""
    topics: dict[str, TopicRow] = {}
    for group in groups.values():
        for name in group.topics:
            topic = topics.setdefault(name, TopicRow(name))
            topic.groups += 1
            topic.active += bool(group.members)
    for sample in lags:
        if sample["group_id"] in groups:
            topic = topics[sample["topic"]]
            topic.messages_lost += sample["messages_lost"]
            if sample["lag"] is not None:
                topic.lag = (topic.lag or 0) + sample["lag"]
    return sorted(topics.values(), key=lambda topic: (-(topic.lag or -1), topic.topic))


# Expiring offsets.


@dataclass
class ExpiryRow:
    """The offsets of a group that will expire, the next one first."""

    group_id: str
    first: datetime
    remaining_ms: int
    offsets: int = 0
    soon: int = 0
    """Offsets that expire within a day."""
    at_risk: int = 0
    at_risk_soon: int = 0
    traps: int = 0
    """Offsets that would expire as soon as the last member leaves."""
    topics: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def topics_text(self) -> str:
        """The topics with most of the offsets, and their numbers of partitions."""
        names = [
            f"{short_name(topic, 28)} ({number})"
            for topic, number in self.topics.most_common(_NAMES_MAX)
        ]
        rest = len(self.topics) - len(names)
        return ", ".join(names) + (f", {plural(rest, 'more topic')}" if rest else "")

    @property
    def note(self) -> str:
        """The most frequent explanation."""
        return self.notes.most_common(1)[0][0] if self.notes else ""


def expiring_offsets(reader: TableReader, groups: Collection[str]) -> list[ExpiryRow]:
    """Return the groups with offsets that will expire, the next to expire first."""
    columns = (
        "group_id",
        "topic",
        "expires_ts",
        "remaining_ms",
        "at_risk_messages",
        "is_trap",
        "note",
    )
    query = TableQuery(
        "expiry_forecast",
        (("expires_ts", "ascending"), ("group_id", "ascending")),
        where=pc.field("expires_ts").is_valid(),
        columns=columns,
    )
    soonest = reader.as_of + timedelta(days=1)
    rows: dict[str, ExpiryRow] = {}
    for each in reader.query(query)[0]:
        if (name := each["group_id"]) not in groups:
            continue
        first = ExpiryRow(name, each["expires_ts"], each["remaining_ms"] or 0)
        row = rows.setdefault(name, first)
        risk = each["at_risk_messages"] or 0
        row.offsets += 1
        row.at_risk += risk
        row.traps += each["is_trap"]
        row.topics[each["topic"]] += 1
        if each["note"]:
            row.notes[each["note"]] += 1
        if each["expires_ts"] <= soonest:
            row.soon += 1
            row.at_risk_soon += risk
    return list(rows.values())


def soon_expiring(rows: Iterable[ExpiryRow]) -> dict[str, Expiry]:
    """Return the groups with offsets that expire within a day."""
    return {
        row.group_id: Expiry(row.soon, row.remaining_ms, row.at_risk_soon)
        for row in rows
        if row.soon
    }


# Other lists and charts.


def stale_groups(reader: TableReader, groups: Collection[str]) -> tuple[list[Row], int]:
    """Return the groups that can be deleted, highest score first, and their number.

    The row of a group without a blocker has the command that deletes the group.
    """
    query = TableQuery(
        "stale_group_candidates",
        (("score", "descending"), ("group_id", "ascending")),
        where=of_groups(groups, pc.field("class") != "keep"),
        limit=LIST_MAX,
    )
    rows, total = reader.query(query)
    for row in rows:
        is_blocked = bool(row["blockers"])
        row["command"] = None if is_blocked else delete_command(row["group_id"])
    return rows, total


@dataclass(frozen=True)
class Bar:
    """A bar of a chart: its parts from bottom to top, each a colour and a height."""

    name: str
    parts: tuple[tuple[int, float], ...]
    tip: str


@dataclass(frozen=True)
class BarChart:
    """Bars side by side, with the value at the top of the axis."""

    bars: tuple[Bar, ...]
    top: float
    legend: tuple[tuple[int, str], ...] = ()

    @property
    def ticks(self) -> list[Tick]:
        """The names below the bars, as many as there is room for."""
        number = len(self.bars)
        is_short = all(len(bar.name) < 4 for bar in self.bars)
        step = -(-number // (8 if is_short else 4)) or 1
        return [
            Tick((at + 0.5) / number * 100, self.bars[at].name)
            for at in range(0, number, step)
        ]


def coordinator_load(reader: TableReader) -> tuple[BarChart, list[Row]]:
    """Return the load of each partition of the coordinator's log, as a chart and as
    rows, the highest load first.
    """
    columns = (
        "log_partition",
        "broker_id",
        "groups",
        "commits",
        "commits_per_s",
        "top_group_id",
        "top_group_share",
    )
    rows = sorted(
        reader.rows("coordinator_load", columns), key=lambda row: row["log_partition"]
    )
    top = nice_bound(max((row["commits_per_s"] for row in rows), default=0))
    bars = [
        Bar(
            str(row["log_partition"]),
            ((0, round(row["commits_per_s"] / top * 100, 1)),),
            f"partition {row['log_partition']}: {row['commits_per_s']:.3g} commits/s,"
            f" {plural(row['groups'], 'group')}",
        )
        for row in rows
    ]
    busiest = sorted(rows, key=lambda row: -row["commits_per_s"])
    return BarChart(tuple(bars), top), busiest


def daily_usage(reader: TableReader, groups: Collection[str]) -> BarChart:
    """Return the offsets consumed per day by the largest groups and all others."""
    columns = ("day", "group_id", "offsets_consumed")
    table = reader.table("group_usage_daily", columns)
    if not len(table):
        return BarChart((), 1)
    first_day = pc.max(table["day"]).as_py() - timedelta(days=_USAGE_DAYS - 1)
    table = table.filter(pc.field("day") >= first_day)
    sums = table.group_by(["day", "group_id"]).aggregate([("offsets_consumed", "sum")])
    totals: Counter[str] = Counter()
    days: dict[Any, Counter[str]] = {}
    for row in sums.sort_by(
        [("day", "ascending"), ("group_id", "ascending")]
    ).to_pylist():
        totals[row["group_id"]] += row["offsets_consumed_sum"]
        days.setdefault(row["day"], Counter())[row["group_id"]] += row[
            "offsets_consumed_sum"
        ]
    largest = [group for group, _ in totals.most_common(USERS_MAX)]
    top = nice_bound(max(day.total() for day in days.values()))
    bars = []
    for day, used in days.items():
        values = [used[group] for group in largest]
        values.append(day_rest := used.total() - sum(values))
        parts = [
            (index, round(value / top * 100, 1)) for index, value in enumerate(values)
        ]
        if not day_rest:
            parts.pop()
        text = f"{day}: {plural(used.total(), 'offset')} consumed"
        bars.append(Bar(f"{day:%d %b}", tuple(parts), text))
    legend = [
        (index, short_name(group) + ("" if group in groups else " (gone)"))
        for index, group in enumerate(largest)
    ]
    if len(totals) > len(largest):
        legend.append((USERS_MAX, "all others"))
    return BarChart(tuple(bars), top, tuple(legend))


def data_quality(reader: TableReader) -> Row:
    """Return the sums of missing and undecodable records over all log partitions."""
    columns = ("records", "quarantined", "gaps", "missing_offsets", "held_back")
    table = reader.table("data_quality", columns)
    return {each: pc.sum(table[each]).as_py() or 0 for each in columns}


# Key figures.


@dataclass(frozen=True)
class Tile:
    """A key figure with its meaning and its severity: "", "warn" or "bad"."""

    name: str
    title: str
    value: str
    about: str
    level: str = ""


def tiles(
    groups: Sequence[GroupRow],
    storms: Mapping[str, Storm],
    expiries: Mapping[str, Expiry],
    stale: int,
) -> list[Tile]:
    lost = sum(group.messages_lost for group in groups)
    losers = sum(bool(group.messages_lost) for group in groups)
    expiring = sum(each.offsets for each in expiries.values())
    return [
        _groups_tile(groups),
        _attention_tile(groups),
        _lag_tile(groups),
        _time_lag_tile(groups),
        Tile(
            "lost",
            "Records lost",
            count(lost),
            "deleted by a topic's retention before a group read them"
            + (f"; {plural(losers, 'group')} affected" if lost else ""),
            "bad" if lost else "",
        ),
        Tile(
            "storms",
            "Storms in 24 h",
            count(len(storms)),
            "groups whose members left and joined so often that they hardly read",
            "warn" if storms else "",
        ),
        Tile(
            "expiring",
            "Expire within 24 h",
            count(expiring),
            f"committed offsets of {plural(len(expiries), 'group')}; without its offset"
            " a group starts again at one end of the partition"
            if expiring
            else "committed offsets that the broker will delete",
            "warn" if expiring else "",
        ),
        Tile(
            "stale",
            "Stale groups",
            count(stale),
            "groups that seem unused and can probably be deleted",
        ),
    ]


def _groups_tile(groups: Sequence[GroupRow]) -> Tile:
    types = Counter(group.group_type for group in groups if group.group_type)
    empty = sum(not group.members for group in groups)
    kinds = ", ".join(f"{count(number)} {name}" for name, number in types.most_common())
    about = f"exist: {kinds}; {count(empty)} without members" if groups else "exist"
    return Tile("groups", "Groups", count(len(groups)), about)


def _attention_tile(groups: Sequence[GroupRow]) -> Tile:
    bad = sum(group.level == "bad" for group in groups)
    warned = sum(group.level == "warn" for group in groups)
    about = f"{plural(bad, 'problem')}, {plural(warned, 'warning')}"
    level = "bad" if bad else "warn" if warned else ""
    return Tile("trouble", "Need attention", count(bad + warned), about, level)


def _lag_tile(groups: Sequence[GroupRow]) -> Tile:
    known = [group.lag for group in groups if group.lag is not None]
    unknown = len(groups) - len(known)
    about = "written to topics, but not yet read by a group"
    if unknown and groups:
        about += f"; unknown for {plural(unknown, 'group')}"
    return Tile("lag", "Records behind", count(sum(known)) if known else UNKNOWN, about)


def _time_lag_tile(groups: Sequence[GroupRow]) -> Tile:
    worst, unknown = worst_time_lag(groups)
    if worst is None:
        about = "needs at least two samples of the ends of partitions"
        return Tile("late", "Worst time lag", UNKNOWN, about)
    about = "age of the oldest record that a group still has to read"
    if worst.time_lag_ms:
        about += f": {short_name(worst.group_id, 28)}"
    if unknown:
        about += f"; unknown for {plural(unknown, 'group')}"
    bound = "≥ " if worst.is_lower_bound or unknown else ""
    value = f"{bound}{span(worst.time_lag_ms)}"
    return Tile("late", "Worst time lag", value, about)
