"""The tables, lists and key figures of a report, computed from a lake's tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

import pyarrow.compute as pc

from coterie.pipeline.lake.query import TableQuery, TableReader, is_one_of
from coterie.pipeline.report.texts import NO_VALUE, count, delete_command, span, visible

Row: TypeAlias = dict[str, Any]
GROUPS_MAX: Final = 200
"""Rows of the table of groups; the groups with the most serious problems come first."""
TOPICS_MAX: Final = 100
LIST_MAX: Final = 50
"""Rows of the lists of expiring offsets and stale groups."""
USERS_MAX: Final = 8
"""Groups in the usage chart; the others are added up."""
_USAGE_DAYS: Final = 14
_TREND_SAMPLES: Final = 30
_PARTITION_KEY: Final = ("group_id", "topic", "partition")


# Groups.


@dataclass
class GroupRow:
    """A group with the sums and extremes of its partitions."""

    group_id: str
    group_type: str = ""
    state: str = ""
    verdict: str = ""
    rule: str = ""
    members: int = 0
    lag: int | None = None
    time_lag_ms: int | None = None
    is_lower_bound: bool = False
    """Whether the time lag was extrapolated and may be larger."""
    eta_s: float | None = None
    margin: int | None = None
    messages_lost: int = 0
    last_commit: datetime | None = None
    worst_partition: str = ""
    topics: set[str] = field(default_factory=set)
    trend: list[int] = field(default_factory=list)
    """The group's lag at its last samples."""

    @property
    def level(self) -> str:
        """The severity of the verdict: "", "warn" or "bad"."""
        return {"": "", "OK": "", "WARN": "warn"}.get(self.verdict, "bad")

    @property
    def time_lag(self) -> str:
        return ("≥ " if self.is_lower_bound else "") + span(self.time_lag_ms)

    @property
    def trend_points(self) -> str:
        """The trend as points of an SVG polyline in a box of 100 by 20."""
        if len(self.trend) < 2 or not (top := max(self.trend)):
            return ""
        step = 100 / (len(self.trend) - 1)
        return " ".join(
            f"{index * step:.1f},{19 - 18 * lag / top:.1f}"
            for index, lag in enumerate(self.trend)
        )


def newest_lags(reader: TableReader) -> list[Row]:
    """Return the newest lag sample of each partition of each group."""
    query = TableQuery(
        "lag_history",
        (("sample_ts", "descending"),),
        where=reader.recent("lag_history", "sample_ts"),
        first_of=_PARTITION_KEY,
        columns=(
            *_PARTITION_KEY,
            "sample_ts",
            "lag",
            "time_lag_ms",
            "time_lag_method",
            "eta_s",
            "messages_lost",
            "retention_margin_offsets",
        ),
    )
    return reader.query(query)[0]


def all_groups(reader: TableReader, lags: Iterable[Row]) -> list[GroupRow]:
    """Return every group, the most serious problems first."""
    columns = ("group_id", "group_type", "state", "member_count", "last_commit_ts")
    groups = {
        row["group_id"]: GroupRow(
            row["group_id"],
            row["group_type"],
            row["state"],
            members=row["member_count"],
            last_commit=row["last_commit_ts"],
        )
        for row in reader.rows("current_groups", columns)
    }
    samples: dict[str, list[Row]] = defaultdict(list)
    for sample in lags:
        samples[sample["group_id"]].append(sample)
    for group_id, of_group in samples.items():
        _set_lag(groups.setdefault(group_id, GroupRow(group_id)), of_group)
    verdicts = TableQuery(
        "group_status",
        (("window_end_ts", "descending"),),
        where=pc.field("topic").is_null(),  # row of the whole group
        first_of=("group_id",),
        columns=("group_id", "window_end_ts", "verdict", "rule"),
    )
    for row in reader.query(verdicts)[0]:
        group = groups.setdefault(row["group_id"], GroupRow(row["group_id"]))
        group.verdict, group.rule = row["verdict"], row["rule"]
    levels = ("bad", "warn", "")
    return sorted(
        groups.values(),
        key=lambda group: (
            levels.index(group.level),
            -(group.lag or 0),
            group.group_id,
        ),
    )


def _set_lag(group: GroupRow, samples: list[Row]) -> None:
    group.topics = {sample["topic"] for sample in samples}
    group.messages_lost = sum(sample["messages_lost"] for sample in samples)
    if known := [sample for sample in samples if sample["lag"] is not None]:
        worst = max(known, key=lambda sample: sample["lag"])
        group.worst_partition = f"{worst['topic']}-{worst['partition']}"
        group.lag = sum(sample["lag"] for sample in known)
    if timed := [sample for sample in samples if sample["time_lag_ms"] is not None]:
        latest = max(timed, key=lambda sample: sample["time_lag_ms"])
        group.time_lag_ms = latest["time_lag_ms"]
        group.is_lower_bound = latest["time_lag_method"] == "extrapolated"
    group.eta_s = max(_values(samples, "eta_s"), default=None)
    group.margin = min(_values(samples, "retention_margin_offsets"), default=None)


def _values(samples: list[Row], column: str) -> list[Any]:
    return [each[column] for each in samples if each[column] is not None]


def add_trends(reader: TableReader, groups: list[GroupRow]) -> None:
    """Set the trend of each group from its last lag samples."""
    by_id = {group.group_id: group for group in groups}
    where = of_groups(by_id, reader.recent("lag_history", "sample_ts"))
    table = reader.table("lag_history", ("group_id", "sample_ts", "lag"), where)
    sums = table.group_by(["group_id", "sample_ts"]).aggregate([("lag", "sum")])
    for row in sums.sort_by("sample_ts").to_pylist():
        by_id[row["group_id"]].trend.append(row["lag_sum"] or 0)
    for group in groups:
        group.trend = group.trend[-_TREND_SAMPLES:]


def of_groups(groups: Iterable[str], also: Any = None) -> Any:
    """Return the condition that a row belongs to one of these groups and that `also` is
    true.
    """
    condition = is_one_of("group_id", sorted(groups))
    return condition if also is None else condition & also


@dataclass
class TopicRow:
    """A topic with the sums of its groups."""

    topic: str
    groups: int = 0
    active: int = 0
    """Groups with members."""
    lag: int = 0
    messages_lost: int = 0


def topics_of(groups: list[GroupRow], lags: Iterable[Row]) -> list[TopicRow]:
    """Return the topics with committed offsets; topics without active groups come
    first.
    """
    topics: dict[str, TopicRow] = {}
    for group in groups:
        for name in group.topics:
            topic = topics.setdefault(name, TopicRow(name))
            topic.groups += 1
            topic.active += bool(group.members)
    for sample in lags:
        topic = topics[sample["topic"]]
        topic.lag += sample["lag"] or 0
        topic.messages_lost += sample["messages_lost"]
    return sorted(topics.values(), key=lambda topic: (topic.active > 0, -topic.lag))


# Lists.


def expiring_offsets(reader: TableReader) -> tuple[list[Row], int]:
    """Return the next offsets to expire, and the total number of offsets that will
    expire.
    """
    query = TableQuery(
        "expiry_forecast",
        (("expires_ts", "ascending"), ("group_id", "ascending")),
        where=pc.field("expires_ts").is_valid(),
        limit=LIST_MAX,
    )
    return reader.query(query)


def stale_groups(reader: TableReader) -> tuple[list[Row], int]:
    """Return the groups that can be deleted, highest score first, and their number.

    The row of a group without a blocker has the command that deletes the group.
    """
    query = TableQuery(
        "stale_group_candidates",
        (("score", "descending"), ("group_id", "ascending")),
        where=pc.field("class") != "keep",
        limit=LIST_MAX,
    )
    rows, total = reader.query(query)
    for row in rows:
        is_blocked = bool(row["blockers"])
        row["command"] = None if is_blocked else delete_command(row["group_id"])
    return rows, total


def coordinator_load(reader: TableReader) -> list[Row]:
    """Return the load of each partition of the coordinator's log, for a chart."""
    columns = ("log_partition", "broker_id", "groups", "commits_per_s", "top_group_id")
    return [
        {
            "partition": row["log_partition"],
            "broker": "unknown" if row["broker_id"] is None else str(row["broker_id"]),
            "groups": row["groups"],
            "rate": row["commits_per_s"],
            "top": visible(row["top_group_id"] or "none"),
        }
        for row in reader.rows("coordinator_load", columns)
    ]


def daily_usage(reader: TableReader) -> list[Row]:
    """Return the daily usage of the largest groups, and the sum of all others."""
    columns = ("day", "group_id", "offsets_consumed", "commits", "log_bytes_written")
    table = reader.table("group_usage_daily", columns)
    if not len(table):
        return []
    first_day = pc.max(table["day"]).as_py() - timedelta(days=_USAGE_DAYS - 1)
    table = table.filter(pc.field("day") >= first_day)
    totals = table.group_by("group_id").aggregate([("offsets_consumed", "sum")])
    order = [("offsets_consumed_sum", "descending"), ("group_id", "ascending")]
    largest = set(totals.sort_by(order)["group_id"][:USERS_MAX].to_pylist())
    days: dict[tuple[str, str], Row] = {}
    for each in table.to_pylist():
        is_large = each["group_id"] in largest
        name = visible(each["group_id"]) if is_large else "all others"
        key = each["day"].isoformat(), name
        row = days.setdefault(
            key, {"day": key[0], "group": name, "consumed": 0, "commits": 0, "bytes": 0}
        )
        row["consumed"] += each["offsets_consumed"]
        row["commits"] += each["commits"]
        row["bytes"] += each["log_bytes_written"]
    return [days[key] for key in sorted(days)]


def data_quality(reader: TableReader) -> Row:
    """Return the sums of missing and undecodable records over all log partitions."""
    columns = ("records", "quarantined", "gaps", "missing_offsets", "held_back")
    table = reader.table("data_quality", columns)
    return {each: pc.sum(table[each]).as_py() or 0 for each in columns}


# Key figures.


@dataclass(frozen=True)
class Tile:
    """A key figure with its severity: "", "warn" or "bad"."""

    name: str
    title: str
    value: str
    about: str
    level: str = ""


def tiles(reader: TableReader, groups: list[GroupRow], stale: int) -> list[Tile]:
    def counted(name: str, title: str, value: int, about: str, level: str) -> Tile:
        return Tile(name, title, count(value), about, level if value else "")

    day_ago = reader.as_of - timedelta(days=1)
    in_storm = pc.field("storm_id").is_valid() & (pc.field("start_ts") >= day_ago)
    storm_columns = ("group_id", "storm_id")
    stormy = reader.rows("rebalance_timeline", storm_columns, in_storm)
    storms = len({(row["group_id"], row["storm_id"]) for row in stormy})
    soon = pc.field("expires_ts") <= reader.as_of + timedelta(days=1)
    expiring = len(reader.table("expiry_forecast", ("group_id",), soon))
    lost = sum(group.messages_lost for group in groups)
    bad = sum(group.level == "bad" for group in groups)
    warned = sum(group.level == "warn" for group in groups)
    # The number of groups by type and state, such as "3 classic, 1 Empty".
    types = Counter(group.group_type for group in groups if group.group_type)
    states = Counter(group.state for group in groups if group.state)
    numbers = ", ".join(
        f"{count(number)} {name}"
        for name, number in (*types.most_common(), *states.most_common())
    )
    time_lag = Tile("late", "Worst time lag", NO_VALUE, "unknown")
    if late := [group for group in groups if group.time_lag_ms is not None]:
        worst = max(late, key=lambda group: group.time_lag_ms or 0)
        time_lag = Tile(
            "late", "Worst time lag", worst.time_lag, visible(worst.group_id)
        )
    return [
        Tile("groups", "Groups", count(len(groups)), numbers),
        Tile(
            "trouble",
            "Groups with problems",
            count(bad),
            f"{count(warned)} more with a warning",
            "bad" if bad else "warn" if warned else "",
        ),
        time_lag,
        counted("storms", "Storms in 24 h", storms, "rebalance storms", "warn"),
        counted("expiring", "Expire in 24 h", expiring, "committed offsets", "warn"),
        Tile("stale", "Stale groups", count(stale), "candidates for deletion"),
        counted("lost", "Records lost", lost, "deleted before consumption", "bad"),
    ]
