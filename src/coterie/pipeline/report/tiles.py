"""The numbers on top of a report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow.compute as pc

from coterie.pipeline.report import lists, texts
from coterie.pipeline.report.facts import Facts
from coterie.pipeline.report.groups import GroupRow


@dataclass(frozen=True)
class Tile:
    """A number, what it counts, and how bad it is: "", "warn" or "bad"."""

    name: str
    title: str
    value: str
    about: str
    level: str = ""


def tiles(facts: Facts, everyone: list[GroupRow], stale: int) -> list[Tile]:
    """All of them."""
    day = timedelta(days=1)
    storms = storms_since(facts, facts.as_of - day)
    soon = lists.expiring_within(facts, day)
    lost = sum(each.messages_lost for each in everyone)
    return [
        Tile("groups", "Groups", texts.count(len(everyone)), _kinds(everyone)),
        _trouble(everyone),
        _latest(everyone),
        _counted("storms", "Storms in 24 h", storms, "of rebalances"),
        _counted("expiring", "Expire in 24 h", soon, "committed offsets"),
        Tile("stale", "Stale groups", texts.count(stale), "candidates to be deleted"),
        _counted("lost", "Records lost", lost, "gone before they were read", "bad"),
    ]


def storms_since(facts: Facts, since: datetime) -> int:
    """Storms with a rebalance since then."""
    where = pc.field("storm_id").is_valid() & (pc.field("start_ts") >= since)
    rows = facts.rows("rebalance_timeline", ("group_id", "storm_id"), where)
    return len({(each["group_id"], each["storm_id"]) for each in rows})


def _counted(
    name: str, title: str, value: int, about: str, level: str = "warn"
) -> Tile:
    return Tile(name, title, texts.count(value), about, level if value else "")


def _kinds(everyone: list[GroupRow]) -> str:
    """How many are of which type and state: 3 classic, 1 Empty."""
    types = Counter(each.group_type for each in everyone if each.group_type)
    states = Counter(each.state for each in everyone if each.state)
    return ", ".join(
        f"{texts.count(number)} {name}"
        for counts in (types, states)
        for name, number in counts.most_common()
    )


def _trouble(everyone: list[GroupRow]) -> Tile:
    bad = sum(each.level == "bad" for each in everyone)
    warned = sum(each.level == "warn" for each in everyone)
    level = "bad" if bad else "warn" if warned else ""
    about = f"{texts.count(warned)} more with a warning"
    return Tile("trouble", "In trouble", texts.count(bad), about, level)


def _latest(everyone: list[GroupRow]) -> Tile:
    late = [each for each in everyone if each.time_lag_ms is not None]
    if not late:
        return Tile("late", "Worst time lag", texts.NOTHING, "none is known")
    worst = max(late, key=lambda each: each.time_lag_ms or 0)
    return Tile("late", "Worst time lag", worst.time_lag, texts.seen(worst.group_id))
