"""The groups of a report: how each one is, the worst first; and its topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias

import pyarrow.compute as pc

from coterie.pipeline.report.facts import Facts, of_groups
from coterie.pipeline.report.rows import Ask
from coterie.pipeline.report.texts import span

GROUPS_MAX: Final = 200
"""Rows of the table of groups; a group further down is better off than all of them."""
TOPICS_MAX: Final = 100
_TREND: Final = 30
"""Samples in a small picture of lag."""
Row: TypeAlias = dict[str, Any]
_PARTITION: Final = ("group_id", "topic", "partition")
_LAG: Final = (
    *_PARTITION,
    "sample_ts",
    "lag",
    "time_lag_ms",
    "time_lag_method",
    "eta_s",
    "messages_lost",
    "retention_margin_offsets",
)


@dataclass
class GroupRow:
    """A group, all its partitions together."""

    group_id: str
    group_type: str = ""
    state: str = ""
    verdict: str = ""
    rule: str = ""
    members: int = 0
    lag: int | None = None
    time_lag_ms: int | None = None
    is_time_lag_bound: bool = False
    """It is at least so much."""
    eta_s: float | None = None
    margin: int | None = None
    messages_lost: int = 0
    last_commit: datetime | None = None
    worst_partition: str = ""
    topics: set[str] = field(default_factory=set)
    trend: list[int] = field(default_factory=list)
    """Its lag, sample after sample."""

    @property
    def level(self) -> str:
        """How bad it is: "", "warn" or "bad"."""
        return {"": "", "OK": "", "WARN": "warn"}.get(self.verdict, "bad")

    @property
    def rank(self) -> tuple[int, int, str]:
        """The worst first."""
        levels = ("bad", "warn", "")
        return levels.index(self.level), -(self.lag or 0), self.group_id

    @property
    def time_lag(self) -> str:
        """Its time lag as people say it."""
        return ("≥ " if self.is_time_lag_bound else "") + span(self.time_lag_ms)

    @property
    def points(self) -> str:
        """Its trend as the points of a line in a box of 100 by 20."""
        if len(self.trend) < 2 or not (top := max(self.trend)):
            return ""
        step = 100 / (len(self.trend) - 1)
        return " ".join(
            f"{at * step:.1f},{19 - 18 * each / top:.1f}"
            for at, each in enumerate(self.trend)
        )


def all_groups(facts: Facts, lags: Iterable[Row]) -> list[GroupRow]:
    """Every group, the worst first, with these newest samples."""
    found = {each["group_id"]: _row(each) for each in facts.rows(*_GROUPS)}
    for group, samples in by_group(lags).items():
        _add_lag(found.setdefault(group, GroupRow(group)), samples)
    for each in _verdicts(facts):
        row = found.setdefault(each["group_id"], GroupRow(each["group_id"]))
        row.verdict, row.rule = each["verdict"], each["rule"]
    return sorted(found.values(), key=lambda each: each.rank)


def by_group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by their group."""
    found: dict[str, list[Row]] = defaultdict(list)
    for each in rows:
        found[each["group_id"]].append(each)
    return found


_GROUPS: Final = (
    "current_groups",
    ("group_id", "group_type", "state", "member_count", "last_commit_ts"),
)


def _row(group: Row) -> GroupRow:
    return GroupRow(
        group["group_id"],
        group["group_type"],
        group["state"],
        members=group["member_count"],
        last_commit=group["last_commit_ts"],
    )


def newest_lags(facts: Facts) -> list[Row]:
    """The newest sample of each group's partitions."""
    ask = Ask(
        "lag_history",
        (("sample_ts", "descending"),),
        where=facts.recent("lag_history", "sample_ts"),
        first_of=_PARTITION,
        columns=_LAG,
    )
    return facts.first(ask)[0]


def _verdicts(facts: Facts) -> list[Row]:
    ask = Ask(
        "group_status",
        (("window_end_ts", "descending"),),
        where=pc.field("topic").is_null(),
        first_of=("group_id",),
        columns=("group_id", "window_end_ts", "verdict", "rule"),
    )
    return facts.first(ask)[0]


def _add_lag(row: GroupRow, samples: list[Row]) -> None:
    row.topics = {each["topic"] for each in samples}
    row.messages_lost = sum(each["messages_lost"] for each in samples)
    if known := [each for each in samples if each["lag"] is not None]:
        worst = max(known, key=lambda each: each["lag"])
        row.worst_partition = f"{worst['topic']}-{worst['partition']}"
        row.lag = sum(each["lag"] for each in known)
    if timed := [each for each in samples if each["time_lag_ms"] is not None]:
        latest = max(timed, key=lambda each: each["time_lag_ms"])
        row.time_lag_ms = latest["time_lag_ms"]
        row.is_time_lag_bound = latest["time_lag_method"] == "extrapolated"
    row.eta_s = max(_known(samples, "eta_s"), default=None)
    row.margin = min(_known(samples, "retention_margin_offsets"), default=None)


def _known(samples: list[Row], column: str) -> list[Any]:
    return [each[column] for each in samples if each[column] is not None]


def add_trends(facts: Facts, rows: list[GroupRow]) -> None:
    """Give each group its lag over the last samples."""
    groups = {each.group_id: each for each in rows}
    where = of_groups(groups, facts.recent("lag_history", "sample_ts"))
    columns = ("group_id", "sample_ts", "lag")
    table = facts.table("lag_history", columns, where)
    summed = table.group_by(["group_id", "sample_ts"]).aggregate([("lag", "sum")])
    for each in summed.sort_by("sample_ts").to_pylist():
        groups[each["group_id"]].trend.append(each["lag_sum"] or 0)
    for row in rows:
        row.trend = row.trend[-_TREND:]


@dataclass
class TopicRow:
    """A topic as its groups see it."""

    topic: str
    groups: int = 0
    active: int = 0
    """Groups with members."""
    lag: int = 0
    messages_lost: int = 0


def topics_of(groups: list[GroupRow], lags: Iterable[Row]) -> list[TopicRow]:
    """Topics that groups have offsets of; those without an active group first."""
    found: dict[str, TopicRow] = {}
    for group in groups:
        for topic in group.topics:
            row = found.setdefault(topic, TopicRow(topic))
            row.groups += 1
            row.active += bool(group.members)
    for each in lags:
        row = found[each["topic"]]
        row.lag += each["lag"] or 0
        row.messages_lost += each["messages_lost"]
    return sorted(found.values(), key=lambda each: (each.active > 0, -each.lag))
