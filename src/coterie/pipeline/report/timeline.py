"""Events over time as rows of charts: rebalances, partition owners and lag.

Times are ms since 1970. Each chart has a maximum number of marks, so that a phone can
draw it; the page shows the number of omitted ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import pyarrow.compute as pc

from coterie.pipeline.lake.query import TableQuery, TableReader
from coterie.pipeline.report.sections import of_groups
from coterie.pipeline.report.texts import count, epoch_ms, moment, span, visible

Row: TypeAlias = dict[str, Any]
LANES_MAX: Final = 20
"""Groups in the chart of rebalances."""
REBALANCES_MAX: Final = 1_500
CHOICES_MAX: Final = 12
"""Groups that can be selected for the charts of one group."""
_OWNERS_MAX: Final = 400
"""Spans of ownership of one group."""
_POINTS_MAX: Final = 200
"""Samples of one line."""
_NAMES_MAX: Final = 5


def largest_groups(reader: TableReader, table: str, time_column: str) -> list[str]:
    """Return the groups with the most rows in a table, as many as a chart can show."""
    rows = reader.table(table, ("group_id",), reader.recent(table, time_column))
    counts = rows.group_by("group_id").aggregate([([], "count_all")])
    order = [("count_all", "descending"), ("group_id", "ascending")]
    groups: list[str] = counts.sort_by(order)["group_id"].to_pylist()
    return groups[:CHOICES_MAX]


def rebalances(reader: TableReader) -> tuple[list[Row], int]:
    """Return the newest rebalances of the groups with the most rebalances, and the
    total number of rebalances.
    """
    query = TableQuery(
        "rebalance_timeline",
        (("start_ts", "descending"),),
        where=pc.field("start_ts").is_valid(),
        limit=REBALANCES_MAX,
    )
    rows, total = reader.query(query)
    most = Counter(row["group_id"] for row in rows).most_common(LANES_MAX)
    lanes = {group for group, _ in most}
    return [_rebalance(row) for row in rows if row["group_id"] in lanes], total


def _rebalance(row: Row) -> Row:
    prefix = "" if row["is_duration_exact"] else "at most "
    duration = row["duration_ms"]
    return {
        "group": visible(row["group_id"]),
        "at": epoch_ms(row["start_ts"]),
        "when": moment(row["start_ts"]),
        "cause": row["cause"],
        "epoch": row["epoch"],
        "members": f"{row['members_before']} → {row['members_after']}",
        "joined": _first_names(row["joined"]),
        "left": _first_names(row["left"]),
        "moved": f"{row['partitions_moved']} of {row['partitions_total']}",
        "took": "unknown" if duration is None else prefix + span(duration),
        "storm": row["storm_id"],
    }


def _first_names(names: Sequence[str]) -> str:
    rest = len(names) - _NAMES_MAX
    more = f" and {rest} more" if rest > 0 else ""
    return ", ".join(map(visible, names[:_NAMES_MAX])) + more or "none"


def storms(rebalances: Iterable[Row]) -> list[Row]:
    """Return the rebalance storms, each from its first to its last rebalance."""
    members: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for each in rebalances:
        if each["storm"]:
            members[each["group"], each["storm"]].append(each)
    return [
        {
            "group": group,
            "from": min(each["at"] for each in rows),
            "until": max(each["at"] for each in rows),
            "storm": f"{len(rows)} rebalances in a storm",
        }
        for (group, _), rows in members.items()
    ]


def owners(reader: TableReader, groups: Sequence[str]) -> dict[str, list[Row]]:
    """Return the newest ownership intervals by group."""
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
    table = reader.table("partition_ownership_history", columns, of_groups(groups))
    until, names = epoch_ms(reader.as_of), reader.topic_names()
    spans: dict[str, list[Row]] = {group: [] for group in groups}
    for row in table.sort_by([("valid_from", "descending")]).to_pylist():
        if len(spans[row["group_id"]]) < _OWNERS_MAX:
            topic = row["topic"] or names.get(row["topic_id"], row["topic_id"])
            end = row["valid_to"]
            spans[row["group_id"]].append(
                {
                    "part": f"{visible(topic)}-{row['partition']}",
                    "from": epoch_ms(row["valid_from"]),
                    "until": epoch_ms(end) if end else until,
                    "owner": visible(row["client_id"] or row["member_id"]),
                    "member": visible(row["member_id"]),
                    "host": visible(row["client_host"] or "unknown"),
                    "since": moment(row["valid_from"]),
                    "till": moment(end) if end else "still",
                    "end": row["end_reason"].replace("_", " "),
                }
            )
    return {group: rows for group, rows in spans.items() if rows}


def lag_lines(reader: TableReader, groups: Sequence[str]) -> dict[str, list[Row]]:
    """Return the end offset, committed offset and lag of each topic, by group.

    Offsets are summed over the partitions of a topic; the time lag is the largest.
    """
    columns = (
        "group_id",
        "topic",
        "sample_ts",
        "log_end_offset",
        "committed_offset",
        "lag",
        "time_lag_ms",
    )
    recent = reader.recent("lag_history", "sample_ts")
    table = reader.table("lag_history", columns, of_groups(groups, recent))
    sums = table.group_by(["group_id", "topic", "sample_ts"]).aggregate(
        [
            ("log_end_offset", "sum"),
            ("committed_offset", "sum"),
            ("lag", "sum"),
            ("time_lag_ms", "max"),
        ]
    )
    lines: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sums.sort_by("sample_ts").to_pylist():
        time_lag = row["time_lag_ms_max"]
        lines[row["group_id"], row["topic"]].append(
            {
                "topic": visible(row["topic"]),
                "at": epoch_ms(row["sample_ts"]),
                "end": row["log_end_offset_sum"],
                "committed": row["committed_offset_sum"],
                "lag": row["lag_sum"],
                "late": None if time_lag is None else time_lag / 1_000,
                "when": moment(row["sample_ts"]),
                "numbers": f"{count(row['lag_sum'])} records, {span(time_lag)}",
            }
        )
    by_group: dict[str, list[Row]] = defaultdict(list)
    for (group, _), points in lines.items():
        by_group[group] += thin_out(points)
    return dict(by_group)


def thin_out(points: list[Row]) -> list[Row]:
    """Return evenly spaced points, at most the maximum, with the newest one."""
    step = -(-len(points) // _POINTS_MAX) or 1
    return points[(len(points) - 1) % step :: step]


def rewinds(reader: TableReader, groups: Sequence[str]) -> dict[str, list[Row]]:
    """Return the commits that moved an offset back, by group."""
    where = of_groups(groups, pc.field("direction") == "rewind")
    columns = ("group_id", "topic", "partition", "commit_ts", "delta", "actor")
    by_group: dict[str, list[Row]] = {group: [] for group in groups}
    for row in reader.rows("offset_commit_history", columns, where):
        if row["commit_ts"]:
            by_group[row["group_id"]].append(
                {
                    "topic": visible(row["topic"]),
                    "at": epoch_ms(row["commit_ts"]),
                    "when": moment(row["commit_ts"]),
                    "what": f"partition {row['partition']} moved back by"
                    f" {-row['delta']} ({row['actor']})",
                }
            )
    return {group: rows[-_POINTS_MAX:] for group, rows in by_group.items()}
