"""The groups of a lake, with the sums and extremes of their partitions.

A group exists when `current_groups` has it, and a partition belongs to it when
`current_offsets` has it. Histories also have rows of groups and offsets that were
deleted or have expired; they count nowhere in the state of today.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias

import pyarrow.compute as pc

from coterie.pipeline.lake.query import TableQuery, TableReader, is_one_of
from coterie.pipeline.report.texts import UNKNOWN, count, span

Row: TypeAlias = dict[str, Any]
PARTITION_KEY: Final = ("group_id", "topic", "partition")
HAS_OFFSET: Final = pc.field("committed_offset").is_valid()
"""The condition on rows of current_offsets that are no commit of a negative offset."""
LEVELS: Final = ("bad", "warn", "ok", "none")
"""Severities of groups, the most serious first; "none" is a group without a verdict."""


@dataclass
class GroupRow:
    """A group that exists."""

    group_id: str
    group_type: str = ""
    state: str = ""
    members: int = 0
    last_commit: datetime | None = None
    empty_since: datetime | None = None
    verdict: str = ""
    rule: str = ""
    evaluated: datetime | None = None
    """The time of the verdict."""
    troubles: list[Row] = field(default_factory=list)
    """The newest verdicts on its partitions, without OK."""
    partitions: int = 0
    """Partitions with a committed offset."""
    lag: int | None = None
    unsampled: int = 0
    """Partitions with a committed offset whose lag is unknown."""
    time_lag_ms: int | None = None
    is_lower_bound: bool = False
    """Whether the time lag may be larger."""
    eta_s: float | None = None
    messages_lost: int = 0
    topics: set[str] = field(default_factory=set)
    level: str = "none"
    """The severity, one of LEVELS."""
    reasons: list[str] = field(default_factory=list)
    """Sentences that explain the severity."""

    @property
    def lag_text(self) -> str:
        if self.lag is None:
            return UNKNOWN
        return f"≥ {count(self.lag)}" if self.unsampled else count(self.lag)

    @property
    def time_lag(self) -> str:
        if self.time_lag_ms is None:
            return UNKNOWN
        return ("≥ " if self.is_lower_bound else "") + span(self.time_lag_ms)

    @property
    def is_troubled(self) -> bool:
        return self.level in {"bad", "warn"}


def of_groups(groups: Iterable[str], also: Any = None) -> Any:
    """Return the condition that a row belongs to one of these groups and that `also` is
    true.
    """
    condition = is_one_of("group_id", sorted(groups))
    return condition if also is None else condition & also


def existing_groups(reader: TableReader) -> dict[str, GroupRow]:
    """Return every group that exists, with its lag and its verdict, by its ID."""
    columns = (
        "group_id",
        "group_type",
        "state",
        "member_count",
        "last_commit_ts",
        "empty_since_ts",
    )
    groups = {
        row["group_id"]: GroupRow(
            row["group_id"],
            row["group_type"],
            row["state"],
            row["member_count"],
            row["last_commit_ts"],
            row["empty_since_ts"],
        )
        for row in reader.rows("current_groups", columns)
    }
    offsets = reader.table("current_offsets", ("group_id",), HAS_OFFSET)
    for row in _counts(offsets):
        if group := groups.get(row["group_id"]):
            group.partitions = row["count_all"]
    _add_verdicts(reader, groups)
    return groups


def _counts(table: Any) -> list[Row]:
    rows: list[Row] = (
        table.group_by("group_id").aggregate([([], "count_all")]).to_pylist()
    )
    return rows


def gone_groups(reader: TableReader, groups: Iterable[str]) -> list[str]:
    """Return the groups of the histories that no longer exist."""
    known = set(groups)
    gone: set[str] = set()
    for table in ("lag_history", "group_status", "rebalance_timeline"):
        ids = reader.table(table, ("group_id",))["group_id"]
        gone.update(each for each in pc.unique(ids).to_pylist() if each not in known)
    return sorted(gone)


def newest_lags(reader: TableReader) -> list[Row]:
    """Return the newest lag sample of each partition with a committed offset."""
    query = TableQuery(
        "lag_history",
        (("sample_ts", "descending"),),
        where=reader.recent("lag_history", "sample_ts"),
        first_of=PARTITION_KEY,
        columns=(
            *PARTITION_KEY,
            "sample_ts",
            "lag",
            "time_lag_ms",
            "time_lag_method",
            "eta_s",
            "messages_lost",
        ),
    )
    offsets = reader.rows("current_offsets", PARTITION_KEY, HAS_OFFSET)
    current = {tuple(row[each] for each in PARTITION_KEY) for row in offsets}
    rows, _ = reader.query(query)
    return [
        row for row in rows if tuple(row[each] for each in PARTITION_KEY) in current
    ]


def add_lags(groups: dict[str, GroupRow], lags: Iterable[Row]) -> None:
    """Set the lag of each group from the newest samples of its partitions."""
    samples: dict[str, list[Row]] = defaultdict(list)
    for sample in lags:
        samples[sample["group_id"]].append(sample)
    for group_id, of_group in samples.items():
        if group := groups.get(group_id):
            _set_lag(group, of_group)
    for group in groups.values():
        if group.lag is None:
            group.unsampled = group.partitions


def _set_lag(group: GroupRow, samples: list[Row]) -> None:
    group.topics = {sample["topic"] for sample in samples}
    group.messages_lost = sum(sample["messages_lost"] for sample in samples)
    known = [sample for sample in samples if sample["lag"] is not None]
    if not known:
        return
    group.unsampled = max(group.partitions - len(known), 0)
    group.lag = sum(sample["lag"] for sample in known)
    group.eta_s = max(
        (each["eta_s"] for each in known if each["eta_s"] is not None), default=None
    )
    timed = [sample for sample in known if sample["time_lag_ms"] is not None]
    is_incomplete = any(each["lag"] and each["time_lag_ms"] is None for each in known)
    if not timed:
        return
    latest = max(timed, key=lambda sample: sample["time_lag_ms"])
    if is_incomplete and not latest["time_lag_ms"]:
        return  # 0 ms is the time lag of the partitions without lag only
    group.time_lag_ms = latest["time_lag_ms"]
    is_extrapolated = latest["time_lag_method"] == "extrapolated"
    group.is_lower_bound = is_extrapolated or is_incomplete


def _add_verdicts(reader: TableReader, groups: dict[str, GroupRow]) -> None:
    """Set the newest verdict of each group, and those of its partitions if it is not
    OK.
    """
    verdicts = TableQuery(
        "group_status",
        (("window_end_ts", "descending"),),
        where=pc.field("topic").is_null(),  # row of the whole group
        first_of=("group_id",),
        columns=("group_id", "window_end_ts", "verdict", "rule"),
    )
    for row in reader.query(verdicts)[0]:
        if group := groups.get(row["group_id"]):
            group.verdict, group.rule = row["verdict"], row["rule"]
            group.evaluated = row["window_end_ts"]
    troubled = [each.group_id for each in groups.values() if each.verdict != "OK"]
    recent = reader.recent("group_status", "window_end_ts")
    of_partitions = TableQuery(
        "group_status",
        (("window_end_ts", "descending"),),
        among={"group_id": troubled},
        where=pc.field("topic").is_valid() & (True if recent is None else recent),
        first_of=PARTITION_KEY,
        having=pc.field("verdict") != "OK",
        final_order=tuple((each, "ascending") for each in PARTITION_KEY),
        columns=(*PARTITION_KEY, "window_end_ts", "verdict", "rule", "lag"),
    )
    for row in reader.query(of_partitions)[0]:
        group = groups.get(row["group_id"])
        if group and row["window_end_ts"] == group.evaluated:
            group.troubles.append(row)


def worst_time_lag(groups: Iterable[GroupRow]) -> tuple[GroupRow | None, int]:
    """Return the group with the largest time lag, and the number of groups behind by an
    unknown time.

    No group is returned when nothing is known, or when the only known time lags are 0
    while other groups are behind.
    """
    listed = list(groups)
    unknown = sum(group.time_lag_ms is None and group.lag != 0 for group in listed)
    timed = [group for group in listed if group.time_lag_ms is not None]
    worst = max(timed, key=lambda group: group.time_lag_ms or 0, default=None)
    if worst and not worst.time_lag_ms and unknown:
        worst = None
    return worst, unknown
