"""What happened over time, as rows for charts: rebalances, owners and lag.

Times are ms since 1970. A chart that has more marks than a phone can draw is of no use,
so each has its most, and says what it leaves out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import pyarrow.compute as pc

from coterie.pipeline.report.facts import Facts, of_groups
from coterie.pipeline.report.rows import Ask
from coterie.pipeline.report.texts import count, epoch_ms, moment, seen, span

Row: TypeAlias = dict[str, Any]
LANES_MAX: Final = 20
"""Groups in the strip of rebalances."""
REBALANCES_MAX: Final = 1_500
CHOICES_MAX: Final = 12
"""Groups that the charts of one group can be set to."""
OWNERS_MAX: Final = 400
"""Spans of ownership of one group."""
POINTS_MAX: Final = 200
"""Samples of one line."""


def rebalances(facts: Facts) -> tuple[list[Row], int]:
    """The newest rebalances of the groups that had most, and how many there are."""
    ask = Ask(
        "rebalance_timeline",
        (("start_ts", "descending"),),
        where=pc.field("start_ts").is_valid(),
        limit=REBALANCES_MAX,
    )
    rows, found = facts.first(ask)
    most = Counter(each["group_id"] for each in rows).most_common(LANES_MAX)
    lanes = {group for group, _ in most}
    return [_tick(each) for each in rows if each["group_id"] in lanes], found


def _tick(row: Row) -> Row:
    kind = "" if row["is_duration_exact"] else "at most "
    took = row["duration_ms"]
    return {
        "group": seen(row["group_id"]),
        "at": epoch_ms(row["start_ts"]),
        "when": moment(row["start_ts"]),
        "cause": row["cause"],
        "epoch": row["epoch"],
        "members": f"{row['members_before']} → {row['members_after']}",
        "joined": _some(row["joined"]),
        "left": _some(row["left"]),
        "moved": f"{row['partitions_moved']} of {row['partitions_total']}",
        "took": "not known" if took is None else kind + span(took),
        "storm": row["storm_id"],
    }


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(seen, names[:5])) + more or "nobody"


def storms(ticks: Iterable[Row]) -> list[Row]:
    """The storms that rebalances are part of: from their first to their last."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for each in ticks:
        if each["storm"]:
            found[each["group"], each["storm"]].append(each)
    return [
        {
            "group": group,
            "from": min(each["at"] for each in rows),
            "until": max(each["at"] for each in rows),
            "storm": f"{len(rows)} rebalances in a storm",
        }
        for (group, _), rows in found.items()
    ]


def owners(facts: Facts, groups: Sequence[str]) -> dict[str, list[Row]]:
    """The newest spans of ownership of each group."""
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
    table = facts.table("partition_ownership_history", columns, of_groups(groups))
    until, names = epoch_ms(facts.as_of), facts.topic_names()
    found: dict[str, list[Row]] = {each: [] for each in groups}
    for row in table.sort_by([("valid_from", "descending")]).to_pylist():
        if len(found[row["group_id"]]) < OWNERS_MAX:
            known = names.get(row["topic_id"], row["topic_id"])
            row["topic"] = row["topic"] or known
            found[row["group_id"]].append(_lane(row, until))
    return {group: rows for group, rows in found.items() if rows}


def _lane(row: Row, until_ms: int) -> Row:
    end = row["valid_to"]
    return {
        "part": f"{seen(row['topic'])}-{row['partition']}",
        "from": epoch_ms(row["valid_from"]),
        "until": epoch_ms(end) if end else until_ms,
        "owner": seen(row["client_id"] or row["member_id"]),
        "member": seen(row["member_id"]),
        "host": seen(row["client_host"] or "not known"),
        "since": moment(row["valid_from"]),
        "till": moment(end) if end else "still",
        "end": row["end_reason"].replace("_", " "),
    }


def lag_lines(facts: Facts, groups: Sequence[str]) -> dict[str, list[Row]]:
    """Where each topic ended, where the group was and how far behind, at each sample;
    partitions of a topic added up, the latest of their time lags."""
    columns = (
        "group_id",
        "topic",
        "sample_ts",
        "log_end_offset",
        "committed_offset",
        "lag",
        "time_lag_ms",
    )
    recent = facts.recent("lag_history", "sample_ts")
    table = facts.table("lag_history", columns, of_groups(groups, recent))
    summed = table.group_by(["group_id", "topic", "sample_ts"]).aggregate(
        [
            ("log_end_offset", "sum"),
            ("committed_offset", "sum"),
            ("lag", "sum"),
            ("time_lag_ms", "max"),
        ]
    )
    lines: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in summed.sort_by("sample_ts").to_pylist():
        lines[row["group_id"], row["topic"]].append(_point(row))
    found: dict[str, list[Row]] = defaultdict(list)
    for (group, _), points in lines.items():
        found[group] += thinned(points)
    return dict(found)


def _point(row: Row) -> Row:
    late = row["time_lag_ms_max"]
    return {
        "topic": seen(row["topic"]),
        "at": epoch_ms(row["sample_ts"]),
        "end": row["log_end_offset_sum"],
        "committed": row["committed_offset_sum"],
        "lag": row["lag_sum"],
        "late": None if late is None else late / 1_000,
        "when": moment(row["sample_ts"]),
        "numbers": f"{count(row['lag_sum'])} records, {span(late)}",
    }


def thinned(points: list[Row]) -> list[Row]:
    """At most so many, evenly; the newest among them."""
    step = -(-len(points) // POINTS_MAX) or 1
    return points[(len(points) - 1) % step :: step]


def resets(facts: Facts, groups: Sequence[str]) -> dict[str, list[Row]]:
    """When groups went back."""
    where = of_groups(groups, pc.field("direction") == "rewind")
    columns = ("group_id", "topic", "partition", "commit_ts", "delta", "actor")
    found: dict[str, list[Row]] = {each: [] for each in groups}
    for row in facts.rows("offset_commit_history", columns, where):
        if row["commit_ts"]:
            found[row["group_id"]].append(
                {
                    "topic": seen(row["topic"]),
                    "at": epoch_ms(row["commit_ts"]),
                    "when": moment(row["commit_ts"]),
                    "what": f"partition {row['partition']} went back by {-row['delta']}"
                    f" ({row['actor']})",
                }
            )
    return {group: rows[-POINTS_MAX:] for group, rows in found.items()}
