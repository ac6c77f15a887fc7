"""The lists of a report: what goes by itself, what may go, who uses how much."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, TypeAlias

import pyarrow.compute as pc

from coterie.pipeline.report.facts import Facts
from coterie.pipeline.report.rows import Ask
from coterie.pipeline.report.texts import delete_command, seen

Row: TypeAlias = dict[str, Any]
LIST_MAX: Final = 50
USERS_MAX: Final = 8
"""Groups that usage is shown of, each day; the others are added up."""
USAGE_DAYS: Final = 14


def expiring(facts: Facts) -> tuple[list[Row], int]:
    """The offsets that go next, and how many go at all."""
    ask = Ask(
        "expiry_forecast",
        (("expires_ts", "ascending"), ("group_id", "ascending")),
        where=pc.field("expires_ts").is_valid(),
        limit=LIST_MAX,
    )
    return facts.first(ask)


def expiring_within(facts: Facts, span: timedelta) -> int:
    """How many offsets go within a time."""
    soon = pc.field("expires_ts") <= facts.as_of + span
    return len(facts.table("expiry_forecast", ("group_id",), soon))


def stale(facts: Facts) -> tuple[list[Row], int]:
    """Groups that may go, the surest first, with what shows what deleting one does."""
    ask = Ask(
        "stale_group_candidates",
        (("score", "descending"), ("group_id", "ascending")),
        where=pc.field("class") != "keep",
        limit=LIST_MAX,
    )
    rows, found = facts.first(ask)
    for each in rows:
        free = not each["blockers"]
        each["command"] = delete_command(each["group_id"]) if free else None
    return rows, found


def load(facts: Facts) -> list[Row]:
    """Each partition of the coordinator's log, for a chart."""
    columns = (
        "log_partition",
        "broker_id",
        "groups",
        "commits_per_s",
        "top_group_id",
        "top_group_share",
    )
    return [
        {
            "partition": each["log_partition"],
            "broker": "not known"
            if each["broker_id"] is None
            else str(each["broker_id"]),
            "groups": each["groups"],
            "rate": each["commits_per_s"],
            "top": seen(each["top_group_id"] or "nobody"),
            "share": each["top_group_share"] or 0,
        }
        for each in facts.rows("coordinator_load", columns)
    ]


def usage(facts: Facts) -> list[Row]:
    """What the groups that use most consumed each day, and all others together."""
    columns = ("day", "group_id", "offsets_consumed", "commits", "log_bytes_written")
    table = facts.table("group_usage_daily", columns)
    if not len(table):
        return []
    first = pc.max(table["day"]).as_py() - timedelta(days=USAGE_DAYS - 1)
    table = table.filter(pc.field("day") >= first)
    totals = table.group_by("group_id").aggregate([("offsets_consumed", "sum")])
    order = [("offsets_consumed_sum", "descending"), ("group_id", "ascending")]
    top = set(totals.sort_by(order)["group_id"][:USERS_MAX].to_pylist())
    days: dict[tuple[str, str], Row] = {}
    for each in table.to_pylist():
        name = seen(each["group_id"]) if each["group_id"] in top else "all others"
        key = each["day"].isoformat(), name
        row = days.setdefault(
            key, {"day": key[0], "group": name, "consumed": 0, "commits": 0, "bytes": 0}
        )
        row["consumed"] += each["offsets_consumed"]
        row["commits"] += each["commits"]
        row["bytes"] += each["log_bytes_written"]
    return [days[key] for key in sorted(days)]


def quality(facts: Facts) -> Row:
    """All partitions of the log together: what is missing or does not read."""
    columns = (
        "records",
        "quarantined",
        "gaps",
        "missing_offsets",
        "held_back",
        "aborted",
    )
    table = facts.table("data_quality", columns)
    return {each: pc.sum(table[each]).as_py() or 0 for each in columns}
